import { type Clock, systemClock, type TimerHandle } from '../../../../lib/net/clock.js';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
  handle: TimerHandle | undefined;
}

/** The system's clock, of which a test can skip a part: what falls due meanwhile rings at once. */
export class SkippingClock implements Clock {
  private skipped = 0;
  private readonly timers = new Set<Timer>();

  readonly random = systemClock.random;
  readonly endOfTurn = systemClock.endOfTurn;
  readonly now = (): number => systemClock.now() + this.skipped;
  readonly wallTime = (): number => systemClock.wallTime() + this.skipped;

  skip(ms: number): void {
    this.skipped += ms;
    const due = [...this.timers].filter(({ at }) => at <= this.now()).sort((a, b) => a.at - b.at);
    for (const timer of due) if (this.timers.has(timer)) this.ring(timer);
  }

  setTimer(callback: () => void, ms: number, keepAlive?: boolean): TimerHandle {
    const timer: Timer = { at: this.now() + ms, callback, handle: undefined };
    timer.handle = systemClock.setTimer(() => this.ring(timer), ms, keepAlive);
    this.timers.add(timer);
    return timer;
  }

  clearTimer(handle: TimerHandle | undefined): void {
    const timer = handle as Timer | undefined;
    if (timer === undefined || !this.timers.delete(timer)) return;
    systemClock.clearTimer(timer.handle);
  }

  private ring(timer: Timer): void {
    this.clearTimer(timer);
    timer.callback();
  }
}
