import { type MessageIdData, type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { crc32c } from './crc32c.js';
import { type PulsarTopic, type StoredEntry } from './topic.js';

export const SubType = { Exclusive: 0, Shared: 1, Failover: 2, KeyShared: 3 } as const;

/** A consumer at the broker: made by SUBSCRIBE, gone with CLOSE_CONSUMER or its connection. */
export interface ConsumerHandle {
  readonly connection: PulsarBrokerConnection;
  readonly subscription: Subscription;
  readonly consumerId: number;
  readonly command: PulsarCommands['subscribe'];
  /** Messages the consumer may still be sent. */
  permits: number;
  /** Entries sent and not acknowledged, by index. */
  readonly unacknowledged: Set<number>;
  consumerEpoch: number | undefined;
  endReported: boolean;
}

/** A cursor over a topic with the consumers that share it. */
export class Subscription {
  readonly consumers: ConsumerHandle[] = [];
  /** Entries before this index are acknowledged. */
  markDelete = 0;
  /** Acknowledged entries at or after `markDelete`. */
  private readonly acknowledged = new Set<number>();
  /** Of batches acknowledged in part: the indexes that are left. */
  private readonly remaining = new Map<number, Set<number>>();
  private readonly redeliveries = new Map<number, number>();
  /** Entries to send again, ascending. */
  private again: number[] = [];
  private readIndex = 0;
  private turn = 0;
  private delayTimer: NodeJS.Timeout | undefined;

  constructor(
    readonly topic: PulsarTopic,
    readonly name: string,
    readonly type: number,
    readonly durable: boolean,
  ) {}

  /** Messages not acknowledged yet. */
  get backlog(): number {
    let count = 0;
    for (const entry of this.topic.entries.slice(this.markDelete)) {
      if (!this.acknowledged.has(entry.index)) count += this.remaining.get(entry.index)?.size ?? entry.messages.length;
    }
    return count;
  }

  /** Everything before `index` counts as acknowledged, everything from it on is sent (again). */
  moveTo(index: number): void {
    this.markDelete = index;
    this.readIndex = index;
    this.acknowledged.clear();
    this.remaining.clear();
    this.redeliveries.clear();
    this.again = [];
    for (const consumer of this.consumers) consumer.unacknowledged.clear();
  }

  add(consumer: ConsumerHandle): void {
    this.consumers.push(consumer);
    this.tellActive();
  }

  /** What the consumer had not acknowledged goes to the others, or comes again to its next self. */
  remove(consumer: ConsumerHandle): void {
    const at = this.consumers.indexOf(consumer);
    if (at < 0) return;
    this.consumers.splice(at, 1);
    this.giveBack(consumer, [...consumer.unacknowledged], false);
    if (at === 0) this.tellActive();
    this.dispatch();
  }

  flow(consumer: ConsumerHandle, permits: number): void {
    consumer.permits += permits;
    this.dispatch();
  }

  acknowledge(id: MessageIdData, cumulative: boolean): void {
    const found = this.topic.entryAt(id.ledgerId, id.entryId);
    if (found === undefined) return;
    if (cumulative) {
      for (const entry of this.topic.entries.slice(this.markDelete, found.index)) this.done(entry);
    }
    const left = batchIndexesLeft(id, found);
    if (left === undefined || left.size === 0) this.done(found);
    else this.keepOnly(found, left);
    while (this.acknowledged.delete(this.markDelete)) this.markDelete++;
    this.reportEnd();
  }

  /** All (or the named) un-acknowledged messages of a consumer come again. */
  redeliver(consumer: ConsumerHandle, ids: readonly MessageIdData[] | undefined): void {
    const wanted =
      ids === undefined || ids.length === 0
        ? [...consumer.unacknowledged]
        : ids.flatMap((id) => this.topic.entryAt(id.ledgerId, id.entryId)?.index ?? []);
    this.giveBack(consumer, wanted, true);
    this.dispatch();
  }

  /** Sends what may be sent. */
  dispatch(): void {
    for (;;) {
      const entry = this.next();
      if (entry === undefined) break;
      const consumer = this.chooseConsumer(entry);
      if (consumer === undefined) break;
      this.take(entry);
      this.send(entry, consumer);
    }
    this.reportEnd();
  }

  /** REACHED_END_OF_TOPIC once a terminated topic is acknowledged to its end. */
  reportEnd(): void {
    if (!this.topic.terminated || this.markDelete < this.topic.entries.length) return;
    for (const consumer of this.consumers) {
      if (consumer.endReported) continue;
      consumer.endReported = true;
      consumer.connection.answer('reachedEndOfTopic', { consumerId: consumer.consumerId });
    }
  }

  close(): void {
    clearTimeout(this.delayTimer);
  }

  private next(): StoredEntry | undefined {
    for (const index of this.again) {
      const entry = this.topic.entries[index];
      if (entry !== undefined && this.isDue(entry)) return entry;
    }
    while (this.readIndex < this.topic.entries.length) {
      const entry = this.topic.entries[this.readIndex];
      if (!this.isAcknowledged(entry)) {
        if (this.isDue(entry)) return entry;
        this.again.push(entry.index);
      }
      this.readIndex++;
    }
    return undefined;
  }

  /** Delayed delivery works on shared subscriptions alone, as in Pulsar. */
  private isDue(entry: StoredEntry): boolean {
    if (entry.deliverAt === undefined || (this.type !== SubType.Shared && this.type !== SubType.KeyShared)) return true;
    const delay = entry.deliverAt - Date.now();
    if (delay <= 0) return true;
    this.delayTimer ??= setTimeout(() => {
      this.delayTimer = undefined;
      this.dispatch();
    }, delay).unref();
    return false;
  }

  private take(entry: StoredEntry): void {
    const at = this.again.indexOf(entry.index);
    if (at >= 0) this.again.splice(at, 1);
    else this.readIndex = entry.index + 1;
  }

  private chooseConsumer(entry: StoredEntry): ConsumerHandle | undefined {
    if (this.type === SubType.Exclusive || this.type === SubType.Failover) {
      const active = this.consumers[0];
      return active !== undefined && active.permits > 0 ? active : undefined;
    }
    if (this.type === SubType.KeyShared) {
      const index = crc32c(Buffer.from(entry.key ?? '')) % Math.max(1, this.consumers.length);
      const owner = this.consumers[index];
      return owner !== undefined && owner.permits > 0 ? owner : undefined;
    }
    for (let tries = 0; tries < this.consumers.length; tries++) {
      const consumer = this.consumers[this.turn++ % this.consumers.length];
      if (consumer !== undefined && consumer.permits > 0) return consumer;
    }
    return undefined;
  }

  private send(entry: StoredEntry, consumer: ConsumerHandle): void {
    // Permits count messages, not entries; a batch may take them below zero.
    consumer.permits -= entry.messages.length;
    consumer.unacknowledged.add(entry.index);
    const left = this.remaining.get(entry.index);
    consumer.connection.answer(
      'message',
      {
        consumerId: consumer.consumerId,
        messageId: { ledgerId: entry.ledgerId, entryId: entry.entryId, partition: partitionOf(this.topic.name) },
        redeliveryCount: this.redeliveries.get(entry.index) ?? 0,
        ...(left !== undefined && { ackSet: toAckSet(left, entry.messages.length) }),
        ...(consumer.consumerEpoch !== undefined && { consumerEpoch: consumer.consumerEpoch }),
      },
      entry.tail,
    );
  }

  private giveBack(consumer: ConsumerHandle, indexes: readonly number[], counted: boolean): void {
    for (const index of indexes) {
      if (!consumer.unacknowledged.delete(index)) continue;
      if (counted) this.redeliveries.set(index, (this.redeliveries.get(index) ?? 0) + 1);
      this.again.push(index);
    }
    this.again.sort((a, b) => a - b);
  }

  private done(entry: StoredEntry): void {
    if (entry.index >= this.markDelete) this.acknowledged.add(entry.index);
    this.remaining.delete(entry.index);
    this.redeliveries.delete(entry.index);
    const at = this.again.indexOf(entry.index);
    if (at >= 0) this.again.splice(at, 1);
    for (const consumer of this.consumers) consumer.unacknowledged.delete(entry.index);
  }

  private keepOnly(entry: StoredEntry, left: Set<number>): void {
    const before = this.remaining.get(entry.index);
    const now = before === undefined ? left : new Set([...left].filter((index) => before.has(index)));
    if (now.size === 0) this.done(entry);
    else this.remaining.set(entry.index, now);
  }

  private isAcknowledged(entry: StoredEntry): boolean {
    return entry.index < this.markDelete || this.acknowledged.has(entry.index);
  }

  private tellActive(): void {
    if (this.type !== SubType.Failover) return;
    for (const [index, consumer] of this.consumers.entries()) {
      consumer.connection.answer('activeConsumerChange', { consumerId: consumer.consumerId, isActive: index === 0 });
    }
  }
}

/** The indexes of a batch that an acknowledgement leaves; undefined if it is for the whole entry. */
function batchIndexesLeft(id: MessageIdData, entry: StoredEntry): Set<number> | undefined {
  if (id.ackSet === undefined || id.ackSet.length === 0) return undefined;
  const left = new Set<number>();
  for (let index = 0; index < entry.messages.length; index++) {
    const word = id.ackSet[index >> 6] ?? 0n;
    if ((word >> BigInt(index & 63)) & 1n) left.add(index);
  }
  return left;
}

function toAckSet(left: ReadonlySet<number>, size: number): bigint[] {
  const words = Array.from({ length: Math.ceil(size / 64) }, () => 0n);
  for (const index of left) words[index >> 6] = words[index >> 6] | (1n << BigInt(index & 63));
  return words;
}

function partitionOf(topic: string): number {
  const match = /-partition-(\d+)$/.exec(topic);
  return match === null ? -1 : Number(match[1]);
}
