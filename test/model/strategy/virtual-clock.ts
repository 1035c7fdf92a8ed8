import { type Clock, type TimerHandle } from '../../../lib/net/clock.js';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** Time that passes only when the schedule says so. The end of a turn is the real one: promises run as they do outside. */
export class VirtualClock implements Clock {
  private time = 1000;
  private readonly timers = new Set<Timer>();

  constructor(readonly random: () => number) {}

  /** In how many ms each timer is due. */
  get pending(): number[] {
    return [...this.timers].map(({ at }) => at - this.time);
  }

  now(): number {
    return this.time;
  }

  wallTime(): number {
    return this.time;
  }

  setTimer(callback: () => void, ms: number): TimerHandle {
    const timer = { at: this.time + Math.max(0, ms), callback };
    this.timers.add(timer);
    return timer;
  }

  clearTimer(handle: TimerHandle | undefined): void {
    this.timers.delete(handle as Timer);
  }

  endOfTurn(callback: () => void): void {
    process.nextTick(callback);
  }

  /** Lets `ms` pass: every timer in its turn, with everything that it leads to. */
  async pass(ms: number, settle: () => Promise<void>): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      let next: Timer | undefined;
      for (const timer of this.timers) if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
      if (next === undefined) break;
      this.timers.delete(next);
      this.time = Math.max(this.time, next.at);
      next.callback();
      await settle();
    }
    this.time = end;
  }
}
