import { type MqttDelivery } from '../mqtt/index.js';
import { type BatchRun } from './batch-run.js';
import { type GateEntry } from './delivery-gate.js';
import { HandlerRun } from './handler-run.js';
import { type HandlerEntry } from './handler-registry.js';
import { type RunEnd } from './run-end.js';
import { type TaskHost } from './task-host.js';

/**
 * One delivery on its way through all handlers that match it. The handlers of a round run side by side; when all have
 * ended, the failed ones may run again in a further round (`pending`), and the others never do.
 */
export class DeliveryTask implements GateEntry {
  // The gate's fields.
  sequence = 0;
  hasSlot = false;
  hasKey = false;

  /** Handlers of the next round. */
  pending: readonly HandlerEntry[];
  /** Rounds begun in this attempt. */
  run = 0;
  /** When the first round of this attempt began; for `maxHold`. */
  firstRunAt = 0;
  /** When the present round began. */
  begunAt = 0;
  /** Of handlers that failed for good; kept until the end of the attempt, and beyond it what was begun. */
  ends: RunEnd[] | undefined = undefined;
  /** Failed at least once and known to the redelivery controller. */
  held = false;

  private open = 0;
  private parkedRuns = 0;
  private failures: HandlerRun[] | undefined = undefined;
  /** Those of this round that may not be full yet, one per batch handler. */
  private batches: BatchRun[] | undefined = undefined;

  constructor(
    readonly host: TaskHost,
    readonly delivery: MqttDelivery,
    entries: readonly HandlerEntry[],
    readonly key: unknown,
  ) {
    this.pending = entries;
  }

  get topic(): string {
    return this.delivery.message.topic;
  }

  /** Its Message Expiry Interval is over. */
  get expired(): boolean {
    const { message, receivedAt } = this.delivery;
    const seconds = message.properties?.messageExpiryInterval;
    return seconds !== undefined && this.host.clock.now() - receivedAt >= seconds * 1000;
  }

  /** The batch is to start once another message waits for the key of this one. */
  awaitedBy(batch: BatchRun): void {
    (this.batches ??= []).push(batch);
  }

  onAwaited(): void {
    if (this.batches !== undefined) for (const batch of this.batches) batch.startSoon();
  }

  /** It is the message of `old` once more, which does not go on: what is done for that stays done. */
  takeOver(old: DeliveryTask): void {
    this.pending = old.pending;
    this.ends = old.ends;
    // It had failed; else it waited and is ready to begin.
    if (old.run > 0) this.nextAttempt();
  }

  /** It comes again, or runs again from the copy here: the handlers that failed, but not one whose end was begun. */
  nextAttempt(): void {
    const ends = this.ends ?? [];
    this.run = 0;
    this.pending = ends.filter(({ begun }) => !begun).map(({ run }) => run.entry);
    const begun = ends.filter((end) => end.begun);
    this.ends = begun.length > 0 ? begun : undefined;
  }

  /** The gate has a place: the next round. */
  begin(): void {
    const { host, pending } = this;
    host.client.start(this.delivery);
    host.openRounds += 1;
    this.run += 1;
    this.begunAt = host.clock.now();
    if (this.run === 1) this.firstRunAt = this.begunAt;
    this.open = pending.length;
    this.batches = undefined;
    if (pending.length === 1) {
      this.startRun(pending[0]);
    } else {
      for (const entry of pending) this.startRun(entry);
    }
  }

  runEnded(run: HandlerRun): void {
    if (run.parked) this.parkedRuns -= 1;
    if (run.failed) (this.failures ??= []).push(run);
    this.open -= 1;
    if (this.open > 0) {
      if (this.open === this.parkedRuns) this.host.gate.yieldSlot(this);
      return;
    }
    this.host.openRounds -= 1;
    const { failures } = this;
    if (failures === undefined && this.ends === undefined) {
      this.host.succeeded(this);
    } else {
      this.failures = undefined;
      this.host.failed(this, failures ?? []);
    }
  }

  /** A run needs no running place any more (detached). */
  runParked(): void {
    this.parkedRuns += 1;
    if (this.open === this.parkedRuns) this.host.gate.yieldSlot(this);
  }

  private startRun(entry: HandlerEntry): void {
    new HandlerRun(this, entry).start();
  }
}
