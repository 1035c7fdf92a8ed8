import { Controller } from '@nestjs/common';
import { Ctx, EventPattern } from '@nestjs/microservices';
import { type DetachedDelivery, type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { settled, startApp, until } from '../nest/support/app.js';

const handles: DetachedDelivery[] = [];

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(@Ctx() context: MqttMessageContext): void {
    handles.push(context.detach());
  }
}

beforeEach(() => handles.splice(0));

it('C13: a detached delivery is acknowledged by its handle, once', async () => {
  const { broker, close } = await startApp([Handlers]);
  broker.publish('t', 'x', { qos: 1 });
  await until(() => handles.length === 1);
  await settled();
  expect(broker.log.received('puback')).toEqual([]);
  expect(handles[0].acknowledge()).toBe(true);
  expect(handles[0].acknowledge()).toBe(false);
  expect(handles[0].fail(new Error('late'))).toBe(false);
  await broker.log.waitForReceived('puback');
  await settled();
  expect(broker.log.received('puback')).toHaveLength(1);
  await close();
});

it('C13: it frees its running place, survives a reconnect by binding, and fails at its timeout', async () => {
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { concurrency: 1, detachTimeout: 400 } });
  for (const payload of ['1', '2']) broker.publish('t', payload, { qos: 1 });
  await until(() => handles.length === 2);
  broker.cut();
  await until(() => broker.log.received('connect').length === 2);
  await settled();
  expect(handles).toHaveLength(2);
  expect(handles[0].acknowledge()).toBe(true);
  await broker.log.waitForReceived('puback');
  await until(() => strategy.stats.timedOut === 1);
  expect(handles[1].acknowledge()).toBe(false);
  expect(broker.log.received('puback')).toHaveLength(1);
  await close();
});
