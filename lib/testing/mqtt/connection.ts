import { type IPublishPacket, type IConnectPacket, type Packet } from 'mqtt-packet';
import { type Duplex } from 'node:stream';
import { BrokerConnection } from '../connection.js';
import { type WireLog } from '../wire-log.js';
import { AckOrderCheck } from './ack-order.js';
import { encodePacket, type MalformedPacketError, type MqttPackets, PacketReader } from './packets.js';
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
export class MqttBrokerConnection extends BrokerConnection<MqttPackets> {
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

  private readonly reader = new PacketReader();

  constructor(
    number: number,
    stream: Duplex,
    private readonly host: ConnectionHost,
  ) {
    super(number, stream, host.log);
    this.ackOrder = new AckOrderCheck((text) => host.violation(text, this));
  }

  /** Sends exactly this packet, hooks or not. */
  send(packet: Packet): void {
    const sent = this.write(packet.cmd, packet as never, encodePacket(packet, this.version));
    if (sent && packet.cmd === 'publish') this.ackOrder.sent(packet);
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

  /** Sends a packet of the session again on this connection, as AWS IoT, NATS and old EMQX do. Default: without DUP. */
  resend(packetId: number, options: { readonly dup?: boolean } = {}): void {
    this.session?.resend(packetId, options.dup ?? false);
  }

  /** DISCONNECT with a reason code (MQTT 5), then the end of the connection. */
  disconnect(reasonCode = 0, properties?: MqttPackets['disconnect']['properties']): void {
    if (this.version === 5) {
      this.answer({ cmd: 'disconnect', reasonCode, ...(properties !== undefined && { properties }) });
    }
    this.end();
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

  protected take(chunk: Buffer): void {
    this.reader.push(chunk);
  }

  protected step(): Promise<void> | void | false {
    const received = this.reader.next(this.host.maximumPacketSize);
    if (received === undefined) return false;
    const { packet, bytes } = received;
    this.host.log.record({
      connection: this.number,
      direction: 'in',
      type: packet.cmd,
      packet: packet as never,
      bytes,
    });
    return this.host.receive(packet, this);
  }

  protected malformed(error: MalformedPacketError): void {
    this.host.malformed(error, this);
  }

  protected closed(): void {
    clearTimeout(this.keepAliveTimer);
    this.host.closed(this);
  }
}
