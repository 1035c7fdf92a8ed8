import { CallbackDeadline, DeadlineQueue } from '../../../lib/nest/deadline-queue.js';
import { type Clock, systemClock } from '../../../lib/net/clock.js';

/** Virtual time; counts the timers that were set. */
class ManualClock implements Clock {
  time = 0;
  timersSet = 0;
  private timers: { at: number; callback: () => void }[] = [];
  now = () => this.time;
  wallTime = () => this.time;
  random = () => 0;
  endOfTurn = systemClock.endOfTurn;
  setTimer = (callback: () => void, ms: number) => {
    const timer = { at: this.time + ms, callback };
    this.timersSet += 1;
    this.timers.push(timer);
    return timer;
  };
  clearTimer = (timer: object | undefined) => {
    this.timers = this.timers.filter((other) => other !== timer);
  };
  get armed() {
    return this.timers.length;
  }
  advance(to: number) {
    for (;;) {
      const due = this.timers.filter(({ at }) => at <= to).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.time = due.at;
      this.clearTimer(due);
      due.callback();
    }
    this.time = to;
  }
}

let clock: ManualClock;
let queue: DeadlineQueue;
let fired: [string, number][];
const deadline = (name: string) => new CallbackDeadline((now) => fired.push([name, now]));
beforeEach(() => {
  clock = new ManualClock();
  queue = new DeadlineQueue(clock);
  fired = [];
});

it('calls each once at its time, in the order of their times, on one timer', () => {
  queue.add(deadline('late'), 0, 500);
  queue.add(deadline('early'), 0, 100);
  queue.add(deadline('middle'), 0, 300);
  expect(clock.armed).toBe(1);
  clock.advance(1_000);
  expect(fired).toEqual([
    ['early', 100],
    ['middle', 300],
    ['late', 500],
  ]);
  expect([queue.size, clock.armed]).toEqual([0, 0]);
});

it('adding and removing with one duration touches no timer after the first', () => {
  for (let i = 0; i < 1_000; i += 1) {
    const entry = deadline('x');
    queue.add(entry, i / 100, 60_000);
    queue.remove(entry);
  }
  expect(clock.timersSet).toBe(1);
  clock.advance(120_000);
  expect(fired).toEqual([]);
  expect(clock.armed).toBe(0);
});

it('removes from the head, the middle and the tail; removing twice does nothing; adding again moves', () => {
  const entries = ['a', 'b', 'c', 'd'].map(deadline);
  for (const entry of entries) queue.add(entry, 0, 100);
  for (const index of [1, 0, 3, 3]) queue.remove(entries[index]);
  expect(queue.size).toBe(1);
  queue.add(entries[2], 50, 100);
  expect(queue.size).toBe(1);
  clock.advance(100);
  expect(fired).toEqual([]);
  clock.advance(150);
  expect(fired).toEqual([['c', 150]]);
});

it('an entry that falls due may add and remove others', () => {
  const other = deadline('removed');
  queue.add(
    new CallbackDeadline((now) => {
      queue.remove(other);
      queue.add(deadline('added'), now, 10);
    }),
    0,
    100,
  );
  queue.add(other, 0, 100);
  clock.advance(200);
  expect(fired).toEqual([['added', 110]]);
});

it('never calls before the time, also for odd durations, and at most 1 % later', () => {
  for (const ms of [0.4, 7.3, 123.456, 4_567.8, 60_001]) queue.add(deadline(String(ms)), 0, ms);
  clock.advance(100_000);
  expect(fired).toHaveLength(5);
  for (const [name, at] of fired) {
    expect(at).toBeGreaterThanOrEqual(Number(name));
    expect(at).toBeLessThanOrEqual(Math.max(Number(name) * 1.01, Number(name) + 1));
  }
});

it('clear() forgets entries and timer', () => {
  queue.add(deadline('x'), 0, 100);
  queue.clear();
  expect([queue.size, clock.armed]).toEqual([0, 0]);
  clock.advance(1_000);
  expect(fired).toEqual([]);
});
