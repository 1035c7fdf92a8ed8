import { type Deadline } from '../../../lib/nest/deadline-queue.js';
import { Redelivery } from '../../../lib/nest/redelivery.js';

it('doubles the interval for rounds that were tried and freed nothing, not for those that could not be', () => {
  let possible = true;
  let timer: Deadline | undefined;
  const delays: number[] = [];
  const redelivery = new Redelivery(
    {
      clock: { now: () => 0 } as never,
      deadlines: {
        add: (entry: Deadline, _now: number, delay: number) => {
          timer = entry;
          delays.push(delay);
        },
      } as never,
      reconnect: () => possible,
      unclaimed: () => [],
      rerun: () => undefined,
      heldChanged: () => undefined,
    },
    100,
    300,
  );
  redelivery.hold({ delivery: { orphaned: false }, held: false } as never, 'handler');
  possible = false;
  for (let i = 0; i < 3; i++) timer?.onDeadline(0);
  expect(delays).toEqual([100, 100, 100, 100]);
  possible = true;
  for (let i = 0; i < 3; i++) timer?.onDeadline(0);
  expect(delays.slice(4)).toEqual([200, 300, 300]);
});
