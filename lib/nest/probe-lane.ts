import { type DeliveryTask } from './delivery-task.js';
import { Rounds, type RoundsHost } from './rounds.js';

/** A delivery that waits, and how it runs again from the copy we hold. */
export interface HeldTask {
  readonly task: DeliveryTask;
  readonly again: (task: DeliveryTask) => void;
}

/**
 * Deliveries that wait until something outside works again. From time to time one of them tries it, the one that waits
 * longest; if it gets through, all go on at once. What fails again goes to the end, and each round tries more of them than the
 * one before: they need not wait for the same thing, and one that never works must not keep the others.
 */
export class ProbeLane {
  private readonly held = new Map<object, HeldTask>();
  private readonly probes = new Set<DeliveryTask>();
  private readonly rounds: Rounds;
  private width = 1;

  /** @param initial ms */
  constructor(host: RoundsHost, initial: number) {
    this.rounds = new Rounds(host, initial, Math.max(LONGEST_BETWEEN_PROBES, initial), () => this.round());
  }

  /** How many wait; those that try are not among them. */
  get waiting(): number {
    return this.held.size;
  }

  /** Nothing waits, and nothing tries. */
  get idle(): boolean {
    return this.held.size === 0 && this.probes.size === 0;
  }

  hold(entry: HeldTask): void {
    this.held.set(entry.task.delivery, entry);
    this.rounds.arm();
  }

  /** Its run was no success. */
  failed(task: DeliveryTask): void {
    this.probes.delete(task);
  }

  /** @returns what goes on, if this was one that tried */
  succeeded(task: DeliveryTask): HeldTask[] {
    if (!this.probes.has(task)) return [];
    const all = [...this.held.values()];
    this.held.clear();
    this.probes.clear();
    this.rounds.reset();
    this.width = 1;
    return all;
  }

  /** It is settled, or will not come back. */
  forget(task: DeliveryTask): void {
    this.held.delete(task.delivery);
    this.probes.delete(task);
    this.rest();
  }

  /** What waited is through or waits for something else: the next outage begins with the short interval again. */
  rest(): void {
    if (!this.idle) return;
    this.rounds.reset();
    this.width = 1;
  }

  stop(): void {
    this.rounds.stop();
  }

  private round(): void {
    const next: HeldTask[] = [];
    for (const entry of this.held.values()) {
      if (this.probes.size >= this.width) break;
      this.probes.add(entry.task);
      next.push(entry);
    }
    if (next.length > 0) {
      this.rounds.tried();
      this.width = Math.min(this.width * 2, MOST_AT_A_TIME);
    }
    for (const { task } of next) this.held.delete(task.delivery);
    if (this.held.size > 0) this.rounds.arm();
    for (const { task, again } of next) again(task);
  }
}

/** ms; a probe costs one send, and until one gets through nothing goes on. */
export const LONGEST_BETWEEN_PROBES = 30_000;
const MOST_AT_A_TIME = 16;
