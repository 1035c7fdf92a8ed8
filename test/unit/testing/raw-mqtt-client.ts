import { generate, type Packet, parser } from 'mqtt-packet';
import { connect, type Socket } from 'node:net';

type Of<Cmd extends Packet['cmd']> = Extract<Packet, { cmd: Cmd }>;

/** A socket that speaks MQTT packets through mqtt-packet and answers nothing by itself. */
export class RawMqttClient {
  readonly received: Packet[] = [];
  readonly bytes: Buffer[] = [];
  closed = false;
  private readonly waiters = new Set<() => void>();

  private constructor(
    private readonly socket: Socket,
    readonly version: 4 | 5,
  ) {
    const reader = parser({ protocolVersion: version });
    reader.on('packet', (packet) => this.received.push(packet));
    socket.on('data', (chunk: Buffer) => {
      this.bytes.push(chunk);
      reader.parse(chunk);
      this.wake();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.closed = true;
      this.wake();
    });
  }

  /** Opens a socket without a word. */
  static async open(port: number, version: 4 | 5 = 5): Promise<RawMqttClient> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new RawMqttClient(socket, version);
  }

  /** CONNECT with Clean Start 0 and an hour of session (MQTT 5) unless told otherwise; returns the CONNACK. */
  async connect(options: Partial<Of<'connect'>> = {}): Promise<Of<'connack'>> {
    this.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: this.version,
      clientId: 'raw',
      clean: false,
      keepalive: 0,
      ...options,
      ...(this.version === 5 && { properties: { sessionExpiryInterval: 3600, ...options.properties } }),
    });
    return this.next('connack');
  }

  /** A connected client. */
  static async connected(port: number, version: 4 | 5 = 5, options: Partial<Of<'connect'>> = {}) {
    const client = await RawMqttClient.open(port, version);
    await client.connect(options);
    return client;
  }

  send(packet: Packet): void {
    this.socket.write(generate(packet, { protocolVersion: this.version }));
  }

  sendRaw(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  publish(topic: string, payload: string, options: Partial<Of<'publish'>> = {}): void {
    this.send({ cmd: 'publish', topic, payload, qos: 0, dup: false, retain: false, ...options });
  }

  /** SUBSCRIBE; returns the codes. */
  async subscribe(filter: string, qos: 0 | 1 | 2 = 1, options: object = {}): Promise<number[]> {
    this.send({ cmd: 'subscribe', messageId: 1000, subscriptions: [{ topic: filter, qos, ...options }] });
    return (await this.next('suback')).granted as number[];
  }

  /** The next packet of this type that nobody has taken yet. */
  async next<Cmd extends Packet['cmd']>(cmd: Cmd): Promise<Of<Cmd>> {
    for (;;) {
      const at = this.received.findIndex((packet) => packet.cmd === cmd);
      if (at >= 0) return this.received.splice(at, 1)[0] as Of<Cmd>;
      if (this.closed) throw new Error(`closed while waiting for ${cmd}`);
      await this.change();
    }
  }

  async whenClosed(): Promise<void> {
    while (!this.closed) await this.change();
  }

  /** Proves that everything sent before has been answered: the broker works in order. */
  async settled(): Promise<void> {
    this.send({ cmd: 'pingreq' });
    await this.next('pingresp');
  }

  close(): void {
    this.socket.destroy();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.waiters.add(resolve));
  }

  private wake(): void {
    for (const waiter of this.waiters) waiter();
    this.waiters.clear();
  }
}
