import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { MqttClientProxy, type MqttClientProxyOptions, PulsarClientProxy } from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';

@Controller()
class Handlers {
  @EventPattern<string>('fails')
  fails(): never {
    throw new Error('cannot read this');
  }
}

const BYTES = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
const USER_PROPERTIES = { userProperties: { device: '7' } };

describe('the proxies as dead-letter targets', () => {
  let pulsar: InMemoryPulsarBroker;
  let proxy: PulsarClientProxy | MqttClientProxy;
  let running: RunningApp;

  beforeEach(async () => {
    pulsar = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    await running.close();
    await proxy.close();
    await pulsar.close();
  });

  const start = async (make: () => PulsarClientProxy | MqttClientProxy, broker?: InMemoryMqttBroker): Promise<void> => {
    proxy = make();
    running = await startApp([Handlers], {
      ...(broker !== undefined && { broker }),
      strategy: { deadLetter: { client: proxy, pattern: 'dead' }, failure: { then: 'deadLetter' } },
    });
  };

  it('Pulsar: the bytes as they came, the MQTT topic as key, the rest as properties; acknowledged on the receipt', async () => {
    await start(() => new PulsarClientProxy({ url: pulsar.url }));
    pulsar.holdReceipts();
    running.broker.publish('fails', BYTES, { qos: 1, properties: USER_PROPERTIES });
    await until(() => pulsar.topic('dead').messages.length === 1);
    await settled();
    expect(running.broker.log.received('puback')).toHaveLength(0);
    pulsar.releaseReceipts();
    await running.broker.log.waitForReceived('puback');
    expect(pulsar.topic('dead').messages[0]).toMatchObject({
      payload: BYTES,
      key: 'fails',
      properties: { device: '7', 'dead-letter-topic': 'fails', 'dead-letter-attempt': '1' },
    });
    expect(proxy.stats.late).toBe(0);
  });

  it.each<MqttClientProxyOptions>([{}, { envelope: 'nest' }])(
    'MQTT %j: the bytes as they came, the rest as user properties; acknowledged on the PUBACK',
    async (options) => {
      const broker = await InMemoryMqttBroker.start();
      await start(() => new MqttClientProxy({ url: broker.url, ...options }), broker);
      broker.publish('fails', BYTES, { qos: 1, properties: USER_PROPERTIES });
      await broker.log.waitForReceived('puback');
      const [dead] = broker.log.received('publish').filter(({ topic }) => topic === 'dead');
      expect(dead).toMatchObject({ payload: BYTES, qos: 1 });
      expect(dead.properties).toMatchObject({ userProperties: { device: '7', 'dead-letter-topic': 'fails' } });
      expect(running.strategy.stats.deadLettered).toBe(1);
      await running.close();
      await proxy.close();
      await broker.close();
    },
  );

  it('a target that fails leaves the message un-acknowledged', async () => {
    pulsar.options.authorize = () => 'not for you';
    await start(() => new PulsarClientProxy({ url: pulsar.url }));
    running.broker.publish('fails', BYTES, { qos: 1 });
    await until(() => running.strategy.stats.deadLetterFailures === 1);
    await settled();
    expect(running.broker.log.received('puback')).toHaveLength(0);
  });
});
