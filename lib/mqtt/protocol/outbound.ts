import { ConnectionError, LocalProtocolError, MessageTooLargeError, TransportError } from '../../errors.js';
import { type AckPacket, type Properties } from '../codec/packets.js';
import { encodePublish } from '../codec/publish.js';
import { toLocalError } from './connect.js';
import { type SessionCore } from './core.js';
import { Deque } from './deque.js';
import { OutboundPublish } from './outbound-publish.js';
import { PUBLISH_IDENTIFIERS } from './packet-ids.js';
import { PublishQueue } from './publish-queue.js';
import {
  closedPublish,
  fromStored,
  PUBLISH_SUCCESS,
  refusedPublish,
  sessionLost,
  toBuffer,
  toResult,
  toStored,
  withRemainingExpiry,
} from './publish-values.js';
import { type StoredSession } from './stored-session.js';
import { OutboundAliases } from './topic-alias.js';
import { validateTopicName } from './topic-filter.js';
import { type PublishRequest, type PublishResult } from './types.js';

const PACKET_IDENTIFIER_NOT_FOUND = 0x92;

/** Our publishes: the bounded queue, what is under way, and what is sent again after a reconnect. */
export class Outbound {
  // valid for the session
  private readonly queue: PublishQueue;
  /** PUBLISH is out, in that order. */
  private readonly sent = new Map<number, OutboundPublish>();
  /** PUBREL is out, in the order of the PUBRECs [MQTT-4.6.0-4]. */
  private readonly released = new Map<number, OutboundPublish>();
  private nextSequence: number;
  /** QoS 2 in `sent` and `released`. */
  private openQos2 = 0;

  // valid for one connection
  private online = false;
  /** Sent for the first time in this turn: their bytes are not handed to the socket yet. */
  private fresh: OutboundPublish[] = [];
  /** PUBLISH of an earlier connection, to be sent again in that order before anything new [MQTT-4.6.0-1]. */
  private resend = new Deque<OutboundPublish>();
  private aliases = new OutboundAliases(0);
  private writable = true;

  constructor(private readonly core: SessionCore) {
    this.queue = new PublishQueue(core.config.publishQueue);
    this.nextSequence = core.config.firstSequence;
  }

  /** Publishes not settled. */
  get pending(): number {
    return this.queue.length + this.resend.length + this.sent.size + this.released.size;
  }

  get pendingBytes(): number {
    return this.queue.bytes;
  }

  /** An answer of the server is due. */
  get awaitsAnswer(): boolean {
    return this.sent.size > 0 || this.released.size > 0;
  }

  /** Something is under way that only a resumed session can finish. */
  get holdsState(): boolean {
    return this.awaitsAnswer || this.resend.length > 0;
  }

  /**
   * Takes a publish over.
   *
   * @throws LocalProtocolError for what no server would accept, TransportError ERR_QUEUE_FULL for a full queue
   */
  publish(request: PublishRequest, token: unknown, now: number): OutboundPublish {
    const publish = this.accept(request, token, now);
    this.checkLimits(publish);
    if (!this.online && publish.qos === 0 && !this.core.config.publishQueue.offlineQos0) {
      throw new ConnectionError(`Publish to '${publish.topic}': not connected, and offlineQos0 is false`);
    }
    this.makeRoom(publish);
    this.queue.push(publish);
    if (publish.qos > 0 && this.core.config.persistent) {
      this.core.record({ type: 'putPublish', publish: toStored(publish, this.core.config.wallClockOffset) });
    }
    this.pump(now);
    return publish;
  }

  private accept(request: PublishRequest, token: unknown, now: number): OutboundPublish {
    const { topic, payload, qos = 0, retain = false, properties } = request;
    validateTopicName(topic);
    if (!(qos === 0 || qos === 1 || qos === 2)) {
      throw new LocalProtocolError(`Publish to '${topic}': QoS must be 0, 1 or 2`);
    }
    if (typeof payload !== 'string' && !(payload instanceof Uint8Array)) {
      throw new LocalProtocolError(`Publish to '${topic}': the payload must be a string, Buffer or Uint8Array`);
    }
    if (properties?.topicAlias !== undefined || properties?.subscriptionIdentifiers !== undefined) {
      throw new LocalProtocolError(
        `Publish to '${topic}': topic aliases are the client's own, subscription identifiers the server's [MQTT-3.3.4-6]`,
      );
    }
    return new OutboundPublish(this.nextSequence++, topic, toBuffer(payload), qos, retain, properties, now, token);
  }

  /** The server's limits, as far as they are known from the last CONNACK. */
  private checkLimits(publish: OutboundPublish): void {
    const { maximumQos, retainAvailable } = this.core.limits;
    if (publish.qos > maximumQos) {
      throw new LocalProtocolError(
        `Publish to '${publish.topic}': the server's Maximum QoS is ${maximumQos}, not ${publish.qos} [MQTT-3.2.2-11]`,
      );
    }
    if (publish.retain && !retainAvailable) {
      throw new LocalProtocolError(
        `Publish to '${publish.topic}': the server does not keep retained messages [MQTT-3.2.2-14]`,
      );
    }
  }

  private makeRoom(publish: OutboundPublish): void {
    // What can be written at once needs no place in the queue.
    if (this.queue.length === 0 && this.online && this.writable && this.hasQuota) return;
    for (const [oldest, error] of this.queue.makeRoom(publish)) this.settle(oldest, error);
  }

  /** True if it had not been written and is taken back. */
  cancel(publish: OutboundPublish): boolean {
    if (publish.stage !== 'queued' || publish.written) return false;
    this.queue.remove(publish);
    this.settle(publish, new TransportError('ERR_ABORTED', `Publish to '${publish.topic}' was cancelled`));
    return true;
  }

  private get hasQuota(): boolean {
    // 3.1.1 has no Receive Maximum, but with so many QoS 2 messages open a broker takes no other one either (mosquitto: 20).
    if (this.core.version === 4 && this.openQos2 >= this.core.config.qos2InFlight) return false;
    // PUBRELs count as well, which can only be too careful [MQTT-4.9.0-1, 3.3.4-7].
    return this.sent.size + this.released.size < Math.min(this.core.limits.receiveMaximum, PUBLISH_IDENTIFIERS);
  }

  /** The transport's own buffer is full, or free again. */
  setWritable(writable: boolean, now: number): void {
    this.writable = writable;
    this.pump(now);
  }

  /** Sends what may be sent. QoS 0 never waits for the quota [MQTT5 3.3.4]. */
  pump(now: number): void {
    if (!this.online) return;
    while (this.writable) {
      const publish = this.queue.shiftQos0();
      if (publish === undefined) break;
      if (this.send(publish, now)) this.settle(publish, undefined, PUBLISH_SUCCESS);
    }
    while (this.writable && this.hasQuota) {
      const publish = this.resend.shift() ?? this.takeWithId();
      if (publish === undefined) return;
      this.send(publish, now);
    }
  }

  /** The next new one; undefined if all identifiers are in use: it waits, none is taken twice [MQTT-2.2.1-3]. */
  private takeWithId(): OutboundPublish | undefined {
    const publish = this.queue.peek();
    if (publish === undefined) return undefined;
    publish.packetId = this.core.ids.take();
    return publish.packetId === 0 ? undefined : this.queue.shift();
  }

  /** False if it was settled with an error instead. */
  private send(publish: OutboundPublish, now: number): boolean {
    const again = publish.handed;
    if (!again) this.fresh.push(publish);
    try {
      this.checkLimits(publish);
      this.core.outbox.write(this.encode(publish, again, now));
    } catch (error) {
      this.release(publish);
      this.settle(publish, toLocalError(error));
      return false;
    }
    if (publish.qos > 0) {
      publish.stage = 'sent';
      this.sent.set(publish.packetId, publish);
      if (publish.qos === 2) this.openQos2 += 1;
      if (!again) {
        this.core.record({ type: 'sendPublish', sequence: publish.sequence, packetId: publish.packetId });
      }
    }
    return true;
  }

  private encode(publish: OutboundPublish, dup: boolean, now: number): Buffer {
    const { topic, payload, qos, retain, packetId } = publish;
    const { version } = this.core;
    const limit = this.core.limits.maximumPacketSize;
    let properties: Properties | undefined = undefined;
    if (version === 5) properties = withRemainingExpiry(publish, dup, now);
    else if (publish.properties !== undefined) {
      this.core.warnOnce('properties', 'MQTT 3.1.1 has no properties: those of publishes are left out');
    }
    const packet = { type: 'publish' as const, topic, payload, qos, retain, dup, packetId, properties };
    const alias = version === 5 ? this.aliases.propose(topic) : undefined;
    if (alias !== undefined) {
      const wireTopic = alias.known ? '' : topic;
      const shorter = { ...packet, topic: wireTopic, properties: { ...properties, topicAlias: alias.alias } };
      const bytes = encodePublish(shorter, version);
      if (bytes.length <= limit) {
        this.aliases.written(topic, alias);
        return bytes;
      }
    }
    const bytes = encodePublish(packet, version);
    if (bytes.length <= limit) return bytes;
    throw new MessageTooLargeError(
      `Publish to '${topic}': ${bytes.length} bytes, the server's Maximum Packet Size is ${limit}`,
      bytes.length,
      limit,
    );
  }

  puback(packet: AckPacket, now: number): void {
    const publish = this.sent.get(packet.packetId);
    if (publish === undefined || publish.qos !== 1) {
      this.core.counters.unknownAcknowledgements += 1;
      return;
    }
    this.release(publish);
    this.answered(publish, packet);
    this.pump(now);
  }

  pubrec(packet: AckPacket, now: number): void {
    const { packetId, reasonCode } = packet;
    const publish = this.sent.get(packetId);
    if (publish !== undefined && publish.qos === 2) {
      if (reasonCode >= 0x80) {
        this.release(publish);
        this.answered(publish, packet);
        this.pump(now);
        return;
      }
      publish.stage = 'released';
      this.sent.delete(packetId);
      this.released.set(packetId, publish);
      this.core.record({ type: 'releasePublish', sequence: publish.sequence });
      this.core.outbox.acknowledge('pubrel', packetId, 0, undefined);
    } else if (this.released.has(packetId)) this.core.outbox.acknowledge('pubrel', packetId, 0, undefined);
    else {
      this.core.counters.unknownAcknowledgements += 1;
      if (reasonCode >= 0x80) return;
      const answer = this.core.version === 5 ? PACKET_IDENTIFIER_NOT_FOUND : 0;
      this.core.outbox.acknowledge('pubrel', packetId, answer, undefined);
    }
  }

  pubcomp(packet: AckPacket, now: number): void {
    const publish = this.released.get(packet.packetId);
    if (publish === undefined) {
      this.core.counters.unknownAcknowledgements += 1;
      return;
    }
    this.release(publish);
    // 0x92 means that the server has finished this exchange before: nothing is missing [MQTT5 3.7.2.1].
    this.settle(publish, undefined, toResult({ ...packet, reasonCode: 0 }));
    this.pump(now);
  }

  private answered(publish: OutboundPublish, packet: AckPacket): void {
    if (packet.reasonCode < 0x80) {
      this.settle(publish, undefined, toResult(packet));
      return;
    }
    this.settle(publish, refusedPublish(publish.topic, packet));
  }

  private release(publish: OutboundPublish): void {
    if (publish.packetId === 0) return;
    const wasOpen = this.sent.delete(publish.packetId) || this.released.delete(publish.packetId);
    if (wasOpen && publish.qos === 2) this.openQos2 -= 1;
    this.core.ids.release(publish.packetId);
  }

  private settle(publish: OutboundPublish, error: TransportError | undefined, result?: PublishResult): void {
    if (publish.qos > 0) this.core.record({ type: 'deletePublish', sequence: publish.sequence });
    publish.stage = 'settled';
    publish.error = error;
    publish.result = result;
    if (error === undefined) this.core.counters.published += 1;
    this.core.outbox.emit(publish);
  }

  connected(sessionPresent: boolean, now: number): void {
    this.online = true;
    this.writable = true;
    this.aliases = new OutboundAliases(this.core.config.topicAliases ? this.core.limits.topicAliasMaximum : 0);
    if (sessionPresent) this.resume();
    else this.sessionGone();
    this.openQos2 = this.released.size;
    this.pump(now);
  }

  /** PUBREL where PUBREC had come, PUBLISH with DUP for the rest, both in their order [MQTT-4.4.0-1]. */
  private resume(): void {
    for (const packetId of this.released.keys()) this.core.outbox.acknowledge('pubrel', packetId, 0, undefined);
    const again = [...this.sent.values(), ...this.resend];
    this.sent.clear();
    this.resend.clear();
    for (const publish of again) this.resend.push(publish);
  }

  /** Whatever was under way, the broker does not know it any more. */
  private sessionGone(): void {
    const lost = [...this.sent.values(), ...this.resend, ...this.released.values()];
    if (lost.length === 0) return;
    lost.sort((a, b) => a.sequence - b.sequence);
    this.resend.clear();
    if (this.core.config.onSessionLost === 'reject') {
      for (const publish of lost) {
        this.release(publish);
        this.settle(publish, sessionLost(publish.topic));
      }
      return;
    }
    for (const publish of lost.reverse()) {
      this.core.counters.republished += 1;
      this.core.counters.possibleDuplicates += 1;
      this.requeue(publish);
    }
  }

  /** The bytes of this turn are with the socket: from here on the broker may have them. */
  handed(): void {
    for (const publish of this.fresh) publish.written = publish.handed = true;
    this.fresh.length = 0;
  }

  /** Nothing more is sent on this connection. */
  leave(): void {
    this.online = false;
  }

  disconnected(): void {
    this.online = false;
    for (const publish of this.fresh.reverse()) if (publish.stage === 'sent') this.requeue(publish);
    this.fresh = [];
  }

  /** As if it had never been sent; it comes before everything that waits. */
  private requeue(publish: OutboundPublish): void {
    this.release(publish);
    publish.stage = 'queued';
    publish.packetId = 0;
    publish.handed = false;
    this.core.record({ type: 'sendPublish', sequence: publish.sequence, packetId: 0 });
    this.queue.unshift(publish);
  }

  /** What an earlier process left, in its order. */
  restore(stored: StoredSession): void {
    const later = this.queue.takeAll();
    const released = new Map<number, OutboundPublish>();
    for (const entry of stored.publishes) {
      const publish = fromStored(entry, this.core.config.wallClockOffset);
      this.nextSequence = Math.max(this.nextSequence, entry.sequence + 1);
      if (entry.packetId === 0 || !this.core.ids.reserve(entry.packetId)) {
        publish.packetId = 0;
        this.queue.push(publish);
      } else if (entry.released) released.set(entry.sequence, publish);
      else this.sent.set(entry.packetId, publish);
    }
    for (const sequence of stored.releaseOrder) {
      const publish = released.get(sequence);
      if (publish !== undefined) this.released.set(publish.packetId, publish);
    }
    for (const publish of later) this.queue.push(publish);
  }

  /** Settles everything; what was written may be at the broker. */
  fail(reason: string): void {
    const all = [...this.released.values(), ...this.sent.values(), ...this.resend, ...this.queue.takeAll()];
    for (const publish of all) {
      this.release(publish);
      publish.stage = 'settled';
      publish.error = closedPublish(publish, reason, this.core.config.persistent);
      this.core.outbox.emit(publish);
    }
    this.resend.clear();
  }
}
