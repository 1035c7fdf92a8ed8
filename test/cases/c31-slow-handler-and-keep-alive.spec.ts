import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { startApp, until } from '../nest/support/app.js';

const started: string[] = [];
let release: () => void = () => undefined;

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(@Payload() payload: Buffer): Promise<void> | void {
    started.push(payload.toString());
    if (payload.toString() === 'slow') return new Promise((resolve) => (release = resolve));
  }
}

it('C31: a slow handler keeps neither the pings nor other messages from going on', async () => {
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { keepAlive: 1 } });
  broker.publish('t', 'slow', { qos: 1 });
  await until(() => started.length === 1);
  await until(() => broker.log.received('pingreq').length >= 3, 'three pings', 20_000);
  for (const name of ['a', 'b']) broker.publish('t', name, { qos: 1 });
  await until(() => started.length === 3);
  expect(broker.log.sent('pingresp').length).toBeGreaterThanOrEqual(3);
  expect(broker.log.received('connect')).toHaveLength(1);
  release();
  await until(() => broker.log.received('puback').length === 3);
  expect(strategy.stats.succeeded).toBe(3);
  await close();
});
