import { Controller, Inject } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { MqttPulsarHealth, PulsarClientProxy } from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { settled, startApp, until } from '../nest/support/app.js';

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}
  @EventPattern<string>('t')
  handle(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload);
  }
}

it('C46: while the sink is down nothing is acknowledged without a receipt, and health says so', async () => {
  const pulsar = await InMemoryPulsarBroker.start();
  const proxy = new PulsarClientProxy({ url: pulsar.url });
  const { broker, strategy, close } = await startApp([Handlers], {
    providers: [{ provide: PulsarClientProxy, useValue: proxy }],
  });
  const stored = (): number => pulsar.topic('persistent://public/default/out').messages.length;
  const health = new MqttPulsarHealth({ mqtt: strategy, pulsar: proxy });
  broker.publish('t', '0', { qos: 1 });
  await broker.log.waitForReceived('puback', 1);
  expect(health.check().status).toBe('up');

  pulsar.refuse();
  pulsar.cut();
  for (let i = 1; i <= 20; i += 1) {
    broker.publish('t', String(i), { qos: 1 });
    await settled(3);
    expect(broker.log.received('puback').length).toBeLessThanOrEqual(stored());
  }
  await until(() => health.check().status === 'down');
  expect(broker.log.received('puback')).toHaveLength(1);

  pulsar.refuse(false);
  await broker.log.waitForReceived('puback', 21);
  expect(stored()).toBeGreaterThanOrEqual(21);
  await until(() => health.check().status === 'up');
  await close();
  await proxy.close();
  await pulsar.close();
});
