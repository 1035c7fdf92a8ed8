import { DeadlineQueue } from '../../../lib/nest/deadline-queue.js';
import { type DeliveryTask } from '../../../lib/nest/delivery-task.js';
import { type HoldReason } from '../../../lib/nest/hold-reason.js';
import { Redelivery } from '../../../lib/nest/redelivery.js';
import { VirtualClock } from '../../model/strategy/virtual-clock.js';

/** The controller alone under a clock that stands still until it is told to go on. */
class World {
  readonly clock = new VirtualClock(() => 0.5);
  /** When there was a reconnect, and how many it was for: ms since the start. */
  readonly reconnects: { at: number; held: number }[] = [];
  readonly lines: string[] = [];
  readonly runs: { name: string; at: number }[] = [];
  possible = true;
  unclaimed: object[] = [];
  readonly redelivery: Redelivery;
  /** What a run leads to; default: nothing, it goes on running. */
  onRun: (task: DeliveryTask) => void = () => undefined;
  private readonly start = this.clock.now();
  private readonly names = new Map<DeliveryTask, string>();

  constructor(initial = 5_000) {
    this.redelivery = new Redelivery(
      {
        clock: this.clock,
        deadlines: new DeadlineQueue(this.clock),
        logger: {
          error: (line: unknown) => this.lines.push(String(line)),
          log: (line: unknown) => this.lines.push(String(line)),
        },
        reconnect: (held) => {
          if (this.possible) this.reconnects.push({ at: this.elapsed, held });
          return this.possible;
        },
        unclaimed: () => this.unclaimed,
        rerun: (task) => {
          this.runs.push({ name: this.names.get(task)!, at: this.elapsed });
          this.onRun(task);
        },
        heldChanged: () => undefined,
      },
      initial,
    );
  }

  get elapsed(): number {
    return this.clock.now() - this.start;
  }

  task(name: string): DeliveryTask {
    const task = {
      delivery: {
        orphaned: false,
        receivedAt: this.clock.now(),
        attempt: 1,
        message: { topic: `t/${name}` },
      },
      held: false,
    } as unknown as DeliveryTask;
    this.names.set(task, name);
    return task;
  }

  hold(name: string, reason: HoldReason): DeliveryTask {
    const task = this.task(name);
    this.redelivery.hold(task, reason);
    return task;
  }

  pass(ms: number): Promise<void> {
    return this.clock.pass(ms, () => Promise.resolve());
  }
}

/** Of each interval in a row. */
const sums = (intervals: readonly number[]): number[] => {
  let sum = 0;
  return intervals.map((each) => (sum += each));
};

it('reconnects after redeliverAfter; the intervals double while nothing is freed, up to 5 minutes', async () => {
  const world = new World();
  world.hold('a', 'handler');
  await world.pass(2_000_000);
  const intervals = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000, 300_000, 300_000];
  expect(world.reconnects.map(({ at }) => at)).toEqual(sums(intervals));
});

it('an interval that is longer than 5 minutes by itself stays as it is', async () => {
  const world = new World(400_000);
  world.hold('a', 'handler');
  await world.pass(1_300_000);
  expect(world.reconnects.map(({ at }) => at)).toEqual([400_000, 800_000, 1_200_000]);
});

it('the interval is the short one again as soon as something is freed', async () => {
  const world = new World();
  const [first, second] = [world.hold('a', 'handler'), world.hold('b', 'handler')];
  await world.pass(36_000);
  expect(world.reconnects.map(({ at }) => at)).toEqual([5_000, 15_000, 35_000]);
  world.redelivery.returned(first.delivery);
  world.redelivery.settled(first, 'succeeded');
  world.redelivery.returned(second.delivery);
  world.redelivery.hold(second, 'handler');
  // Successes that follow do not put it off.
  await world.pass(3_000);
  const other = world.hold('c', 'handler');
  world.redelivery.settled(other, 'succeeded');
  await world.pass(2_000);
  expect(world.reconnects.at(-1)).toEqual({ at: 41_000, held: 1 });
  await world.pass(10_000);
  expect(world.reconnects.at(-1)).toEqual({ at: 51_000, held: 1 });
});

it('rounds that could not be tried (paused, no connection) do not double the interval', async () => {
  const world = new World();
  world.hold('a', 'handler');
  world.possible = false;
  await world.pass(60_000);
  expect(world.reconnects).toEqual([]);
  world.possible = true;
  await world.pass(15_000);
  expect(world.reconnects.map(({ at }) => at)).toEqual([65_000, 75_000]);
});

it('failures that come one after the other within the interval are one reconnect, after the first of them', async () => {
  const world = new World();
  for (let i = 0; i < 10; i += 1) {
    world.hold(String(i), 'handler');
    await world.pass(490);
  }
  await world.pass(200);
  expect(world.reconnects).toEqual([{ at: 5_000, held: 10 }]);
  await world.pass(9_000);
  expect(world.reconnects).toHaveLength(1);
});

it('what nobody but us has runs again here, without a reconnect', async () => {
  const world = new World();
  const [orphan, forgotten] = [world.hold('orphan', 'handler'), world.hold('forgotten', 'handler')];
  Object.assign(orphan.delivery, { orphaned: true });
  world.unclaimed = [forgotten.delivery];
  await world.pass(5_000);
  expect(world.runs.map(({ name }) => name)).toEqual(['orphan', 'forgotten']);
  expect(world.reconnects).toEqual([]);
});

it('a message at fault runs again at intervals that double, up to 5 minutes', async () => {
  const world = new World();
  world.onRun = (task) => world.redelivery.hold(task, 'message');
  world.hold('a', 'message');
  await world.pass(1_000_000);
  expect(world.runs.map(({ at }) => at)).toEqual(
    sums([5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]),
  );
  expect(world.reconnects).toEqual([]);
});

describe.each(['sink', 'call', 'deadLetter'] as const)('held by a %s', (reason) => {
  const outcome = reason === 'deadLetter' ? 'deadLettered' : 'succeeded';

  it('one tries it, at intervals that double up to 30 seconds; there is no reconnect', async () => {
    const world = new World();
    world.onRun = (task) => world.redelivery.hold(task, reason);
    world.hold('a', reason);
    await world.pass(200_000);
    expect(world.runs.map(({ at }) => at)).toEqual(
      sums([5_000, 10_000, 20_000, 30_000, 30_000, 30_000, 30_000, 30_000]),
    );
    expect(world.reconnects).toEqual([]);
    expect(world.redelivery.sinkDown).toBe(reason === 'sink');
  });

  it('all go on with the first that gets through, and the next time begins with the short interval', async () => {
    const world = new World();
    for (let i = 0; i < 100; i += 1) world.hold(String(i), reason);
    await world.pass(5_000);
    expect(world.runs).toEqual([{ name: '0', at: 5_000 }]);
    const tasks: DeliveryTask[] = [];
    world.onRun = (task) => tasks.push(task);
    await world.pass(1_000);
    world.redelivery.settled([...world['names'].keys()][0], outcome);
    expect(world.runs.slice(1).map(({ name }) => name)).toEqual(Array.from({ length: 99 }, (_, i) => String(i + 1)));
    expect(world.redelivery.sinkDown).toBe(false);
    expect(world.redelivery.unsettled).toBe(99);
    world.redelivery.hold(tasks[0], reason);
    world.runs.length = 0;
    await world.pass(5_000);
    expect(world.runs).toEqual([{ name: '1', at: 11_000 }]);
  });

  it('one that never gets through does not keep the others, which wait for something else: each has its turn', async () => {
    const world = new World();
    let open = false;
    world.onRun = (task) => {
      const name = world.runs.at(-1)!.name;
      if (open && name.startsWith('other')) world.redelivery.settled(task, outcome);
      else world.redelivery.hold(task, reason);
    };
    for (let i = 0; i < 127; i += 1) world.hold(`never ${i}`, reason);
    world.hold('other', reason);
    await world.pass(60_000);
    open = true;
    await world.pass(300_000);
    expect(world.redelivery.unsettled).toBe(127);
    // A bounded number in a bounded time: no hot loop, whatever gets through.
    expect(world.runs.length).toBeLessThan(127 + (360 / 5) * 16);
  });

  it('a try that takes long is not doubled, and ends the waiting of all when it gets through', async () => {
    const world = new World();
    const slow = world.hold('slow', reason);
    world.onRun = (task) => {
      if (task !== slow) world.redelivery.hold(task, reason);
    };
    world.hold('second', reason);
    world.hold('third', reason);
    await world.pass(500_000);
    expect(world.runs.filter(({ name }) => name === 'slow')).toHaveLength(1);
    expect(world.runs.filter(({ name }) => name === 'third').length).toBeGreaterThan(3);
    world.runs.length = 0;
    world.onRun = () => undefined;
    world.redelivery.settled(slow, outcome);
    expect(new Set(world.runs.map(({ name }) => name))).toEqual(new Set(['second', 'third']));
  });

  it('a copy that the broker sends meanwhile does not make it run', () => {
    const world = new World();
    const task = world.hold('a', reason);
    expect(world.redelivery.returned(task.delivery)).toBe(true);
    expect(world.runs).toEqual([]);
    expect(world.redelivery.size).toBe(1);
  });
});

it('a policy that ends the one that tries says nothing about the sink', async () => {
  const world = new World();
  const [first] = [world.hold('a', 'sink'), world.hold('b', 'sink')];
  await world.pass(5_000);
  world.redelivery.settled(first, 'discarded');
  expect(world.runs.map(({ name }) => name)).toEqual(['a']);
  expect(world.redelivery.sinkDown).toBe(true);
  await world.pass(10_000);
  expect(world.runs.map(({ name }) => name)).toEqual(['a', 'b']);
});

it('while the sink is down nothing reconnects: what waits for that runs again here', async () => {
  const world = new World();
  world.hold('own fault', 'handler');
  world.hold('sink', 'sink');
  await world.pass(5_000);
  expect(world.reconnects).toEqual([]);
  expect(new Set(world.runs.map(({ name }) => name))).toEqual(new Set(['own fault', 'sink']));
});

it('the beginning and the end are said', async () => {
  const world = new World();
  const [first, second] = [world.hold('a', 'sink'), world.hold('b', 'halted')];
  await world.pass(100);
  world.redelivery.settled(first, 'discarded');
  expect(world.lines).toHaveLength(1);
  expect(world.lines[0]).toMatch(/^Held: a message on 't\/a' .* 1 held, .* the intake pauses/);
  world.redelivery.dropped(second.delivery);
  expect(world.lines.slice(1)).toEqual(['Nothing is held any more, after 100 ms']);
});

it('a halted one runs at resume() only', async () => {
  const world = new World();
  const task = world.hold('a', 'halted');
  expect(world.redelivery.returned(task.delivery)).toBe(true);
  await world.pass(1_000_000);
  expect(world.runs).toEqual([]);
  world.redelivery.resumed();
  expect(world.runs.map(({ name }) => name)).toEqual(['a']);
});

it('the oldest is the one that was received first, whatever failed again since', async () => {
  const world = new World();
  const first = world.hold('a', 'handler');
  await world.pass(10);
  world.hold('b', 'sink');
  world.redelivery.hold(first, 'message');
  expect(world.redelivery.oldest).toBe(first);
  expect(world.redelivery.dropped(first.delivery)).toBe(first);
  expect(world.redelivery.unsettled).toBe(1);
  world.redelivery.stop();
});
