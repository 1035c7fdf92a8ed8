import { DeadlineQueue } from '../../../lib/nest/deadline-queue.js';
import { StallWatch } from '../../../lib/nest/stall-watch.js';
import { VirtualClock } from '../../model/strategy/virtual-clock.js';

const setUp = () => {
  const clock = new VirtualClock(() => 0.5);
  const lines: string[] = [];
  const changes: boolean[] = [];
  const state = { receivedAt: undefined as number | undefined, reported: false };
  const watch: StallWatch = new StallWatch(
    {
      clock,
      deadlines: new DeadlineQueue(clock),
      client: {
        window: { used: 3, size: 8 },
        stats: { pausedMs: 12.4 },
        oldestUnacknowledged: () =>
          state.receivedAt === undefined
            ? undefined
            : { delivery: { message: { topic: 'a/b' }, attempt: 2 }, ageMs: clock.now() - state.receivedAt },
      } as never,
      logger: { error: (line: unknown) => lines.push(String(line)) } as never,
      heldChanged: () => changes.push(watch.stalled),
      reported: () => state.reported,
    },
    1_000,
  );
  watch.start();
  const pass = (ms: number): Promise<void> => clock.pass(ms, () => Promise.resolve());
  return { watch, lines, changes, state, clock, pass };
};

it('says once per stall what is the matter: topic, age, attempt, window and paused time', async () => {
  const { watch, lines, changes, state, clock, pass } = setUp();
  state.receivedAt = clock.now();
  await pass(999);
  expect(watch.stalled).toBe(false);
  await pass(600_000);
  expect(watch.stalled).toBe(true);
  expect(lines).toEqual([
    "Stalled: a message on 'a/b' is not acknowledged, age 1000 ms, attempt 2; 3 of 8 places of the window are in use, " +
      'reading was paused for 12 ms in all',
  ]);
  state.receivedAt = undefined;
  await pass(250);
  expect(changes).toEqual([true, false]);
});

it('stalls that follow each other are one line a minute; each is in the status', async () => {
  const { lines, changes, state, clock, pass } = setUp();
  for (let i = 0; i < 60; i += 1) {
    state.receivedAt = clock.now();
    await pass(1_500);
    state.receivedAt = undefined;
    await pass(500);
  }
  expect(changes).toHaveLength(120);
  expect(lines).toHaveLength(2);
});

it('a stall that began within that minute and lasts is said at its end', async () => {
  const { lines, state, clock, pass } = setUp();
  state.receivedAt = clock.now();
  await pass(2_000);
  state.receivedAt = undefined;
  await pass(1_000);
  state.receivedAt = clock.now();
  await pass(30_000);
  expect(lines).toHaveLength(1);
  await pass(60_000);
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/age 5\d{4} ms/);
});

it('a message whose failure was said already is no second line', async () => {
  const { watch, lines, state, clock, pass } = setUp();
  state.receivedAt = clock.now();
  state.reported = true;
  await pass(100_000);
  expect(watch.stalled).toBe(true);
  expect(lines).toEqual([]);
});
