import { Controller } from '@nestjs/common';
import { MqttClientProxy, PulsarClientProxy } from '../../lib/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { startApp, until } from './support/app.js';

let runs = 0;

@Controller()
class Devices {
  @MqttEvent('devices/#', { failure: { then: 'deadLetter' } })
  device(): void {
    runs += 1;
    throw new Error('poison');
  }
}

describe('a dead letter that comes back', () => {
  let broker: InMemoryMqttBroker;
  let client: MqttClientProxy;
  beforeEach(async () => {
    runs = 0;
    broker = await InMemoryMqttBroker.start();
    client = new MqttClientProxy({ url: broker.url, clientId: 'out' });
  });
  afterEach(async () => {
    await client.close();
    await broker.close();
  });

  it('to the topic it would go to again is kept and named; the start has warned', async () => {
    const running = await startApp([Devices], {
      broker,
      strategy: { deadLetter: { client, pattern: 'devices/dead' }, redeliverAfter: 20 },
    });
    expect(running.logged.filter((line) => line.includes("which the handler of 'devices/#' receives"))).toHaveLength(1);
    broker.publish('devices/1', 'x');
    await until(() => running.strategy.stats.deadLetterFailures > 2);
    expect(runs).toBe(2);
    expect(running.strategy).toMatchObject({ state: 'stalled', stats: { deadLettered: 1 } });
    expect(running.logged.some((line) => line.includes('would come back there for ever'))).toBe(true);
    await running.close();
  });

  it('is sent on to another topic, and does not grow: each letter tells of its own way', async () => {
    const running = await startApp([Devices], {
      broker,
      strategy: {
        deadLetter: {
          client,
          pattern: (topic) => (topic === 'devices/6' ? 'end' : `devices/${Number(topic.at(-1)) + 1}`),
        },
      },
    });
    const userProperties = { a: ['1', '2'], 'mqtt.topic': 'of the device' };
    broker.publish('devices/1', 'x', { properties: { userProperties } });
    await until(() => broker.log.received('publish').some(({ topic }) => topic === 'end'));
    const letters = broker.log
      .received('publish')
      .map(({ topic, properties }) => ({ topic, ...properties?.userProperties }));
    expect(letters).toHaveLength(6);
    expect(letters[0]).toMatchObject({ a: ['1', '2'], 'mqtt.topic': ['of the device', 'devices/1'] });
    for (const [index, letter] of letters.slice(1).entries()) {
      expect(letter).toMatchObject({
        a: ['1', '2'],
        'mqtt.topic': `devices/${index + 2}`,
        'dead-letter-topic': `devices/${index + 2}`,
      });
    }
    const sizes = letters.slice(1).map((letter) => JSON.stringify(letter).length);
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(10);
    await running.close();
  });

  it('through Pulsar into a property of JSON, which does not nest either', async () => {
    const pulsar = await InMemoryPulsarBroker.start();
    const target = new PulsarClientProxy({ url: pulsar.url });
    const running = await startApp([Devices], {
      broker,
      strategy: { deadLetter: { client: target, pattern: 'letters' } },
    });
    const again = JSON.stringify([['a', '1']]);
    const userProperties = { a: ['1', '2'], 'mqtt.userProperties': again };
    broker.publish('devices/1', 'x', { properties: { userProperties } });
    await broker.log.waitForReceived('puback', 1);
    const [{ properties }] = pulsar.topic('letters').messages;
    expect(properties).toMatchObject({
      'mqtt.userProperties': JSON.stringify([
        ['a', '1'],
        ['a', '2'],
      ]),
    });
    await running.close();
    await target.close();
    await pulsar.close();
  });
});

it('a message with large user properties leaves as a dead letter: each stays what it was', async () => {
  const broker = await InMemoryMqttBroker.start();
  const client = new MqttClientProxy({ url: broker.url, clientId: 'out' });
  const running = await startApp([Devices], { broker, strategy: { deadLetter: { client, pattern: 'letters' } } });
  const a = ['"'.repeat(20_000), 'b'.repeat(40_000)];
  broker.publish('devices/1', 'x', { properties: { userProperties: { a } } });
  await broker.log.waitForReceived('puback', 1);
  const [letter] = broker.log.received('publish');
  expect(letter.properties?.userProperties).toMatchObject({ a, 'dead-letter-topic': 'devices/1' });
  await running.close();
  await client.close();
  await broker.close();
});
