import { type TransportError } from '../../lib/index.js';
import { type ProducerMessage, type PulsarProducer, type SendResult } from '../../lib/pulsar/index.js';
import { type PulsarAdmin } from '../brokers/pulsar-admin.js';
import { idOf, type StoredMessage } from '../wire/index.js';
import { until } from './harness.js';

/** Numbered messages through one producer, and what became of each. */
export class NumberedRun {
  /** Numbers `first` to `next - 1` were sent. */
  next: number;
  readonly results = new Map<number, SendResult>();
  readonly errors = new Map<number, TransportError>();
  /** Numbers in the order in which their sends resolved. */
  readonly resolvedOrder: number[] = [];
  private readonly calls = new Map<number, number>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    readonly producer: PulsarProducer,
    readonly first = 0,
  ) {
    this.next = first;
  }

  get sent(): number {
    return this.next - this.first;
  }

  get unsettled(): number {
    return this.sent - this.calls.size;
  }

  /** Sends the next number. */
  send(message: Omit<ProducerMessage, 'payload'> = {}): number {
    const number = this.next++;
    this.producer.submit({ ...message, payload: payloadOf(number) }, (error, result) => {
      this.calls.set(number, (this.calls.get(number) ?? 0) + 1);
      if (error !== undefined) {
        this.errors.set(number, error);
      } else {
        this.results.set(number, result!);
        this.resolvedOrder.push(number);
      }
    });
    return number;
  }

  sendMany(count: number): void {
    for (let index = 0; index < count; index++) this.send();
  }

  /** Sends `perSecond` messages a second until `stop()`; what a slow machine leaves out is caught up. */
  start(perSecond: number, message: (number: number) => Omit<ProducerMessage, 'payload'> = () => ({})): void {
    const began = performance.now();
    const already = this.next;
    this.timer = setInterval(() => {
      const due = already + ((performance.now() - began) / 1000) * perSecond;
      while (this.next < due) this.send(message(this.next));
    }, 5);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** Until that many more than now have been sent. */
  async sendsMore(count: number): Promise<void> {
    const target = this.next + count;
    await until(`${count} more sends`, () => this.next >= target, 60_000);
  }

  /** Until that many more than now have their receipt. */
  async resolvesMore(count: number, timeoutMs = 60_000): Promise<void> {
    const target = this.results.size + count;
    await until(`${count} more receipts`, () => this.results.size >= target, timeoutMs);
  }

  /** Stops sending and waits for the last outcome. */
  async settle(timeoutMs = 60_000): Promise<void> {
    this.stop();
    await until('an outcome for every send', () => this.unsettled === 0, timeoutMs);
  }

  /** Everything that is wrong, as sentences; `stored` is what a reader that is not ours found in the topic. */
  violations(stored: readonly StoredMessage[], gone: (result: SendResult) => boolean = () => false): string[] {
    const found: string[] = [];
    const note = (what: string, numbers: readonly number[]): void => {
      if (numbers.length > 0) found.push(`${what}: ${numbers.length}, first ${numbers.slice(0, 10).join(', ')}`);
    };
    const copies = new Map<number, Set<string>>();
    const order: number[] = [];
    for (const message of stored) {
      const number = idOf(message.payload);
      if (number < this.first || number >= this.next) continue;
      const frame = `${message.producerName}:${message.sequenceId}`;
      const known = copies.get(number);
      if (known === undefined) order.push(number);
      copies.set(number, (known ?? new Set()).add(frame));
    }
    const numbers = Array.from({ length: this.sent }, (_, index) => this.first + index);
    note(
      'settled not exactly once',
      numbers.filter((number) => this.calls.get(number) !== 1),
    );
    note(
      'resolved and not stored',
      [...this.results].filter(([number, result]) => !copies.has(number) && !gone(result)).map(([number]) => number),
    );
    note(
      'stored, but the error says that it cannot be',
      [...this.errors].filter(([number, error]) => copies.has(number) && !error.ambiguous).map(([number]) => number),
    );
    note('stored behind a later one', outOfOrder(order));
    note('resolved behind a later one', outOfOrder(this.resolvedOrder));
    note(
      'stored twice with different sequence ids',
      [...copies].filter(([, frames]) => frames.size > 1).map(([number]) => number),
    );
    const { pendingMessages, pendingBytes, waitingMessages, submitted, succeeded, failed } = this.producer.stats;
    if (pendingMessages + pendingBytes + waitingMessages !== 0) {
      found.push(`still held: ${pendingMessages} permits, ${pendingBytes} bytes, ${waitingMessages} in line`);
    }
    if (submitted !== succeeded + failed) {
      found.push(`${submitted} taken in, ${succeeded} succeeded, ${failed} failed`);
    }
    return found;
  }
}

/** What a message with this number carries. */
export function payloadOf(number: number): Buffer {
  return Buffer.from(`{"id":${number},"pad":"${'x'.repeat(60)}"}`);
}

/**
 * Asks the broker for the entries that receipts name and returns the numbers whose entry does not hold them. At most
 * `samples` of the results, spread evenly.
 */
export async function misplaced(
  admin: PulsarAdmin,
  topic: string,
  results: ReadonlyMap<number, SendResult>,
  samples = 12,
): Promise<number[]> {
  const all = [...results];
  const step = Math.max(1, Math.floor(all.length / samples));
  const wrong: number[] = [];
  for (let index = all.length - 1; index >= 0; index -= step) {
    const [number, { messageId, deduplicated }] = all[index];
    if (deduplicated) continue;
    const of = messageId.partition < 0 ? topic : `${topic}-partition-${messageId.partition}`;
    const entry = await admin.entry(of, messageId.ledgerId, messageId.entryId);
    if (!entry.includes(`"id":${number},`)) wrong.push(number);
  }
  return wrong;
}

function outOfOrder(numbers: readonly number[]): number[] {
  let highest = -1;
  return numbers.filter((number) => {
    if (number < highest) return true;
    highest = number;
    return false;
  });
}
