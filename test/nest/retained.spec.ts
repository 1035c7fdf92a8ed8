import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { startApp, until } from './support/app.js';

let ran: string[] = [];
const note = (handler: string, payload: Buffer, { retained }: MqttMessageContext): void => {
  ran.push(`${handler} ${payload.toString()}${retained ? ' retained' : ''}`);
};

@Controller()
class Handlers {
  @MqttEvent('a')
  deliver(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    note('deliver', payload, context);
  }

  @MqttEvent('b', { retained: 'skip' })
  skip(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    note('skip', payload, context);
  }

  @MqttEvent('storm/+')
  storm(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    note('storm', payload, context);
  }
}

beforeEach(() => (ran = []));

describe.each([5, 4] as const)('MQTT %i', (protocolVersion) => {
  it('a retained message says so to its handler; one that skips them acknowledges without a run; live ones run both', async () => {
    const broker = await InMemoryMqttBroker.start();
    for (const topic of ['a', 'b']) broker.publish(topic, 'old', { qos: 1, retain: true });
    const running = await startApp([Handlers], { broker, strategy: { protocolVersion } });
    await broker.log.waitForReceived('puback', 2);
    for (const topic of ['a', 'b']) broker.publish(topic, 'new', { qos: 1 });
    await broker.log.waitForReceived('puback', 4);
    expect(ran).toEqual(['deliver old retained', 'deliver new', 'skip new']);
    await running.close();
    await broker.close();
  });
});

it('a storm of retained messages on one SUBSCRIBE runs all of them, and publishes get through meanwhile', async () => {
  const broker = await InMemoryMqttBroker.start();
  const total = 5_000;
  for (let i = 0; i < total; i += 1) broker.publish(`storm/${i}`, String(i), { qos: 1, retain: true });
  const running = await startApp([Handlers], { broker, strategy: { receiveMaximum: 10, concurrency: 4 } });
  await running.strategy.unwrap<MqttClient>().publish({ topic: 'out', payload: 'x', qos: 1 });
  const runAtPublish = ran.length;
  await until(() => ran.length === total, 'all have run', 25_000);
  expect(runAtPublish).toBeLessThan(total);
  expect(new Set(ran).size).toBe(total);
  expect(broker.log.received('connect')).toHaveLength(1);
  expect(broker.violations).toEqual([]);
  await running.close();
  await broker.close();
});
