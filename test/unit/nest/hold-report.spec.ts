import { HoldReport } from '../../../lib/nest/hold-report.js';
import { VirtualClock } from '../../model/strategy/virtual-clock.js';

const setUp = () => {
  const clock = new VirtualClock(() => 0.5);
  const errors: string[] = [];
  const logs: string[] = [];
  const report = new HoldReport(clock, {
    error: (message: unknown) => void errors.push(String(message)),
    log: (message: unknown) => void logs.push(String(message)),
  });
  const receivedAt = clock.now();
  const redelivery = { size: 0, oldest: { delivery: { message: { topic: 'a/b' }, receivedAt, attempt: 2 } } as never };
  const hold = (): void => {
    redelivery.size += 1;
    report.held(redelivery, 'handler');
  };
  const pass = (ms: number): Promise<void> => clock.pass(ms, () => Promise.resolve());
  return { errors, logs, report, redelivery, hold, pass };
};

it('one line for 10,000 failures; it names topic, age and attempt of the oldest, and what follows', async () => {
  const { errors, hold, pass } = setUp();
  await pass(1_200);
  for (let i = 0; i < 10_000; i += 1) hold();
  expect(errors).toEqual([
    "Held: a message on 'a/b' is not acknowledged, age 1200 ms, attempt 2; 1 held, using up the broker's window; " +
      'a controlled reconnect brings it again',
  ]);
});

it('while failures go on there is one line a minute, with how many they were', async () => {
  const { errors, hold, pass } = setUp();
  for (let second = 0; second < 180; second += 1) {
    hold();
    await pass(1_000);
  }
  expect(errors).toHaveLength(3);
  expect(errors[1]).toMatch(/^Held: .* age 60000 ms, .*; 61 held, .* \(60 failures since the last such line\)$/);
});

it('the end is said once, and what fails after it is said at once', async () => {
  const { errors, logs, report, hold, pass } = setUp();
  report.over();
  expect(logs).toEqual([]);
  hold();
  await pass(2_500);
  report.over();
  report.over();
  expect(logs).toEqual(['Nothing is held any more, after 2500 ms']);
  hold();
  expect(errors).toHaveLength(2);
  expect(errors[1]).not.toContain('since the last such line');
});
