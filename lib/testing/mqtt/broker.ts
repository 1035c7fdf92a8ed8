import { type Packet } from 'mqtt-packet';
import { type Duplex } from 'node:stream';
import { InMemoryBroker, type SendVerdict } from '../broker.js';
import { DEFAULT_WAIT } from '../wire-log.js';
import { ConnectHandler } from './connect-handler.js';
import { MqttBrokerConnection } from './connection.js';
import { type MqttBrokerOptions } from './options.js';
import { PacketHandler } from './packet-handler.js';
import { type MalformedPacketError, type MqttPackets } from './packets.js';
import { Router } from './router.js';
import { type MqttSession, type PublishProperties } from './session.js';
import { SessionStore } from './session-store.js';
import { Wills } from './wills.js';

/** Options of {@link InMemoryMqttBroker.publish}. */
export interface BrokerPublishOptions {
  /** Default 1. */
  readonly qos?: 0 | 1 | 2;
  readonly retain?: boolean;
  /** MQTT 5 properties, named as in mqtt-packet. */
  readonly properties?: PublishProperties;
}

/** Looks at a received packet before the broker does; `ignore`: the broker takes no notice of it. */
export type ReceiveHook = (packet: Packet, connection: MqttBrokerConnection) => 'ignore' | undefined | void;
/** Looks at a packet that the broker is about to send by itself; see {@link InMemoryMqttBroker.onSend}. */
export type SendHook = (packet: Packet, connection: MqttBrokerConnection) => SendVerdict<Packet>;

/**
 * An MQTT 3.1.1 and 5 broker in this process, for tests: it keeps the protocol by itself and can be told to break it.
 * A test double and no server: it holds everything in memory and trusts whoever runs it.
 *
 * It reads and writes with mqtt-packet and shares no code with the client of this package.
 *
 * @example
 * const broker = await InMemoryMqttBroker.start();
 * broker.publish('devices/1', 'hello', { qos: 1 });
 * await broker.log.waitForReceived('puback');
 * await broker.close();
 */
export class InMemoryMqttBroker extends InMemoryBroker<MqttPackets, MqttBrokerConnection, Packet, ReceiveHook> {
  /**
   * Decides on each message of a client: a reason code for its PUBACK or PUBREC (0x80 and above: not delivered), or
   * undefined.
   */
  onPublish:
    ((packet: MqttPackets['publish'], connection: MqttBrokerConnection) => number | undefined | void) | undefined;

  private readonly sessions: SessionStore;
  private readonly router: Router;
  private readonly connectHandler: ConnectHandler;
  private readonly packetHandler: PacketHandler;
  private readonly wills: Wills;
  private readonly refusals: number[] = [];

  private constructor(
    /** May be changed at any time; what concerns CONNECT counts from the next connection on. */
    readonly options: MqttBrokerOptions,
  ) {
    super(options.logLimit);
    this.wills = new Wills((message) => this.router.publish(message));
    this.sessions = new SessionStore(options, (session) => this.wills.sessionEnded(session.clientId));
    this.router = new Router(this.sessions, options);
    this.connectHandler = new ConnectHandler({
      options,
      sessions: this.sessions,
      takeRefusal: () => this.refusals.shift(),
      connectionOf: (clientId) =>
        this.connections.find((one) => one.clientId === clientId && one.session !== undefined),
      returned: (clientId) => this.wills.cancel(clientId),
    });
    this.packetHandler = new PacketHandler({
      options,
      router: this.router,
      verdict: (packet, connection) => this.onPublish?.(packet, connection) ?? undefined,
    });
  }

  /** Listens on 127.0.0.1 and a free port unless told otherwise. */
  static start(options: MqttBrokerOptions = {}): Promise<InMemoryMqttBroker> {
    return new InMemoryMqttBroker({ ...options }).open(options);
  }

  /** `mqtt://127.0.0.1:port` */
  get url(): string {
    return `mqtt://${this.listener.host}:${this.port}`;
  }

  /** Routes a message as if a client had published it. */
  publish(topic: string, payload: Uint8Array | string, options: BrokerPublishOptions = {}): void {
    const { messageExpiryInterval, ...properties } = options.properties ?? {};
    this.router.publish({
      topic,
      payload: typeof payload === 'string' ? Buffer.from(payload) : Buffer.from(payload),
      qos: options.qos ?? 1,
      retain: options.retain ?? false,
      properties: options.properties === undefined ? undefined : properties,
      expiresAt: messageExpiryInterval === undefined ? undefined : performance.now() + messageExpiryInterval * 1000,
      publisher: undefined,
    });
  }

  /** What the broker keeps for a client. */
  session(clientId: string): MqttSession | undefined {
    return this.sessions.get(clientId);
  }

  /** Loses a session as a broker without persistence does in a restart: the next CONNECT gets session present = 0. */
  dropSession(clientId: string): boolean {
    return this.sessions.end(clientId);
  }

  /** The next `times` CONNECTs are refused with this CONNACK code. */
  refuseConnect(code: number, times = 1): void {
    for (let count = 0; count < times; count++) this.refusals.push(code);
  }

  /** The broker's own packets of these types are not sent, until the returned function is called. */
  withhold(...types: Packet['cmd'][]): () => void {
    return this.onSend((packet) => (types.includes(packet.cmd) ? 'withhold' : undefined));
  }

  /** The broker's own packets of this type leave `ms` later, until the returned function is called. */
  delay(type: Packet['cmd'], ms: number): () => void {
    return this.onSend((packet, connection) => {
      if (packet.cmd !== type) return undefined;
      setTimeout(() => connection.send(packet), ms);
      return 'withhold';
    });
  }

  /** Resolves with the next client that has sent CONNECT and is connected (or the one that already is). */
  waitForClient(clientId?: string, timeoutMs = DEFAULT_WAIT): Promise<MqttBrokerConnection> {
    const connected = (): MqttBrokerConnection | undefined =>
      this.connections.findLast(
        (one) => one.session !== undefined && (clientId === undefined || one.clientId === clientId),
      );
    return this.log.waitFor(connected, timeoutMs, `client ${clientId ?? ''}`);
  }

  /** Ends everything: sockets, sessions, timers. */
  async close(): Promise<void> {
    this.cut();
    this.sessions.clear();
    this.wills.clear();
    await this.listener.close();
  }

  protected accept(number: number, stream: Duplex): MqttBrokerConnection {
    const { options } = this;
    return new MqttBrokerConnection(number, stream, {
      log: this.log,
      get maximumPacketSize() {
        return options.limits?.maximumPacketSize ?? 268_435_460;
      },
      receive: (packet, connection) => this.receive(packet, connection),
      malformed: (error, connection) => this.malformed(error, connection),
      closed: (connection) => this.closed(connection),
      outgoing: (packet, connection) => this.outgoing(packet, connection),
      violation: (text, connection) => this.violation(text, connection),
    });
  }

  private receive(packet: Packet, connection: MqttBrokerConnection): void | Promise<void> {
    if (this.ignored(packet, connection)) return;
    if (this.options.automatic === false) {
      if (packet.cmd === 'connect') this.noteConnect(packet, connection);
      return;
    }
    if (packet.cmd === 'connect') {
      if (connection.connect !== undefined) return this.broken('a second CONNECT [MQTT-3.1.0-2]', connection);
      return this.connectHandler.connect(packet, connection);
    }
    if (connection.connect === undefined) {
      return this.broken(`${packet.cmd.toUpperCase()} before CONNECT [MQTT-3.1.0-1]`, connection);
    }
    if (packet.cmd === 'auth') return this.connectHandler.auth(packet, connection);
    if (connection.session === undefined) {
      return this.broken(`${packet.cmd.toUpperCase()} before authentication ended [MQTT-3.1.4-6]`, connection);
    }
    this.packetHandler.handle(packet, connection, connection.session);
  }

  private noteConnect(packet: MqttPackets['connect'], connection: MqttBrokerConnection): void {
    connection.connect = packet;
    connection.clientId = packet.clientId;
    connection.version = packet.protocolVersion === 5 ? 5 : 4;
    connection.receiveMaximum = packet.properties?.receiveMaximum ?? 65_535;
  }

  private malformed(error: MalformedPacketError, connection: MqttBrokerConnection): void {
    this.violation(error.message, connection);
    if (connection.session !== undefined) connection.disconnect(error.reasonCode);
    else connection.end();
  }

  private broken(text: string, connection: MqttBrokerConnection): void {
    this.violation(text, connection);
    connection.disconnect(0x82);
  }

  private violation(text: string, connection: MqttBrokerConnection): void {
    this.violations.push(`connection ${connection.number} (${connection.clientId}): ${text}`);
  }

  private closed(connection: MqttBrokerConnection): void {
    const { session } = connection;
    if (session === undefined || session.connection !== connection) return;
    const will = connection.disconnected ? undefined : connection.connect?.will;
    const remaining = session.expiry;
    if (will !== undefined) this.wills.connectionLost(connection.clientId, will, remaining);
    this.sessions.detach(session);
  }
}
