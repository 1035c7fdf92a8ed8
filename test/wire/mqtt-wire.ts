import { type Packet, parser, type Parser } from 'mqtt-packet';
import { type Tap, TcpProxy } from './tcp-proxy.js';

export interface MqttWireOptions {
  readonly targetPort: number;
  readonly port?: number;
  /** A PUBLISH to the client, before the client has it. */
  readonly onDelivery?: (delivery: WireDelivery) => void;
  /** PUBACK, or PUBREC with QoS 2, for a delivery, before the broker has it. */
  readonly onAcknowledgement?: (delivery: WireDelivery, reasonCode: number) => void;
}

export interface WireDelivery {
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: 0 | 1 | 2;
  readonly dup: boolean;
  readonly packetId: number;
  readonly connection: number;
}

/**
 * A recording proxy between an MQTT client and its broker, decoded with mqtt-packet. It counts what the product did as the
 * broker saw it: acknowledgements, their order, and how many messages were un-acknowledged.
 */
export class MqttWire {
  readonly figures = {
    delivered: 0,
    /** Of them the first copies with QoS 1, and with QoS 2. */
    firstQos1: 0,
    firstQos2: 0,
    /** Deliveries with DUP set. */
    redelivered: 0,
    acknowledged: 0,
    /** PUBACK or PUBREC with a reason code of 0x80 and above. */
    rejected: 0,
    /** Acknowledgements that left before one of an earlier message of the same QoS and connection [MQTT-4.6.0-2]. */
    outOfOrder: 0,
    /** For a packet identifier that was not un-acknowledged on that connection. */
    unknown: 0,
    /** Most QoS 1 and 2 messages at one time without PUBACK or PUBCOMP, on one connection. */
    maxUnacknowledged: 0,
    /** Bytes that mqtt-packet could not read. */
    malformed: 0,
    disconnectsByClient: 0,
    /** CONNACKs with session present. */
    resumed: 0,
    /** The largest Receive Maximum that a CONNECT asked for; 65,535 where one names none [MQTT5 3.1.2.11.3]. */
    receiveMaximum: 0,
  };
  private readonly open = new Map<number, ConnectionRecord>();

  private constructor(private readonly options: MqttWireOptions) {}

  // set once by start()
  proxy!: TcpProxy;

  static async start(options: MqttWireOptions): Promise<MqttWire> {
    const wire = new MqttWire(options);
    wire.proxy = await TcpProxy.start({
      targetPort: options.targetPort,
      ...(options.port === undefined ? {} : { port: options.port }),
      tap: (connection) => wire.tap(connection),
    });
    return wire;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.proxy.port}`;
  }

  /** Messages on the open connections that wait for a PUBACK or PUBCOMP now. */
  get unacknowledged(): number {
    let count = 0;
    for (const record of this.open.values()) count += record.unacknowledged;
    return count;
  }

  /** Connections whose CONNECT was accepted and that are open now. */
  get established(): number {
    let count = 0;
    for (const record of this.open.values()) if (record.established) count++;
    return count;
  }

  private tap(connection: number): Tap {
    const record = new ConnectionRecord(connection);
    this.open.set(connection, record);
    let fromServer: Parser | undefined;
    const fromClient = parser();
    fromClient.on('error', () => this.figures.malformed++);
    fromClient.on('packet', (packet) => {
      if (packet.cmd === 'connect') {
        fromServer = parser({ protocolVersion: packet.protocolVersion ?? 4 });
        fromServer.on('error', () => this.figures.malformed++);
        fromServer.on('packet', (answer) => this.toClient(record, answer));
      }
      this.toServer(record, packet);
    });
    return {
      fromClient: (chunk) => fromClient.parse(chunk),
      fromServer: (chunk) => fromServer?.parse(chunk),
      closed: () => this.open.delete(connection),
    };
  }

  private toClient(record: ConnectionRecord, packet: Packet): void {
    if (packet.cmd === 'connack') {
      record.established = (packet.reasonCode ?? packet.returnCode ?? 0) === 0;
      if (packet.sessionPresent) this.figures.resumed++;
    }
    if (packet.cmd !== 'publish') return;
    this.figures.delivered++;
    if (packet.dup) this.figures.redelivered++;
    else if (packet.qos === 1) this.figures.firstQos1++;
    else if (packet.qos === 2) this.figures.firstQos2++;
    const delivery: WireDelivery = {
      topic: packet.topic,
      payload: Buffer.from(packet.payload),
      qos: packet.qos,
      dup: packet.dup,
      packetId: packet.messageId ?? 0,
      connection: record.connection,
    };
    record.received(delivery);
    this.figures.maxUnacknowledged = Math.max(this.figures.maxUnacknowledged, record.unacknowledged);
    this.options.onDelivery?.(delivery);
  }

  private toServer(record: ConnectionRecord, packet: Packet): void {
    switch (packet.cmd) {
      case 'connect':
        this.figures.receiveMaximum = Math.max(
          this.figures.receiveMaximum,
          packet.properties?.receiveMaximum ?? 65_535,
        );
        return;
      case 'puback':
      case 'pubrec': {
        const reasonCode = packet.reasonCode ?? 0;
        const delivery = record.acknowledge(packet.messageId ?? 0, packet.cmd, reasonCode);
        if (delivery === undefined) {
          this.figures.unknown++;
          return;
        }
        this.figures.acknowledged++;
        if (reasonCode >= 0x80) this.figures.rejected++;
        if (delivery.outOfOrder) this.figures.outOfOrder++;
        this.options.onAcknowledgement?.(delivery.delivery, reasonCode);
        return;
      }
      case 'pubcomp':
        record.complete(packet.messageId ?? 0);
        return;
      case 'disconnect':
        this.figures.disconnectsByClient++;
        return;
      default:
    }
  }
}

/** The un-acknowledged messages of one connection: a lane of each QoS, in received order. */
class ConnectionRecord {
  established = false;
  private readonly lanes = { puback: new Map<number, WireDelivery>(), pubrec: new Map<number, WireDelivery>() };
  /** QoS 2 between PUBREC and PUBCOMP: they still use the client's Receive Maximum. */
  private readonly incomplete = new Set<number>();

  constructor(readonly connection: number) {}

  get unacknowledged(): number {
    return this.lanes.puback.size + this.lanes.pubrec.size + this.incomplete.size;
  }

  received(delivery: WireDelivery): void {
    if (delivery.qos === 0) return;
    const lane = delivery.qos === 1 ? this.lanes.puback : this.lanes.pubrec;
    if (!lane.has(delivery.packetId)) lane.set(delivery.packetId, delivery);
  }

  acknowledge(
    packetId: number,
    kind: 'puback' | 'pubrec',
    reasonCode: number,
  ): { readonly delivery: WireDelivery; readonly outOfOrder: boolean } | undefined {
    const lane = this.lanes[kind];
    const delivery = lane.get(packetId);
    if (delivery === undefined) return undefined;
    const outOfOrder = lane.keys().next().value !== packetId;
    lane.delete(packetId);
    if (kind === 'pubrec' && reasonCode < 0x80) this.incomplete.add(packetId);
    return { delivery, outOfOrder };
  }

  complete(packetId: number): void {
    this.incomplete.delete(packetId);
  }
}
