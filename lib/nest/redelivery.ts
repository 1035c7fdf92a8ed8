import { type Clock } from '../net/clock.js';
import { CallbackDeadline, type DeadlineQueue } from './deadline-queue.js';
import { type DeliveryTask } from './delivery-task.js';

/**
 * What a held delivery waits for: `handler` for its redelivery; the others run again from the copy we hold, because a
 * reconnect does not cure a `sink` that is down, a `message` that does not fit, or a `deadLetter` that was not taken; `halted`
 * waits for `resume()`.
 */
export type HoldReason = 'handler' | 'sink' | 'message' | 'deadLetter' | 'halted';

interface Held {
  readonly task: DeliveryTask;
  readonly reason: HoldReason;
  readonly again: (task: DeliveryTask) => void;
}

export interface RedeliveryHost {
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  /** One controlled reconnect: the broker sends what is not acknowledged again. False: not now. */
  reconnect(held: number): boolean;
  /** Failed ones of earlier connections that the broker has not sent again on this one. */
  unclaimed(): readonly object[];
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
  private readonly held = new Map<object, Held>();
  /** Every delivery that was held once and is not settled. */
  private readonly tasks = new Map<object, DeliveryTask>();
  /** The sink was down when this delivery was let through to try it. */
  private probe: DeliveryTask | undefined = undefined;
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

  /** @param again runs it again from our copy; default: its failed handlers */
  hold(
    task: DeliveryTask,
    reason: HoldReason,
    again: (task: DeliveryTask) => void = (held) => this.host.rerun(held),
  ): void {
    task.held = true;
    if (this.probe === task) this.probe = undefined;
    this.held.set(task.delivery, { task, reason, again });
    this.tasks.set(task.delivery, task);
    if (this.timer.lane === undefined) this.arm();
    this.host.heldChanged();
  }

  /**
   * The broker sent it again: it runs again, unless it is on its way from our copy already.
   *
   * @returns false: it was never held
   */
  returned(delivery: object): boolean {
    const task = this.tasks.get(delivery);
    if (task !== undefined && this.held.delete(delivery)) this.host.rerun(task);
    return task !== undefined;
  }

  /** Will not come back as this delivery. */
  dropped(delivery: object): DeliveryTask | undefined {
    const task = this.tasks.get(delivery);
    this.tasks.delete(delivery);
    this.held.delete(delivery);
    if (this.probe === task) this.probe = undefined;
    return task;
  }

  /** `resume()` after a halt. */
  resumed(): void {
    this.runAgain([...this.held.values()].filter(({ reason }) => reason === 'halted'));
  }

  /** A delivery that was held before is settled: the next round starts with the short interval again. */
  succeeded(task: DeliveryTask): void {
    this.freed = true;
    this.tasks.delete(task.delivery);
    if (this.probe === task) {
      // The sink takes messages again: all that it held up go on at once.
      this.probe = undefined;
      this.runAgain([...this.held.values()].filter(({ reason }) => reason === 'sink'));
    }
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
    const { sinkDown } = this;
    const all = [...this.held.values()];
    const ofSink = all.filter(({ reason }) => reason === 'sink');
    // A broker that did not send it again on this connection has forgotten it (expired, say): no other one will bring it.
    // Should a copy come after all, it is bound to the run.
    const unclaimed = new Set(this.host.unclaimed());
    const onlyOurs = ({ task }: Held): boolean => task.delivery.orphaned || unclaimed.has(task.delivery);
    const local = all.filter(
      (held) =>
        held.reason === 'message' || held.reason === 'deadLetter' || (held.reason === 'handler' && onlyOurs(held)),
    );
    const resend = all.filter((held) => held.reason === 'handler' && !onlyOurs(held)).length;
    // While the sink is down a reconnect would only bring back what fails again.
    const tried = resend === 0 || sinkDown || this.host.reconnect(resend);
    // What was not tried (paused, or no connection) has not failed either.
    if (tried) this.interval = this.freed ? this.initial : Math.min(this.interval * 2, this.longest);
    if (tried) this.freed = false;
    this.runAgain(local);
    if (sinkDown && this.probe === undefined) {
      this.probe = ofSink[0].task;
      this.runAgain(ofSink.slice(0, 1));
    }
    this.arm();
  }

  private runAgain(entries: readonly Held[]): void {
    for (const { task, again } of entries) {
      this.held.delete(task.delivery);
      again(task);
    }
  }
}
