import { type MqttDelivery } from '../mqtt/index.js';
import { type GateEntry } from './delivery-gate.js';
import { type ResolvedDecision } from './failure-policy.js';
import { HandlerRun } from './handler-run.js';
import { type HandlerEntry } from './handler-registry.js';
import { type TaskHost } from './task-host.js';

/** What is to be done about a handler that will not run again in this attempt. */
export interface FinalStepOfRun {
  readonly run: HandlerRun;
  readonly decision: ResolvedDecision;
}

/**
 * One delivery on its way through all handlers that match it. The handlers of a round run side by side; when all have
 * ended, the failed ones may run again in a further round (`pending`), and the others never do.
 */
export class DeliveryTask implements GateEntry {
  // The gate's fields.
  sequence = 0;
  hasSlot = false;
  hasKey = false;
  onAwaited: (() => void) | undefined = undefined;

  /** Handlers of the next round. */
  pending: readonly HandlerEntry[];
  /** Rounds begun in this attempt. */
  run = 0;
  /** When the first round of this attempt began; for `maxHold`. */
  firstRunAt = 0;
  /** Kept until the end of the attempt: what was decided about handlers that failed for good. */
  finals: FinalStepOfRun[] | undefined = undefined;
  /** Failed at least once and known to the redelivery controller. */
  held = false;

  private open = 0;
  private parkedRuns = 0;
  private failures: HandlerRun[] | undefined = undefined;

  constructor(
    readonly host: TaskHost,
    readonly delivery: MqttDelivery,
    entries: readonly HandlerEntry[],
    readonly key: unknown,
  ) {
    this.pending = entries;
  }

  /** The gate has a place: the next round. */
  begin(): void {
    const { host, pending } = this;
    host.client.start(this.delivery);
    host.openRounds += 1;
    this.run += 1;
    this.open = pending.length;
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
    if (failures === undefined && this.finals === undefined) {
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
