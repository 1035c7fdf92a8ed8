import { type Clock, type TimerHandle } from '../net/clock.js';

/** Something that is called once at a point in time unless it was removed before. Its links belong to the queue. */
export abstract class Deadline {
  /** When it is due, in the clock's milliseconds; meaningful while it is in a queue. */
  dueAt = 0;
  lane: Lane | undefined = undefined;
  previous: Deadline | undefined = undefined;
  next: Deadline | undefined = undefined;

  abstract onDeadline(now: number): void;
}

/** A deadline that calls a function, for the cases that are not hot. */
export class CallbackDeadline extends Deadline {
  constructor(private readonly callback: (now: number) => void) {
    super();
  }

  override onDeadline(now: number): void {
    this.callback(now);
  }
}

/**
 * Many deadlines on one timer. Entries with the same duration fall due in the order in which they came, so each duration
 * has a linked lane: adding and removing are O(1) and touch no timer. The timer is armed for the earliest deadline and is
 * left alone when entries go; a timer that finds nothing due looks again at what is then the earliest.
 */
export class DeadlineQueue {
  private readonly lanes = new Map<number, Lane>();
  private timer: TimerHandle | undefined;
  private armedFor = Infinity;
  private count = 0;

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.count;
  }

  /** Adds `entry`, due `afterMs` from `now`. Long odd durations are rounded up by at most 1 % to keep the lanes few. */
  add(entry: Deadline, now: number, afterMs: number): void {
    if (entry.lane !== undefined) this.remove(entry);
    const duration = roundUp(afterMs);
    let lane = this.lanes.get(duration);
    if (lane === undefined) this.lanes.set(duration, (lane = { duration, head: undefined, tail: undefined }));
    entry.dueAt = now + duration;
    entry.lane = lane;
    entry.previous = lane.tail;
    entry.next = undefined;
    if (lane.tail === undefined) lane.head = entry;
    else lane.tail.next = entry;
    lane.tail = entry;
    this.count += 1;
    if (entry.dueAt < this.armedFor) this.arm(entry.dueAt, now);
  }

  /** Takes `entry` out; does nothing if it is not in. */
  remove(entry: Deadline): void {
    const { lane, previous, next } = entry;
    if (lane === undefined) return;
    if (previous === undefined) lane.head = next;
    else previous.next = next;
    if (next === undefined) lane.tail = previous;
    else next.previous = previous;
    entry.lane = entry.previous = entry.next = undefined;
    this.count -= 1;
  }

  /** Forgets all entries and the timer. */
  clear(): void {
    for (const lane of this.lanes.values()) while (lane.head !== undefined) this.remove(lane.head);
    this.lanes.clear();
    this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.armedFor = Infinity;
  }

  private arm(at: number, now: number): void {
    this.clock.clearTimer(this.timer);
    this.armedFor = at;
    this.timer = this.clock.setTimer(() => this.expire(), at - now, false);
  }

  private expire(): void {
    this.timer = undefined;
    this.armedFor = Infinity;
    const now = this.clock.now();
    for (const lane of [...this.lanes.values()]) {
      while (lane.head !== undefined && lane.head.dueAt <= now) {
        const entry = lane.head;
        this.remove(entry);
        entry.onDeadline(now);
      }
    }
    let earliest = Infinity;
    for (const lane of this.lanes.values()) {
      if (lane.head === undefined) this.lanes.delete(lane.duration);
      else earliest = Math.min(earliest, lane.head.dueAt);
    }
    if (earliest < this.armedFor) this.arm(earliest, now);
  }
}

export interface Lane {
  readonly duration: number;
  head: Deadline | undefined;
  tail: Deadline | undefined;
}

/** Three significant digits, upwards: at most 900 lanes per power of ten, whatever jitter makes of the durations. */
function roundUp(ms: number): number {
  if (!(ms > 0)) return 0;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(ms)) - 2);
  return Math.ceil(ms / unit) * unit;
}
