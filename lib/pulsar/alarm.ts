import { type Clock, type TimerHandle } from '../net/clock.js';

/** One timer for one core. It is only moved when the new time is earlier: waking too early costs less than moving often. */
export class Alarm {
  private handle: TimerHandle | undefined = undefined;
  private at = Infinity;

  constructor(
    private readonly clock: Clock,
    private readonly ring: () => void,
  ) {}

  /** @param at clock time, Infinity = not needed: a timer that is set already stays, and rings for nothing */
  set(at: number): void {
    if (at >= this.at) return;
    this.clock.clearTimer(this.handle);
    this.at = at;
    this.handle = this.clock.setTimer(() => {
      this.at = Infinity;
      this.handle = undefined;
      this.ring();
    }, at - this.clock.now());
  }

  /** At the core's end. */
  clear(): void {
    this.clock.clearTimer(this.handle);
    this.handle = undefined;
    this.at = Infinity;
  }
}
