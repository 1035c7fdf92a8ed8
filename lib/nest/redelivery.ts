import { type Clock } from '../net/clock.js';
import { CallbackDeadline, type DeadlineQueue } from './deadline-queue.js';
import { type DeliveryTask } from './delivery-task.js';

/** Why a held message cannot be cured by having the broker send it again. */
export type HoldReason = 'handler' | 'sink' | 'message';

export interface RedeliveryHost {
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  /** One controlled reconnect: the broker sends what is not acknowledged again. */
  reconnect(held: number): void;
  /** Runs a held delivery again from the copy we hold. */
  rerun(task: DeliveryTask): void;
  /** Something is held, or nothing is any more. */
  heldChanged(): void;
}

/**
 * Failed deliveries that stay un-acknowledged. MQTT sends again only on a reconnect, so after `redeliverAfter` there is one,
 * however many failed; the interval doubles while a round frees nothing. Where a reconnect cannot help - the only copy is
 * ours, or the sink is what failed - the copy we hold runs again instead.
 */
export class Redelivery {
  private readonly held = new Map<object, { readonly task: DeliveryTask; readonly reason: HoldReason }>();
  private readonly timer = new CallbackDeadline(() => this.fire());
  private interval: number;
  private freed = false;

  constructor(
    private readonly host: RedeliveryHost,
    private readonly initial: number,
    private readonly longest = Math.max(300_000, initial),
  ) {
    this.interval = initial;
  }

  get size(): number {
    return this.held.size;
  }

  /** A sink that no reconnect cures holds at least one. */
  get sinkDown(): boolean {
    for (const { reason } of this.held.values()) if (reason === 'sink') return true;
    return false;
  }

  /** The one that has been held longest. */
  get oldest(): DeliveryTask | undefined {
    for (const { task } of this.held.values()) return task;
    return undefined;
  }

  hold(task: DeliveryTask, reason: HoldReason): void {
    task.held = true;
    this.held.set(task.delivery, { task, reason });
    if (this.timer.lane === undefined) this.arm();
    this.host.heldChanged();
  }

  /** The broker sent it again (or it runs again from our copy). */
  take(delivery: object): DeliveryTask | undefined {
    const entry = this.held.get(delivery);
    if (entry === undefined) return undefined;
    this.held.delete(delivery);
    return entry.task;
  }

  /** A delivery that was held before is settled: the next round starts with the short interval again. */
  succeeded(): void {
    this.freed = true;
    if (this.held.size === 0) this.interval = this.initial;
    this.host.heldChanged();
  }

  stop(): void {
    this.host.deadlines.remove(this.timer);
  }

  private arm(): void {
    this.host.deadlines.add(this.timer, this.host.clock.now(), this.interval);
  }

  private fire(): void {
    if (this.held.size === 0) return;
    this.interval = this.freed ? this.initial : Math.min(this.interval * 2, this.longest);
    this.freed = false;
    const again: DeliveryTask[] = [];
    let resend = 0;
    for (const { task, reason } of this.held.values()) {
      if (reason === 'handler' && !task.delivery.orphaned) resend += 1;
      else again.push(task);
    }
    // A sink that is down is probed with one message; the others follow when it got through.
    const probes = this.sinkDown ? again.slice(0, 1) : again;
    if (resend > 0 && !this.sinkDown) this.host.reconnect(resend);
    for (const task of probes) {
      this.held.delete(task.delivery);
      this.host.rerun(task);
    }
    this.arm();
  }
}
