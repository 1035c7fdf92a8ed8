import { Controller } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { startApp } from './support/app.js';

let runs = 0;

@Controller()
class Handlers {
  // The first run takes 60 ms: with the delay of the policy the second one would start later than 70 ms after its begin.
  @MqttEvent('slow', {
    failure: (failure) => (failure.run === 1 ? { action: 'retry', delayMs: 20 } : 'reject'),
  })
  async slow(): Promise<void> {
    runs += 1;
    await sleep(60);
    throw new Error('no');
  }
}

it.each([
  [70, 1],
  [60_000, 2],
])('maxHold %i ms counts from the begin of the first run: %i runs', async (maxHold, expected) => {
  runs = 0;
  const running = await startApp([Handlers], { strategy: { failure: { retry: { maxHold }, then: 'discard' } } });
  running.broker.publish('slow', 'x');
  const [{ reasonCode = 0 }] = await running.broker.log.waitForReceived('puback', 1);
  expect(runs).toBe(expected);
  expect(reasonCode).toBe(expected === 1 ? 0 : 0x83);
  await running.close();
});
