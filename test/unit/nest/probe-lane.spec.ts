import { DeadlineQueue } from '../../../lib/nest/deadline-queue.js';
import { type DeliveryTask } from '../../../lib/nest/delivery-task.js';
import { ProbeLane } from '../../../lib/nest/probe-lane.js';
import { VirtualClock } from '../../model/strategy/virtual-clock.js';

it('an outage begins with one probe after the short interval, however the one before ended', async () => {
  const clock = new VirtualClock(() => 0.5);
  const lane = new ProbeLane({ clock, deadlines: new DeadlineQueue(clock) }, 5_000);
  const task = (): DeliveryTask => ({ delivery: {} }) as unknown as DeliveryTask;
  const settle = (): Promise<void> => Promise.resolve();
  const tried: number[] = [];
  const again = (): unknown => tried.push(clock.now());
  const first = task();
  for (let i = 0; i < 6; i += 1) {
    lane.hold({ task: first, again });
    await clock.pass(40_000, settle);
    lane.failed(first);
  }
  // The last time it failed by itself: what it waits for now is kept elsewhere.
  lane.rest();
  expect(tried).toHaveLength(6);
  expect(lane.idle).toBe(true);
  await clock.pass(3_600_000, settle);
  const began = clock.now();
  for (let i = 0; i < 20; i += 1) lane.hold({ task: task(), again });
  await clock.pass(5_000, settle);
  expect(tried.slice(6)).toEqual([began + 5_000]);
});
