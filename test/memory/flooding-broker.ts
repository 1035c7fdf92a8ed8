import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { generate, type Packet, parser } from 'mqtt-packet';

/**
 * A broker for one client, which sends messages as fast as the client reads them. It keeps no message and no log: of a
 * flood only what is in the socket takes memory. Encodes and decodes with mqtt-packet alone.
 */
export class FloodingBroker {
  readonly counts = { connects: 0, pings: 0, acknowledged: 0 };
  /** Answers to the client's own PUBLISH, PUBREL and SUBSCRIBE wait here instead of being sent. */
  readonly withheld: Buffer[] = [];
  withholding = false;
  /** Messages handed to the socket. */
  flooded = 0;
  private socket: Socket | undefined;
  private protocolVersion = 4;
  /** Packet identifiers of QoS 1 messages without PUBACK. */
  private readonly inFlight = new Set<number>();
  private nextId = 1;
  private onRoom: () => void = () => undefined;

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => this.accept(socket));
  }

  static async start(): Promise<FloodingBroker> {
    const server = createServer({ noDelay: true });
    const broker = new FloodingBroker(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /**
   * Sends `count` messages of `bytes` bytes; resolves when the last one is handed to the socket (the kernel's buffers hold
   * some megabytes). Each payload begins with its number, eight digits.
   */
  async flood(count: number, options: { readonly qos: 0 | 1; readonly bytes: number }, from = 0): Promise<void> {
    const payload = Buffer.alloc(options.bytes, 0x78);
    for (let i = 0; i < count; i += 1) {
      payload.write(String(from + i).padStart(8, '0'));
      const messageId = options.qos === 0 ? undefined : await this.freeId();
      const packet: Packet = {
        cmd: 'publish',
        topic: 'flood',
        payload,
        qos: options.qos,
        dup: false,
        retain: false,
        ...(messageId !== undefined && { messageId }),
      };
      const { socket } = this;
      if (socket === undefined) throw new Error('the client is gone');
      this.flooded = from + i + 1;
      // A copy: `generate` may keep the payload, which changes with the next message.
      const goOn = socket.write(Buffer.from(generate(packet, { protocolVersion: this.protocolVersion })));
      if (!goOn) await new Promise<void>((resolve) => (this.onRoom = resolve));
    }
  }

  /** Sends the oldest answer that was withheld. */
  answerOne(): void {
    const answer = this.withheld.shift();
    if (answer === undefined) throw new Error('nothing to answer');
    this.socket?.write(answer);
  }

  async close(): Promise<void> {
    this.socket?.destroy();
    this.server.close();
    await once(this.server, 'close');
  }

  private async freeId(): Promise<number> {
    while (this.inFlight.has(this.nextId)) await new Promise((resolve) => setTimeout(resolve, 5));
    const id = this.nextId;
    this.inFlight.add(id);
    this.nextId = id === 65_535 ? 1 : id + 1;
    return id;
  }

  private accept(socket: Socket): void {
    this.socket = socket;
    const decoder = parser();
    decoder.on('packet', (packet) => this.receive(packet));
    socket.on('data', (chunk) => decoder.parse(chunk));
    socket.on('error', () => undefined);
    socket.on('drain', () => this.onRoom());
    socket.on('close', () => {
      if (this.socket === socket) this.socket = undefined;
      this.onRoom();
    });
  }

  private receive(packet: Packet): void {
    switch (packet.cmd) {
      case 'connect':
        this.counts.connects += 1;
        this.protocolVersion = packet.protocolVersion ?? 4;
        return this.send({ cmd: 'connack', sessionPresent: false, returnCode: 0, reasonCode: 0 });
      case 'pingreq':
        this.counts.pings += 1;
        return this.send({ cmd: 'pingresp' });
      case 'puback':
        this.counts.acknowledged += 1;
        this.inFlight.delete(packet.messageId as number);
        return;
      case 'subscribe':
        return this.answer({
          cmd: 'suback',
          messageId: packet.messageId as number,
          granted: packet.subscriptions.map(({ qos }) => qos),
        });
      case 'publish':
        return this.answer({ cmd: packet.qos === 2 ? 'pubrec' : 'puback', messageId: packet.messageId as number });
      case 'pubrel':
        return this.answer({ cmd: 'pubcomp', messageId: packet.messageId as number });
      default:
    }
  }

  private answer(packet: Packet): void {
    if (this.withholding) this.withheld.push(Buffer.from(this.encode(packet)));
    else this.send(packet);
  }

  private send(packet: Packet): void {
    this.socket?.write(this.encode(packet));
  }

  private encode(packet: Packet): Buffer {
    return generate(packet, { protocolVersion: this.protocolVersion });
  }
}
