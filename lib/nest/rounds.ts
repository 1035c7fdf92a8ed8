import { type Clock } from '../net/clock.js';
import { CallbackDeadline, type DeadlineQueue } from './deadline-queue.js';

export interface RoundsHost {
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
}

/** Repeats something at an interval that doubles as long as it brings nothing, up to `longest`. */
export class Rounds {
  private readonly timer: CallbackDeadline;
  private interval: number;

  constructor(
    private readonly host: RoundsHost,
    /** ms */
    private readonly initial: number,
    /** ms */
    private readonly longest: number,
    round: () => void,
  ) {
    this.interval = initial;
    this.timer = new CallbackDeadline(round);
  }

  /** A round is due after the interval, unless one is already. */
  arm(): void {
    if (this.timer.lane === undefined) this.host.deadlines.add(this.timer, this.host.clock.now(), this.interval);
  }

  /** What the rounds are for is done for at least one: the intervals begin anew, and the next round is no later than that. */
  succeeded(): void {
    this.interval = this.initial;
    if (this.timer.lane === undefined || this.timer.dueAt <= this.host.clock.now() + this.initial) return;
    this.stop();
    this.arm();
  }

  /** A round was tried: what could not be (paused, or no connection) has not failed either. */
  tried(): void {
    this.interval = Math.min(this.interval * 2, this.longest);
  }

  /** Nothing is left to be done: the next time begins with the short interval. */
  reset(): void {
    this.interval = this.initial;
    this.stop();
  }

  stop(): void {
    this.host.deadlines.remove(this.timer);
  }
}
