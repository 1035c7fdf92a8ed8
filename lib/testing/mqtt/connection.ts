import { type IPublishPacket, type IConnectPacket, type Packet } from 'mqtt-packet';
import { type Duplex } from 'node:stream';
import { Link } from '../link.js';
import { DEFAULT_WAIT, type WireLog } from '../wire-log.js';
import { AckOrderCheck } from './ack-order.js';
import { encodePacket, MalformedPacketError, type MqttPackets, PacketReader } from './packets.js';
import { type MqttSession } from './session.js';

/** What a connection needs from its broker. */
export interface ConnectionHost {
  readonly log: WireLog<MqttPackets>;
  /** Largest packet a client may send. */
  readonly maximumPacketSize: number;
  receive(packet: Packet, connection: MqttBrokerConnection): void | Promise<void>;
  malformed(error: MalformedPacketError, connection: MqttBrokerConnection): void;
  closed(connection: MqttBrokerConnection): void;
  /** Asks the hooks what becomes of a packet that the broker sends by itself. */
  outgoing(packet: Packet, connection: MqttBrokerConnection): readonly (Packet | Buffer)[];
  violation(text: string, connection: MqttBrokerConnection): void;
}

/** One client connection at the broker: its state, and everything a test can do to it. */
export class MqttBrokerConnection {
  /** MQTT version of the connection: 4 (3.1.1) or 5; 4 before CONNECT. */
  version: 4 | 5 = 4;
  clientId = '';
  /** The CONNECT packet, once it came. */
  connect: IConnectPacket | undefined;
  /** Set once CONNACK with success was sent. */
  session: MqttSession | undefined;
  /** The client's Receive Maximum; 65,535 under 3.1.1. */
  receiveMaximum = 65_535;
  /** The client's Maximum Packet Size. */
  maximumPacketSize = Infinity;
  /** How many topic aliases the client accepts. */
  topicAliasMaximum = 0;
  /** Aliases the client has set on this connection. */
  readonly aliasesIn = new Map<number, string>();
  /** Aliases the broker has set on this connection. */
  readonly aliasesOut = new Map<string, number>();
  /** The client said DISCONNECT. */
  disconnected = false;
  keepAliveTimer: NodeJS.Timeout | undefined;
  /** QoS 1 and 2 messages of the client that have no final answer yet. */
  readonly unanswered = new Set<number>();
  readonly ackOrder: AckOrderCheck;

  private readonly link: Link;
  private readonly reader = new PacketReader();
  private busy = false;
  private over = false;

  constructor(
    /** From 1, in the order of arrival at this broker. */
    readonly number: number,
    stream: Duplex,
    private readonly host: ConnectionHost,
  ) {
    this.ackOrder = new AckOrderCheck((text) => host.violation(text, this));
    host.log.record({ connection: number, direction: 'in', type: 'open', packet: undefined, bytes: Buffer.alloc(0) });
    this.link = new Link(stream, {
      onData: (chunk) => {
        this.reader.push(chunk);
        void this.read();
      },
      onClose: () => this.gone(),
    });
  }

  /** False once the broker has forgotten it, whatever the socket does. */
  get open(): boolean {
    return !this.over;
  }

  /** Sends exactly this packet, hooks or not. */
  send(packet: Packet): void {
    const bytes = encodePacket(packet, this.version);
    if (!this.link.write(bytes)) return;
    if (packet.cmd === 'publish') this.ackOrder.sent(packet);
    this.host.log.record({
      connection: this.number,
      direction: 'out',
      type: packet.cmd,
      packet: packet as never,
      bytes,
    });
  }

  /** Sends exactly these bytes; the wire log has them as `raw`. */
  sendRaw(bytes: Buffer): void {
    if (!this.link.write(bytes)) return;
    this.host.log.record({ connection: this.number, direction: 'out', type: 'raw', packet: bytes, bytes });
  }

  /** Sends what the broker would by itself: the hooks are asked first. */
  answer(packet: Packet): void {
    for (const item of this.host.outgoing(packet, this)) {
      if (Buffer.isBuffer(item)) this.sendRaw(item);
      else this.send(item);
    }
  }

  /** A PUBLISH of the honest broker, with its topic alias if any; false if the client does not take packets that large. */
  sendMessage(packet: IPublishPacket): boolean {
    const aliased = this.aliased(packet);
    if (this.maximumPacketSize !== Infinity && encodePacket(aliased, this.version).length > this.maximumPacketSize) {
      return false;
    }
    this.answer(aliased);
    return true;
  }

  /** Resolves with the first packet of this type that comes on this connection from now on. */
  async expect<Type extends keyof MqttPackets>(type: Type, timeoutMs = DEFAULT_WAIT): Promise<MqttPackets[Type]> {
    const filter = { connection: this.number, since: this.host.log.position };
    const [packet] = await this.host.log.waitForReceived(type, 1, filter, timeoutMs);
    return packet;
  }

  /** Sends a packet of the session again on this connection, as AWS IoT, NATS and old EMQX do. Default: without DUP. */
  resend(packetId: number, options: { readonly dup?: boolean } = {}): void {
    this.session?.resend(packetId, options.dup ?? false);
  }

  /** DISCONNECT with a reason code (MQTT 5), then the end of the connection. */
  disconnect(reasonCode = 0, properties?: MqttPackets['disconnect']['properties']): void {
    if (this.version === 5) {
      this.answer({ cmd: 'disconnect', reasonCode, ...(properties !== undefined && { properties }) });
    }
    this.link.end();
  }

  /** Closes without a packet; with `reset` the client sees ECONNRESET. */
  cut(options: { readonly reset?: boolean } = {}): void {
    this.link.cut(options.reset ?? false);
  }

  /** Sends what was written, then closes. */
  end(): void {
    this.link.end();
  }

  /** The broker forgets the connection, the client is not told. */
  halfOpen(): void {
    this.link.abandon();
  }

  /** Bytes are no longer read and no longer sent, or one of both; the connection stays open. */
  stall(what?: { readonly reads?: boolean; readonly writes?: boolean }): void {
    this.link.stall(what);
  }

  unstall(): void {
    this.link.unstall();
  }

  /** Of the next packet only the first `length` bytes leave, then the connection ends. */
  truncateNext(length: number): void {
    this.link.truncateNext(length);
  }

  private aliased(packet: IPublishPacket): IPublishPacket {
    if (this.topicAliasMaximum === 0) return packet;
    let alias = this.aliasesOut.get(packet.topic);
    if (alias !== undefined) {
      return { ...packet, topic: '', properties: { ...packet.properties, topicAlias: alias } };
    }
    if (this.aliasesOut.size >= this.topicAliasMaximum) return packet;
    alias = this.aliasesOut.size + 1;
    this.aliasesOut.set(packet.topic, alias);
    return { ...packet, properties: { ...packet.properties, topicAlias: alias } };
  }

  /** One packet at a time: a CONNECT whose authentication takes time holds up what came behind it. */
  private async read(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      for (;;) {
        if (this.over) return;
        const received = this.reader.next(this.host.maximumPacketSize);
        if (received === undefined) return;
        const { packet, bytes } = received;
        this.host.log.record({
          connection: this.number,
          direction: 'in',
          type: packet.cmd,
          packet: packet as never,
          bytes,
        });
        const waiting = this.host.receive(packet, this);
        if (waiting !== undefined) await waiting;
      }
    } catch (error) {
      if (!(error instanceof MalformedPacketError)) throw error;
      const { bytes } = error;
      this.host.log.record({ connection: this.number, direction: 'in', type: 'malformed', packet: error, bytes });
      this.host.malformed(error, this);
    } finally {
      this.busy = false;
    }
  }

  private gone(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.keepAliveTimer);
    const { number: connection } = this;
    this.host.log.record({ connection, direction: 'in', type: 'close', packet: undefined, bytes: Buffer.alloc(0) });
    this.host.closed(this);
  }
}
