/**
 * Time, timers and randomness as one object, so that a whole client can run under a virtual clock.
 * The only place of `lib` that touches the runtime's timers.
 */
export interface Clock {
  /** Monotonic milliseconds; only differences mean something. */
  now(): number;
  /** Milliseconds since the Unix epoch. */
  wallTime(): number;
  /** A number in [0, 1). */
  random(): number;
  /** Runs `callback` once after `ms`. The handle keeps the process alive only if `keepAlive` is true (default). */
  setTimer(callback: () => void, ms: number, keepAlive?: boolean): TimerHandle;
  clearTimer(handle: TimerHandle | undefined): void;
  /**
   * Runs `callback` after the code that is running now and every promise reaction it leads to, before any further I/O:
   * what happens in one turn is gathered into one write.
   */
  endOfTurn(callback: () => void): void;
}

/** Opaque to everybody but the clock that made it. */
export type TimerHandle = object;

const MAX_DELAY = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  wallTime: () => Date.now(),
  random: () => Math.random(),
  setTimer(callback, ms, keepAlive = true) {
    const timer = setTimeout(callback, Math.min(Math.max(0, ms), MAX_DELAY));
    if (!keepAlive) timer.unref();
    return timer;
  },
  clearTimer(handle) {
    clearTimeout(handle as NodeJS.Timeout | undefined);
  },
  endOfTurn: (callback) => process.nextTick(callback),
};
