import { Controller, Inject } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { PulsarClientProxy } from '../../lib/nest/pulsar-client.proxy.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { VirtualClock } from '../model/strategy/virtual-clock.js';
import { settled, startApp, until } from '../nest/support/app.js';

const runs: { payload: string; at: number }[] = [];
const done: string[] = [];
let now = (): number => 0;
beforeEach(() => {
  runs.length = done.length = 0;
});

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}

  @MqttEvent('spaced', {
    failure: { retry: { attempts: 5, initialDelay: 1_000, maxDelay: 3_000, factor: 2 }, then: 'deadLetter' },
  })
  spaced(@Payload() payload: Buffer): void {
    runs.push({ payload: payload.toString(), at: now() });
    throw new Error('cannot read this');
  }

  @MqttEvent('t', { failure: { retry: { attempts: 3, initialDelay: 40, maxDelay: 40 }, then: 'deadLetter' } })
  handle(@Payload() payload: Buffer): void {
    const text = payload.toString();
    runs.push({ payload: text, at: now() });
    if (text.startsWith('poison')) throw new Error('cannot read this');
    this.pulsar.emit('out', payload);
    done.push(text);
  }
}

it('C59: a poison message runs as often as allowed, goes to the dead-letter topic, then PUBACK; others do not wait', async () => {
  const pulsar = await InMemoryPulsarBroker.start();
  const proxy = new PulsarClientProxy({ url: pulsar.url });
  const { broker, strategy, logged, close } = await startApp([Handlers], {
    providers: [{ provide: PulsarClientProxy, useValue: proxy }],
    strategy: { deadLetter: { client: proxy, pattern: 'dead' } },
  });
  broker.publish('t', Buffer.from('poison \xff', 'latin1'), {
    qos: 1,
    properties: { userProperties: { device: 'd1' } },
  });
  for (const name of ['a', 'b', 'c']) broker.publish('t', name, { qos: 1 });
  await until(() => done.length === 3, 'the others finish meanwhile');
  expect(runs.filter(({ payload }) => payload.startsWith('poison')).length).toBeLessThan(3);
  expect(broker.log.received('puback')).toEqual([]);

  await broker.log.waitForReceived('puback', 4);
  const poison = runs.filter(({ payload }) => payload.startsWith('poison'));
  expect(poison).toHaveLength(3);
  const [letter] = pulsar.topic('persistent://public/default/dead').messages;
  expect(Buffer.from(letter.payload as Uint8Array)).toEqual(Buffer.from('poison \xff', 'latin1'));
  expect(letter.properties).toMatchObject({
    device: 'd1',
    'dead-letter-topic': 't',
    'dead-letter-error': 'cannot read this',
    'dead-letter-run': '3',
    'dead-letter-attempt': '1',
  });
  const acknowledged = broker.log.received('puback');
  expect(acknowledged.map(({ messageId }) => messageId)).toEqual(
    broker.log.sent('publish').map(({ messageId }) => messageId),
  );
  expect(acknowledged.every(({ reasonCode }) => (reasonCode ?? 0) === 0)).toBe(true);
  expect(strategy.stats).toMatchObject({ deadLettered: 1, succeeded: 3, retries: 2 });
  expect(logged.some((line) => line.includes('settled'))).toBe(false);
  await settled();
  await close();
  await proxy.close();
  await pulsar.close();
});

it.each([
  [0, [100, 100, 100, 100]],
  [0.5, [500, 1_000, 1_500, 1_500]],
  [0.75, [750, 1_500, 2_250, 2_250]],
])('C59: the runs are spaced by the backoff, to the millisecond (random %d)', async (random, delays) => {
  const clock = new VirtualClock(() => random);
  now = () => clock.now();
  const pulsar = await InMemoryPulsarBroker.start();
  const proxy = new PulsarClientProxy({ url: pulsar.url });
  const { broker, strategy, close } = await startApp([Handlers], {
    providers: [{ provide: PulsarClientProxy, useValue: proxy }],
    strategy: { deadLetter: { client: proxy, pattern: 'dead' }, clock, keepAlive: 0, stalledAfter: 0 },
  });
  broker.publish('spaced', 'poison', { qos: 1 });
  await until(() => strategy.stats.retries === 1);
  const [{ at: start }] = runs;
  let sum = 0;
  for (const [index, delay] of delays.entries()) {
    await clock.pass(delay - 1, () => settled(1));
    expect(runs).toHaveLength(index + 1);
    expect(broker.log.received('puback')).toEqual([]);
    await clock.pass(1, () => settled(1));
    expect(runs[index + 1]?.at).toBe(start + (sum += delay));
  }
  await broker.log.waitForReceived('puback');
  expect(runs).toHaveLength(5);
  expect(strategy.stats).toMatchObject({ retries: 4, failedRuns: 5, deadLettered: 1, held: 0, reconnects: 0 });
  await close();
  await proxy.close();
  await pulsar.close();
});
