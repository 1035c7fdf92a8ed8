import { type MqttClient } from '../../lib/mqtt/index.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';

/** Comparing each of them with each other would take fifty million steps, a packet for each ten thousand. */
const COUNT = 10_000;
const filterOf = (i: number): string => `site/${i}/+/state`;

let broker: InMemoryMqttBroker;
beforeEach(async () => {
  broker = await InMemoryMqttBroker.start();
});
afterEach(() => broker.close());

function strategyWith(run: (i: number) => void, more: object = {}): MqttServerStrategy {
  const strategy = new MqttServerStrategy({ url: broker.url, clientId: 'many', sessionExpiry: 600, ...more });
  for (let i = 0; i < COUNT; i += 1) strategy.addHandler(filterOf(i), () => Promise.resolve(run(i)), true);
  return strategy;
}

async function listen(strategy: MqttServerStrategy): Promise<void> {
  const error = await new Promise<unknown>((resolve) => {
    strategy.listen((failure?: unknown) => {
      resolve(failure);
    });
  });
  expect(error).toBeUndefined();
}

it('10,000 handlers subscribe in batches, each message runs the one it is for, and the filters can be dropped', async () => {
  const ran: number[] = [];
  const strategy = strategyWith((i) => ran.push(i));
  await listen(strategy);
  const subscribes = broker.log.received('subscribe');
  expect(subscribes).toHaveLength(COUNT / 50);
  expect(subscribes.flatMap(({ subscriptions }) => subscriptions)).toHaveLength(COUNT);

  const targets = [0, 1, 4_999, 9_999];
  for (const i of targets) broker.publish(`site/${i}/a/state`, 'x', { qos: 1 });
  await broker.log.waitForReceived('puback', targets.length);
  expect(ran).toEqual(targets);

  const dropped = await strategy.unwrap<MqttClient>().unsubscribe(Array.from({ length: COUNT }, (_, i) => filterOf(i)));
  expect(dropped.every(({ reasonCode }) => reasonCode === 0)).toBe(true);
  expect(broker.log.received('unsubscribe')).toHaveLength(COUNT / 50);
  await strategy.close();
});

it('one more filter over all of them: each copy runs the handlers of its own subscription', async () => {
  const ran: (number | string)[] = [];
  const strategy = strategyWith((i) => ran.push(i));
  strategy.addHandler('site/#', () => Promise.resolve(ran.push('all')), true);
  await listen(strategy);
  const identifiers = broker.log.received('subscribe').map(({ properties }) => properties?.subscriptionIdentifier);
  expect(identifiers).toHaveLength(COUNT + 1);
  expect(identifiers).not.toContain(undefined);
  broker.publish('site/77/a/state', 'x', { qos: 1 });
  await broker.waitFor(() => ran.length === 2);
  expect(new Set(ran)).toEqual(new Set([77, 'all']));
  await strategy.close();
});
