import { type Logger } from '@nestjs/common';
import { type DeliveryTask } from './delivery-task.js';
import { type HoldReason } from './hold-reason.js';
import { HoldReport } from './hold-report.js';
import { type HeldTask, ProbeLane } from './probe-lane.js';
import { Rounds, type RoundsHost } from './rounds.js';

interface Held extends HeldTask {
  readonly reason: HoldReason;
}

export interface RedeliveryHost extends RoundsHost {
  readonly logger: Pick<Logger, 'error' | 'log'>;
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
 * ours, or the users' code is not what failed - the copy we hold runs again instead.
 */
export class Redelivery {
  /** Wait for the next round, or for `resume()`. */
  private readonly held = new Map<object, Held>();
  /** Every delivery that was held once and is not settled. */
  private readonly tasks = new Map<object, DeliveryTask>();
  /** Wait until what failed works again. */
  private readonly sink: ProbeLane;
  private readonly calls: ProbeLane;
  private readonly letters: ProbeLane;
  private readonly lanes: readonly ProbeLane[];
  private readonly rounds: Rounds;
  private readonly report: HoldReport;

  /** @param initial ms */
  constructor(
    private readonly host: RedeliveryHost,
    initial: number,
    longest = Math.max(LONGEST, initial),
  ) {
    this.rounds = new Rounds(host, initial, longest, () => this.round());
    this.report = new HoldReport(host.clock, host.logger);
    this.sink = new ProbeLane(host, initial);
    this.calls = new ProbeLane(host, initial);
    this.letters = new ProbeLane(host, initial);
    this.lanes = [this.sink, this.calls, this.letters];
  }

  /** How many are held now; what runs again is not. */
  get size(): number {
    return this.held.size + this.sink.waiting + this.calls.waiting + this.letters.waiting;
  }

  /** How many failed and are not settled, whether they are held or run again. */
  get unsettled(): number {
    return this.tasks.size;
  }

  /** The sink keeps at least one, or is being tried. */
  get sinkDown(): boolean {
    return !this.sink.idle;
  }

  /** The oldest of those that failed and are not settled. */
  get oldest(): DeliveryTask | undefined {
    let oldest: DeliveryTask | undefined;
    for (const task of this.tasks.values()) {
      if (oldest === undefined || task.delivery.receivedAt < oldest.delivery.receivedAt) oldest = task;
    }
    return oldest;
  }

  /** Of a delivery that failed and is not settled. */
  taskOf(delivery: object): DeliveryTask | undefined {
    return this.tasks.get(delivery);
  }

  /** @param again runs it again from our copy; default: its failed handlers */
  hold(
    task: DeliveryTask,
    reason: HoldReason,
    again: (task: DeliveryTask) => void = (held) => this.host.rerun(held),
  ): void {
    task.held = true;
    this.tasks.set(task.delivery, task);
    for (const lane of this.lanes) lane.failed(task);
    if (reason === 'sink') this.sink.hold({ task, again });
    else if (reason === 'call') this.calls.hold({ task, again });
    else if (reason === 'deadLetter') this.letters.hold({ task, again });
    else {
      this.held.set(task.delivery, { task, reason, again });
      if (reason !== 'halted') this.rounds.arm();
    }
    for (const lane of this.lanes) lane.rest();
    // A halt has its own word.
    if (reason !== 'halted') this.report.held(this, reason);
    this.host.heldChanged();
  }

  /**
   * The broker sent it again. If that is what it waited for, it runs again; what waits for something else goes on waiting:
   * a link that flaps must not become a storm of runs on a sink that is down.
   *
   * @returns false: it was never held
   */
  returned(delivery: object): boolean {
    const task = this.tasks.get(delivery);
    if (task !== undefined && this.held.get(delivery)?.reason === 'handler') {
      this.held.delete(delivery);
      this.host.rerun(task);
    }
    return task !== undefined;
  }

  /** Will not come back as this delivery. */
  dropped(delivery: object): DeliveryTask | undefined {
    const task = this.tasks.get(delivery);
    if (task !== undefined) this.forget(task);
    return task;
  }

  /** `resume()` after a halt. */
  resumed(): void {
    this.runAgain([...this.held.values()].filter(({ reason }) => reason === 'halted'));
  }

  /** A delivery that was held before is settled: the next round starts with the short interval again. */
  settled(task: DeliveryTask, outcome: 'succeeded' | 'discarded' | 'rejected' | 'deadLettered'): void {
    this.rounds.succeeded();
    // Only these say something about what the others wait for; how else a policy ended it does not.
    const goOn =
      outcome === 'succeeded'
        ? [...this.sink.succeeded(task), ...this.calls.succeeded(task)]
        : outcome === 'deadLettered'
          ? this.letters.succeeded(task)
          : [];
    this.forget(task);
    if (this.held.size === 0) this.rounds.reset();
    for (const each of goOn) each.again(each.task);
    this.host.heldChanged();
  }

  stop(): void {
    for (const each of [this.rounds, ...this.lanes]) each.stop();
  }

  private forget(task: DeliveryTask): void {
    this.tasks.delete(task.delivery);
    this.held.delete(task.delivery);
    for (const lane of this.lanes) lane.forget(task);
    if (this.tasks.size === 0) this.report.over();
  }

  private round(): void {
    const all = [...this.held.values()].filter(({ reason }) => reason !== 'halted');
    if (all.length === 0) return;
    // A broker that did not send it again on this connection has forgotten it (expired, say): no other one will bring it.
    // Should a copy come after all, it is bound to the run.
    const unclaimed = new Set(this.host.unclaimed());
    // While the sink is down nothing is taken in, so a reconnect would bring nothing.
    const { sinkDown } = this;
    const byReconnect = ({ task, reason }: Held): boolean =>
      reason === 'handler' && !sinkDown && !task.delivery.orphaned && !unclaimed.has(task.delivery);
    const local = all.filter((held) => !byReconnect(held));
    const resend = all.length - local.length;
    if (resend === 0 || this.host.reconnect(resend)) this.rounds.tried();
    this.rounds.arm();
    this.runAgain(local);
  }

  private runAgain(entries: readonly Held[]): void {
    for (const { task, again } of entries) {
      this.held.delete(task.delivery);
      again(task);
    }
  }
}

/** ms */
const LONGEST = 300_000;
