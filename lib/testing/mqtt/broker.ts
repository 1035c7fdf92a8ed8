import { type Packet } from 'mqtt-packet';
import { Listener } from '../listener.js';
import { DEFAULT_WAIT, WireLog } from '../wire-log.js';
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
/**
 * Looks at a packet that the broker is about to send by itself: undefined lets it pass, `withhold` drops it, a packet,
 * bytes or a list of them go instead.
 */
export type SendHook = (
  packet: Packet,
  connection: MqttBrokerConnection,
) => 'withhold' | Packet | Buffer | readonly (Packet | Buffer)[] | undefined | void;

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
export class InMemoryMqttBroker {
  readonly log: WireLog<MqttPackets>;
  /** Where clients broke the specification, as sentences; empty in a healthy test. */
  readonly violations: string[] = [];
  /** Every connection so far, in the order of arrival; see {@link MqttBrokerConnection.open}. */
  readonly allConnections: MqttBrokerConnection[] = [];
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
  private readonly receiveHooks = new Set<ReceiveHook>();
  private readonly sendHooks = new Set<SendHook>();
  private readonly refusals: number[] = [];
  private listener!: Listener;

  private constructor(
    /** May be changed at any time; what concerns CONNECT counts from the next connection on. */
    readonly options: MqttBrokerOptions,
  ) {
    this.log = new WireLog(options.logLimit);
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
  static async start(options: MqttBrokerOptions = {}): Promise<InMemoryMqttBroker> {
    const broker = new InMemoryMqttBroker({ ...options });
    broker.listener = await Listener.start(options, (stream) => {
      broker.allConnections.push(
        new MqttBrokerConnection(broker.allConnections.length + 1, stream, {
          log: broker.log,
          get maximumPacketSize() {
            return broker.options.limits?.maximumPacketSize ?? 268_435_460;
          },
          receive: (packet, connection) => broker.receive(packet, connection),
          malformed: (error, connection) => broker.malformed(error, connection),
          closed: (connection) => broker.closed(connection),
          outgoing: (packet, connection) => broker.outgoing(packet, connection),
          violation: (text, connection) => broker.violation(text, connection),
        }),
      );
    });
    return broker;
  }

  get port(): number {
    return this.listener.port;
  }

  /** `mqtt://127.0.0.1:port` */
  get url(): string {
    return `mqtt://${this.listener.host}:${this.port}`;
  }

  /** The connections that are open, oldest first. */
  get connections(): MqttBrokerConnection[] {
    return this.allConnections.filter((connection) => connection.open);
  }

  /** The newest open connection. */
  get connection(): MqttBrokerConnection | undefined {
    return this.connections.at(-1);
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

  /** Adds a hook; the returned function removes it. */
  onReceive(hook: ReceiveHook): () => void {
    this.receiveHooks.add(hook);
    return () => this.receiveHooks.delete(hook);
  }

  /** Adds a hook; the returned function removes it. */
  onSend(hook: SendHook): () => void {
    this.sendHooks.add(hook);
    return () => this.sendHooks.delete(hook);
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

  /** Closes every connection without a packet. */
  cut(options: { readonly reset?: boolean } = {}): void {
    for (const connection of this.connections) connection.cut(options);
  }

  /** See {@link MqttBrokerConnection.stall}; for every open connection. */
  stall(what?: { readonly reads?: boolean; readonly writes?: boolean }): void {
    for (const connection of this.connections) connection.stall(what);
  }

  unstall(): void {
    for (const connection of this.connections) connection.unstall();
  }

  /** See {@link MqttBrokerConnection.truncateNext}; for every open connection. */
  truncate(length: number): void {
    for (const connection of this.connections) connection.truncateNext(length);
  }

  /** True: new connections are accepted and closed at once. */
  refuse(on = true): void {
    this.listener.refuse(on);
  }

  /** Nobody listens (ECONNREFUSED) until {@link listen}; open connections stay. */
  stopListening(): Promise<void> {
    return this.listener.stopListening();
  }

  /** Listens again, on the same port. */
  listen(): Promise<void> {
    return this.listener.listen();
  }

  /** See {@link WireLog.waitFor}. */
  waitFor<Result>(predicate: () => Result | undefined | null | false, timeoutMs = DEFAULT_WAIT): Promise<Result> {
    return this.log.waitFor(predicate, timeoutMs);
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

  private receive(packet: Packet, connection: MqttBrokerConnection): void | Promise<void> {
    for (const hook of this.receiveHooks) if (hook(packet, connection) === 'ignore') return;
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

  private outgoing(packet: Packet, connection: MqttBrokerConnection): readonly (Packet | Buffer)[] {
    for (const hook of this.sendHooks) {
      const verdict = hook(packet, connection);
      if (verdict === 'withhold') return [];
      if (verdict !== undefined)
        return Array.isArray(verdict) ? (verdict as (Packet | Buffer)[]) : [verdict as Packet | Buffer];
    }
    return [packet];
  }
}
