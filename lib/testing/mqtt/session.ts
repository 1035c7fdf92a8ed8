import { type IPublishPacket } from 'mqtt-packet';
import { type MqttBrokerConnection } from './connection.js';
import { type MqttBrokerOptions } from './options.js';
import { compact } from './packets.js';
import { parseFilter, topicMatches } from './topic-match.js';

export type PublishProperties = NonNullable<IPublishPacket['properties']>;

/** A message inside the broker. */
export interface BrokerMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: 0 | 1 | 2;
  readonly retain: boolean;
  readonly properties: PublishProperties | undefined;
  /** `performance.now()` at which it expires (MQTT 5). */
  readonly expiresAt: number | undefined;
  /** Who published it; undefined for the test itself. */
  readonly publisher: string | undefined;
}

export interface MqttSubscription {
  readonly filter: string;
  readonly qos: 0 | 1 | 2;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: number;
  readonly identifier: number | undefined;
}

/** A message on its way to one client, un-acknowledged. */
export interface InFlightMessage {
  readonly packetId: number;
  readonly message: BrokerMessage;
  /** `publish`: waits for PUBACK or PUBREC. `pubrel`: waits for PUBCOMP. */
  phase: 'publish' | 'pubrel';
}

/** What the broker keeps for one client id, over connections. */
export class MqttSession {
  // valid for the session
  readonly subscriptions = new Map<string, MqttSubscription>();
  /** Un-acknowledged messages to the client, in the order sent. */
  readonly inFlight = new Map<number, InFlightMessage>();
  /** Identifiers of QoS 2 messages from the client between PUBREC and PUBREL. */
  readonly receivedQos2 = new Set<number>();
  /** Messages that wait for a place in the client's window. */
  readonly queue: BrokerMessage[] = [];
  /** Dropped because `maxQueued` was reached. */
  dropped = 0;
  private lastPacketId = 0;

  // valid for one connection
  connection: MqttBrokerConnection | undefined;
  /** Seconds the session outlives its connection; Infinity = for ever. */
  expiry = 0;
  expiryTimer: NodeJS.Timeout | undefined;

  constructor(
    readonly clientId: string,
    private readonly options: MqttBrokerOptions,
  ) {}

  /** Takes a message; it leaves as soon as there is room, in order. */
  deliver(message: BrokerMessage): void {
    if (message.qos === 0) {
      if (this.connection !== undefined) this.sendPublish(message, undefined, false);
      return;
    }
    if (this.queue.length >= (this.options.maxQueued ?? Infinity)) {
      this.dropped++;
      return;
    }
    this.queue.push(message);
    this.pump();
  }

  /** Sends queued messages while the client's window has room. */
  pump(): void {
    const connection = this.connection;
    if (connection === undefined) return;
    const window =
      Math.min(connection.receiveMaximum, this.options.maxInFlight ?? Infinity) + (this.options.overrun ?? 0);
    let taken = 0;
    // Sending may end the connection (a truncated packet): what was taken then waits for the next one.
    while (this.connection === connection && this.inFlight.size < window && taken < this.queue.length) {
      const message = this.queue[taken++];
      if (message.expiresAt !== undefined && message.expiresAt <= performance.now()) continue;
      const packetId = this.freePacketId();
      const entry: InFlightMessage = { packetId, message, phase: 'publish' };
      this.inFlight.set(packetId, entry);
      // Larger than the client accepts: skipped silently, as mosquitto and mochi do.
      if (!this.sendPublish(message, packetId, false)) this.inFlight.delete(packetId);
    }
    if (taken > 0) this.queue.splice(0, taken);
  }

  /** What a broker does first on a resumed session: the un-acknowledged again, with their identifiers [MQTT-4.4.0-1]. */
  resume(): void {
    const entries = [...this.inFlight.values()];
    if (this.options.resendOrder === 'reversed') entries.reverse();
    for (const entry of entries) this.resend(entry.packetId);
    this.pump();
  }

  /** Sends one un-acknowledged packet again, on a resume or (brokers that break the rule) on the same connection. */
  resend(packetId: number, dup = this.options.dupOnResend ?? true): void {
    const entry = this.inFlight.get(packetId);
    if (entry === undefined || this.connection === undefined) return;
    if (entry.phase === 'pubrel') this.connection.answer({ cmd: 'pubrel', messageId: packetId, reasonCode: 0 });
    else this.sendPublish(entry.message, packetId, dup);
  }

  /** PUBACK, PUBCOMP, or PUBREC with an error: the message is done and its place is free. */
  settle(packetId: number): void {
    if (this.inFlight.delete(packetId)) this.pump();
  }

  /** Every subscription that matches, `$share` ones excluded. */
  matching(topic: string): MqttSubscription[] {
    const found: MqttSubscription[] = [];
    for (const subscription of this.subscriptions.values()) {
      const { group, filter } = parseFilter(subscription.filter);
      if (group === undefined && topicMatches(filter, topic)) found.push(subscription);
    }
    return found;
  }

  private sendPublish(message: BrokerMessage, packetId: number | undefined, dup: boolean): boolean {
    const connection = this.connection as MqttBrokerConnection;
    const packet: IPublishPacket = {
      cmd: 'publish',
      topic: message.topic,
      payload: message.payload,
      qos: message.qos,
      retain: message.retain,
      dup,
      ...(packetId !== undefined && { messageId: packetId }),
    };
    if (connection.version === 5 && message.properties !== undefined) {
      const { expiresAt } = message;
      const properties = compact({
        ...message.properties,
        ...(expiresAt !== undefined && {
          messageExpiryInterval: Math.max(1, Math.ceil((expiresAt - performance.now()) / 1000)),
        }),
      });
      if (properties !== undefined) packet.properties = properties;
    }
    return connection.sendMessage(packet);
  }

  private freePacketId(): number {
    do this.lastPacketId = this.lastPacketId >= 65_535 ? 1 : this.lastPacketId + 1;
    while (this.inFlight.has(this.lastPacketId));
    return this.lastPacketId;
  }
}
