import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { settled, startApp, until } from '../nest/support/app.js';

@Controller()
class Old {
  @EventPattern<string>('old/+')
  handle(): void {}
}
let ran = 0;
@Controller()
class New {
  @EventPattern<string>('new')
  handle(): void {
    ran += 1;
  }
}

/** A session that an earlier version of the app left behind. */
async function leftBehind(): Promise<InMemoryMqttBroker> {
  const broker = await InMemoryMqttBroker.start();
  const { close } = await startApp([Old], { broker });
  await close();
  broker.publish('old/1', 'x', { qos: 1 });
  broker.log.clear();
  return broker;
}

beforeEach(() => (ran = 0));

it('C16: held by default: said in the log with the cure, status stalled, later messages are handled', async () => {
  const broker = await leftBehind();
  const { strategy, logged, close } = await startApp([New], { broker });
  broker.publish('new', 'x', { qos: 1 });
  await until(() => ran === 1 && strategy.stats.unmatched === 1);
  await settled();
  // The held one came first: nothing behind it may be acknowledged [MQTT-4.6.0-2].
  expect(broker.log.received('puback')).toEqual([]);
  expect(logged.some((line) => line.includes("'old/1'") && line.includes('unsubscribe'))).toBe(true);
  expect(strategy.health().status).toBe('down');
  await close();
  await broker.close();
});

it('C16: acknowledged and counted where that was asked for', async () => {
  const broker = await leftBehind();
  const { strategy, logged, close } = await startApp([New], { broker, strategy: { unmatched: 'acknowledge' } });
  await broker.log.waitForReceived('puback');
  expect(strategy.stats.unmatched).toBe(1);
  expect(logged.some((line) => line.includes("'old/1'"))).toBe(true);
  await close();
  await broker.close();
});

it('C16: a filter of an earlier version is dropped at start when it is named', async () => {
  const broker = await leftBehind();
  const { close } = await startApp([New], { broker, strategy: { unmatched: 'acknowledge', unsubscribe: ['old/+'] } });
  expect(broker.log.received('unsubscribe')).toMatchObject([{ unsubscriptions: ['old/+'] }]);
  await close();
  await broker.close();
});
