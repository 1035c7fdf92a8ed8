import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { type MqttBrokerOptions } from '../../lib/testing/index.js';
import { settled, startApp, until } from '../nest/support/app.js';

let ran = 0;
@Controller()
class Handlers {
  @EventPattern<string>('default')
  plain(): void {}
  @EventPattern<string>('zero', { qos: 0 })
  zero(): void {
    ran += 1;
  }
  @EventPattern<string>('two', { extras: { qos: 2 } })
  two(): void {}
}

it('C19, C20: QoS 1 unless a handler says otherwise; a QoS 0 handler never acknowledges', async () => {
  const { broker, close } = await startApp([Handlers]);
  const asked = broker.log.received('subscribe').flatMap(({ subscriptions }) => subscriptions);
  expect(Object.fromEntries(asked.map(({ topic, qos }) => [topic, qos]))).toEqual({ default: 1, zero: 0, two: 2 });
  broker.publish('zero', 'x', { qos: 1 });
  await until(() => ran === 1);
  await settled();
  expect(broker.log.received('puback')).toEqual([]);
  await close();
});

/** The error of a start that must fail; a started app would be too large for a matcher to print. */
async function startError(broker: MqttBrokerOptions): Promise<Error> {
  try {
    const { close } = await startApp([Handlers], { broker });
    await close();
  } catch (error) {
    return error as Error;
  }
  throw new Error('it started');
}

it('C19: a lower granted QoS fails listen() by name, a refused filter too', async () => {
  const lower = await startError({ subackCode: (filter) => (filter === 'default' ? 0 : undefined) });
  expect(lower).toMatchObject({ code: 'ERR_SUBSCRIPTION' });
  expect(lower.message).toContain("'default'");
  const refused = await startError({ subackCode: (filter) => (filter === 'two' ? 0x87 : undefined) });
  expect(refused).toMatchObject({ code: 'ERR_SUBSCRIPTION' });
  expect(refused.message).toContain("'two'");
});
