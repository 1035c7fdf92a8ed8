import { Controller } from '@nestjs/common';
import { ClientMqtt, type ReadPacket } from '@nestjs/microservices';
import { type DeadLetterOptions, MqttClientProxy, PulsarClientProxy } from '../../lib/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

let runs: string[] = [];

@Controller()
class Devices {
  @MqttEvent('devices/#', { failure: { then: 'deadLetter' } })
  device(): void {
    runs.push('device');
    throw new Error('poison');
  }
}

/** Takes letters in the app that sends them. */
@Controller()
class Letters {
  @MqttEvent('letters/good')
  good(): void {
    runs.push('good');
  }
  @MqttEvent('letters/discarded', { failure: { then: 'discard' } })
  discarded(): void {
    runs.push('discarded');
    throw new Error('no use');
  }
  @MqttEvent('letters/rejected', { failure: { then: 'reject' } })
  rejected(): void {
    runs.push('rejected');
    throw new Error('no use');
  }
}

let broker: InMemoryMqttBroker;
let client: MqttClientProxy;
beforeEach(async () => {
  runs = [];
  broker = await InMemoryMqttBroker.start();
  client = new MqttClientProxy({ url: broker.url, clientId: 'out' });
});
afterEach(async () => {
  await client.close();
  await broker.close();
});

const start = (pattern: DeadLetterOptions['pattern'], target: DeadLetterOptions['client'] = client, more = {}) =>
  startApp([Devices, Letters], {
    broker,
    strategy: { deadLetter: { client: target, pattern }, redeliverAfter: 20, ...more },
  });
const warnings = (lines: readonly string[]): string[] =>
  lines.filter((line) => line.includes("which the handler of 'devices/#' receives as well"));

describe('a dead letter that comes back and is dead-lettered again is kept', () => {
  it.each<[string, 4 | 5, DeadLetterOptions['pattern'], string]>([
    ['one topic, MQTT 5', 5, 'devices/dead', 'devices/dead'],
    ['one topic, MQTT 3.1.1', 4, 'devices/dead', 'devices/dead'],
    ['a function, MQTT 5', 5, (topic) => `${topic}/dead`, 'devices/1/dead/dead'],
    ['a function, MQTT 3.1.1', 4, (topic) => `${topic}/dead`, 'devices/1/dead/dead'],
  ])('%s', async (_name, protocolVersion, pattern, next) => {
    const out = new MqttClientProxy({ url: broker.url, protocolVersion });
    const running = await start(pattern, out, { protocolVersion });
    expect(warnings(running.logged)).toHaveLength(typeof pattern === 'string' ? 1 : 0);
    broker.publish('devices/1', 'x');
    await until(() => running.strategy.stats.deadLetterFailures > 2);
    expect(runs).toHaveLength(2);
    expect(broker.log.received('publish')).toHaveLength(1);
    expect(broker.log.received('puback')).toHaveLength(1);
    expect(running.strategy).toMatchObject({ state: 'stalled', stats: { deadLettered: 1 } });
    expect(running.strategy.health().status).toBe('down');
    const line = running.logged.find((one) => one.includes('in circles for ever. Send dead letters where'));
    expect(line).toContain(`a further one would go to '${next}', which the handler of 'devices/#' receives as well`);
    await running.close();
    await out.close();
  });

  it('where a subscription of an earlier version brings it back', async () => {
    const running = await start((topic) => `${topic}/dead`);
    await running.strategy.client.subscribe([{ filter: 'old/#', qos: 1 }]);
    broker.publish('old/1', 'x');
    await until(() => running.strategy.stats.deadLetterFailures > 1);
    expect(broker.log.received('publish').map(({ topic }) => topic)).toEqual(['old/1/dead']);
    expect(running.logged.some((line) => line.includes("'old/1/dead/dead', which this session receives"))).toBe(true);
    await running.close();
  });

  it('where another process, or this one before it was started again, has sent it (MQTT 5)', async () => {
    const running = await start((topic) => `${topic}/dead`, client, { protocolVersion: 5 });
    const properties = { userProperties: { 'dead-letter-topic': 'devices/1' } };
    broker.publish('devices/1/dead', 'x', { properties });
    await until(() => running.strategy.stats.deadLetterFailures > 0);
    expect(broker.log.received('publish')).toEqual([]);
    await running.close();
  });
});

describe('a dead letter that comes back is legal', () => {
  it.each(['good', 'discarded', 'rejected'] as const)('where its handler ends it: %s', async (end) => {
    const running = await start(`letters/${end}`);
    broker.publish('devices/1', 'x');
    await broker.log.waitForReceived('puback', 2);
    expect(runs).toEqual(['device', end]);
    expect(broker.log.received('puback')[1].reasonCode).toBe(end === 'rejected' ? 0x83 : 0);
    expect(running.strategy.stats).toMatchObject({ deadLettered: 1, deadLetterFailures: 0 });
    await running.close();
  });

  it('where the next one does not: it is sent on, and has not grown, for each tells of its own way', async () => {
    const running = await start((topic) => (topic === 'devices/2' ? 'devices/3' : 'devices/2'));
    const out = await start((topic) => (topic === 'devices/2' ? 'end' : 'devices/2'), client, { clientId: 'app-2' });
    await running.close();
    const userProperties = { a: ['1', '2'], 'mqtt.topic': 'of the device' };
    broker.publish('devices/1', 'x', { properties: { userProperties } });
    await broker.log.waitForReceived('puback', 2);
    const [first, second] = broker.log.received('publish');
    expect(first).toMatchObject({
      topic: 'devices/2',
      properties: { userProperties: { a: ['1', '2'], 'mqtt.topic': ['of the device', 'devices/1'] } },
    });
    expect(second).toMatchObject({
      topic: 'end',
      properties: {
        userProperties: { a: ['1', '2'], 'mqtt.topic': 'devices/2', 'dead-letter-topic': 'devices/2' },
      },
    });
    expect(JSON.stringify(second.properties).length).toBeLessThan(JSON.stringify(first.properties).length + 20);
    await out.close();
  });

  it('where it was sent to its original topic again', async () => {
    const running = await start((topic) => `dead/${topic}`, client, { protocolVersion: 5 });
    const properties = { userProperties: { 'dead-letter-topic': 'devices/1' } };
    broker.publish('devices/1', 'x', { properties });
    await broker.log.waitForReceived('puback', 1);
    expect(broker.log.received('publish').map(({ topic }) => topic)).toEqual(['dead/devices/1']);
    await running.close();
  });
});

describe('a target that is not the broker we receive from takes letters of messages on a topic of the same name', () => {
  const userProperties = { a: ['1', '2'], 'dead-letter-topic': 'elsewhere' };

  it('another MQTT broker', async () => {
    const other = await InMemoryMqttBroker.start();
    const target = new MqttClientProxy({ url: other.url });
    const running = await start('devices/dead', target);
    // The same host may be the same broker: so it is said, as a guess.
    expect(warnings(running.logged)).toEqual([expect.stringContaining('where they go to the same broker')]);
    broker.publish('devices/dead', 'x', { properties: { userProperties } });
    await broker.log.waitForReceived('puback', 1);
    expect(other.log.received('publish')).toHaveLength(1);
    await running.close();
    await target.close();
    await other.close();
  });

  it("Nest's own MQTT client does not tell: the start warns", async () => {
    const running = await start('devices/dead', new ClientMqtt({ url: broker.url }));
    expect(warnings(running.logged)).toHaveLength(1);
    await running.close();
  });

  it('a proxy that is not ours', async () => {
    const taken: ReadPacket[] = [];
    class Target extends EventClient {
      protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
        taken.push(packet);
        return Promise.resolve(undefined as T);
      }
    }
    const running = await start('devices/dead', new Target());
    expect(warnings(running.logged)).toEqual([]);
    broker.publish('devices/dead', 'x', { properties: { userProperties } });
    await broker.log.waitForReceived('puback', 1);
    expect(taken).toMatchObject([{ pattern: 'devices/dead' }]);
    await running.close();
  });

  it('Pulsar, where repeated names are in a property of JSON, which does not nest either', async () => {
    const pulsar = await InMemoryPulsarBroker.start();
    const target = new PulsarClientProxy({ url: pulsar.url, topic: (pattern) => pattern.replace('/', '-') });
    const running = await start('devices/dead', target);
    expect(warnings(running.logged)).toEqual([]);
    const again = JSON.stringify([['a', '1']]);
    broker.publish('devices/dead', 'x', {
      properties: { userProperties: { ...userProperties, 'mqtt.userProperties': again, 'dead-letter-left-out': 'x' } },
    });
    await broker.log.waitForReceived('puback', 1);
    const [{ properties }] = pulsar.topic('devices-dead').messages;
    expect(JSON.parse(properties['mqtt.userProperties'])).toEqual(expect.not.arrayContaining([again]));
    expect(properties).toMatchObject({ a: '2', 'dead-letter-topic': 'devices/dead' });
    expect(properties).not.toHaveProperty('dead-letter-left-out');
    await running.close();
    await target.close();
    await pulsar.close();
  });
});

it('a message with large user properties leaves as a dead letter: each stays what it was', async () => {
  const running = await start('letters');
  const a = ['"'.repeat(20_000), 'b'.repeat(40_000)];
  broker.publish('devices/1', 'x', { properties: { userProperties: { a } } });
  await broker.log.waitForReceived('puback', 1);
  const [letter] = broker.log.received('publish');
  expect(letter.properties?.userProperties).toMatchObject({ a, 'dead-letter-topic': 'devices/1' });
  await running.close();
});
