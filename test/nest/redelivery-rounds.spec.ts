import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type DetachedDelivery, MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { VirtualClock } from '../model/strategy/virtual-clock.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let runs: { text: string; attempt: number }[] = [];
let fails: (text: string) => boolean = () => false;
let hold: Promise<void> | undefined;
const handles: DetachedDelivery[] = [];

@Controller()
class Handlers {
  @MqttEvent('t')
  async run(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    runs.push({ text: payload.toString(), attempt: context.getAttempt() });
    if (fails(payload.toString())) {
      await hold;
      throw new Error('not yet');
    }
  }
  @MqttEvent('detached')
  detached(@Ctx() context: MqttMessageContext): void {
    handles.push(context.detach());
  }
}

let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  running = await startApp([Handlers], { strategy });
};
beforeEach(() => {
  runs = [];
  fails = () => false;
  hold = undefined;
  handles.length = 0;
});
afterEach(() => running.close());
const publish = (text: string, qos: 1 | 2 = 1, topic = 't'): void => running.broker.publish(topic, text, { qos });
const connects = (): number => running.broker.log.received('connect').length;
const texts = (): string[] => runs.map(({ text }) => text);

describe('the acknowledged prefix leaves before the controlled reconnect', () => {
  it.each([
    [5, 1, 'puback'],
    [5, 2, 'pubrec'],
    [4, 1, 'puback'],
    [4, 2, 'pubrec'],
  ] as const)(
    'MQTT %i, QoS %i: what is acknowledged in the same turn is on the wire before DISCONNECT',
    async (version, qos, type) => {
      await start({ redeliverAfter: 40, protocolVersion: version, qos });
      const { broker, strategy } = running;
      fails = () => true;
      publish('', qos, 'detached');
      publish('', qos, 'detached');
      publish('failing', qos);
      await until(() => handles.length === 2 && strategy.stats.held === 1);
      const { client } = strategy;
      const reconnect = client.reconnect.bind(client);
      client.reconnect = (reason) => {
        // In one turn with the reconnect, and in the wrong order.
        handles[1].acknowledge();
        handles[0].acknowledge();
        reconnect(reason);
        fails = () => false;
      };
      await until(() => connects() === 2);
      const first = broker.log.entries.filter(
        (entry) => entry.connection === 1 && entry.direction === 'in' && entry.type !== 'close',
      );
      const ids = broker.log.sent('publish', { connection: 1 }).map(({ messageId }) => messageId!);
      const end = first.slice(-3);
      expect(end.map((entry) => entry.type)).toEqual([type, type, 'disconnect']);
      expect(end.slice(0, 2).map(({ bytes }) => [...bytes])).toEqual(
        ids.slice(0, 2).map((id) => [type === 'puback' ? 0x40 : 0x50, 2, id >> 8, id & 0xff]),
      );
      expect([...end[2].bytes]).toEqual([0xe0, 0]);
      await until(() => strategy.stats.succeeded === 3);
      await broker.log.waitForReceived(type, 3);
      expect(broker.violations).toEqual([]);
      // Nothing that had left was sent or ran again.
      expect(handles).toHaveLength(2);
    },
  );
});

it('the head fails, nine behind it succeed: after the resume one run, and ten acknowledgements in order', async () => {
  await start({ redeliverAfter: 40 });
  const { broker, strategy } = running;
  fails = (text) => text === '0';
  for (let i = 0; i < 10; i += 1) publish(String(i));
  await until(() => runs.length === 10 && strategy.stats.held === 1);
  await settled();
  expect(broker.log.received('puback')).toEqual([]);
  fails = () => false;
  await broker.log.waitForReceived('puback', 10);
  expect(texts()).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '0']);
  const ids = broker.log.sent('publish', { connection: 1 }).map(({ messageId }) => messageId);
  const again = broker.log.sent('publish', { connection: 2 });
  expect(again.map(({ messageId, dup }) => [messageId, dup])).toEqual(ids.map((id) => [id, true]));
  expect(broker.log.received('puback', { connection: 2 }).map(({ messageId }) => messageId)).toEqual(ids);
  expect(strategy.stats.reconnects).toBe(1);
});

describe('one reconnect, however many failed', () => {
  it('also when they fail one after the other within the interval', async () => {
    await start({ redeliverAfter: 150 });
    fails = () => true;
    for (let i = 0; i < 8; i += 1) {
      publish(String(i));
      await until(() => running.strategy.stats.held === i + 1);
      await settled(4);
    }
    expect(connects()).toBe(1);
    fails = () => false;
    await running.broker.log.waitForReceived('puback', 8);
    expect(connects()).toBe(2);
    expect(running.strategy.stats.reconnects).toBe(1);
  });

  it('also when more fail while the reconnect is under way', async () => {
    await start({ redeliverAfter: 20, reconnect: { initial: 20, max: 20 } });
    const { broker, strategy } = running;
    const end = gate();
    fails = () => true;
    publish('first');
    await until(() => strategy.stats.held === 1);
    hold = end.promise;
    publish('second');
    publish('third');
    await until(() => runs.length >= 3);
    broker.refuse();
    await until(() => strategy.stats.reconnects === 1 && broker.connections.length === 0);
    end.open();
    await until(() => strategy.stats.held >= 3);
    // Several intervals go by without a connection.
    await settled(60);
    expect(strategy.stats.reconnects).toBe(1);
    fails = () => false;
    broker.refuse(false);
    await broker.log.waitForReceived('puback', 3);
    expect(connects()).toBe(2);
    expect(strategy.stats.reconnects).toBe(1);
    expect(broker.violations).toEqual([]);
  });
});

describe('attempts belong to the delivery', () => {
  it('a lost session: ours counts on, and what the new session sends under the same identifier begins with 1', async () => {
    await start({ redeliverAfter: 60 });
    const { broker, strategy } = running;
    fails = (text) => text === 'ours';
    publish('ours');
    await until(() => strategy.stats.held === 1);
    await until(() => runs.length >= 2);
    expect(runs.slice(0, 2)).toEqual([
      { text: 'ours', attempt: 1 },
      { text: 'ours', attempt: 2 },
    ]);
    await broker.waitForClient('app');
    broker.dropSession('app');
    broker.cut();
    await until(() => running.logged.some((line) => line.includes('lost our session')));
    await until(() => broker.session('app')?.subscriptions.has('t') === true);
    publish('another');
    await until(() => runs.some(({ text }) => text === 'another'));
    const used = (text: string): (number | undefined)[] =>
      broker.log
        .sent('publish')
        .filter(({ payload }) => payload.toString() === text)
        .map(({ messageId }) => messageId);
    expect(used('another')).toEqual([used('ours')[0]]);
    expect(runs.find(({ text }) => text === 'another')).toEqual({ text: 'another', attempt: 1 });
    // The same content, but another message.
    fails = () => false;
    await until(() => strategy.stats.succeeded === 2);
    const attempts = runs.filter(({ text }) => text === 'ours').map(({ attempt }) => attempt);
    expect(attempts).toEqual(attempts.map((_, index) => index + 1));
    expect(attempts.length).toBeGreaterThanOrEqual(3);
    publish('ours');
    await until(() => strategy.stats.succeeded === 3);
    expect(runs.at(-1)).toEqual({ text: 'ours', attempt: 1 });
  });
});

it('the intervals of a message that fails for ever, to the millisecond', async () => {
  const clock = new VirtualClock(() => 0.5);
  await start({ clock, redeliverAfter: 5_000, keepAlive: 0, stalledAfter: 0, reconnect: { initial: 2, max: 2 } });
  fails = () => true;
  publish('poison');
  await until(() => running.strategy.stats.held === 1);
  const pass = (ms: number): Promise<void> => clock.pass(ms, () => settled(2));
  for (const [index, interval] of [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000].entries()) {
    // The reconnect itself has taken a millisecond of it.
    await pass(index === 0 ? interval - 1 : interval - 3);
    expect(running.strategy.stats.reconnects).toBe(index);
    await pass(1);
    expect(running.strategy.stats.reconnects).toBe(index + 1);
    await settled();
    await pass(2);
    await until(() => running.strategy.stats.held === index + 2);
  }
  expect(runs.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
