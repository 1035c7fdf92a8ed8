import { Controller } from '@nestjs/common';
import { Ctx, EventPattern, Payload } from '@nestjs/microservices';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { gate, settled, startApp, until } from '../nest/support/app.js';

let events: string[] = [];
let ends = new Map<string, ReturnType<typeof gate<void>>>();
let failOnce: string | undefined;

@Controller()
class Handlers {
  @EventPattern<string>('dev/+')
  async handle(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    const name = `${context.getParams()[0]}:${payload.toString()}`;
    events.push(`start ${name}`);
    if (failOnce === name) {
      failOnce = undefined;
      throw new Error('no');
    }
    const end = gate();
    ends.set(name, end);
    await end.promise;
    events.push(`end ${name}`);
  }
}

beforeEach(() => {
  events = [];
  ends = new Map();
  failOnce = undefined;
});
const finish = async (name: string): Promise<void> => {
  await until(() => ends.has(name), `${name} has started`);
  ends.get(name)!.open();
  await until(() => events.includes(`end ${name}`));
};
const before = (a: string, b: string): void => {
  expect(events).toContain(a);
  expect(events).toContain(b);
  expect(events.indexOf(a)).toBeLessThan(events.indexOf(b));
};

it.each([
  ['topic', 'topic'],
  ['a function', (context: MqttMessageContext) => context.getTopic().split('/')[1]],
] as const)(
  'C34: with a key (%s) one at a time per key, other keys not delayed, acknowledged in received order',
  async (_name, order) => {
    const { broker, strategy, close } = await startApp([Handlers], { strategy: { concurrency: 4, order } });
    for (const n of [1, 2, 3]) broker.publish('dev/1', String(n), { qos: 1 });
    for (const n of [1, 2, 3]) broker.publish('dev/2', String(n), { qos: 1 });
    for (const n of [1, 2, 3]) await finish(`2:${n}`);
    expect(events.filter((event) => event.includes('1:'))).toEqual(['start 1:1']);
    await settled();
    expect(broker.log.received('puback')).toEqual([]);
    for (const n of [1, 2, 3]) await finish(`1:${n}`);
    await broker.log.waitForReceived('puback', 6);
    for (const device of [1, 2]) {
      before(`end ${device}:1`, `start ${device}:2`);
      before(`end ${device}:2`, `start ${device}:3`);
    }
    const sent = broker.log.sent('publish').map(({ messageId }) => messageId);
    expect(broker.log.received('puback').map(({ messageId }) => messageId)).toEqual(sent);
    expect(strategy.gate.keyCount).toBe(0);
    await close();
  },
);

it('C34: a failing message holds its own key only, also across the reconnect that brings it again', async () => {
  const { broker, close } = await startApp([Handlers], {
    strategy: { concurrency: 4, order: 'topic', redeliverAfter: 30 },
  });
  failOnce = '1:1';
  for (const n of [1, 2]) broker.publish('dev/1', String(n), { qos: 1 });
  broker.publish('dev/2', '1', { qos: 1 });
  await finish('2:1');
  expect(events.filter((event) => event.startsWith('start 1:'))).toEqual(['start 1:1']);
  await finish('1:1');
  await finish('1:2');
  await broker.log.waitForReceived('puback', 3);
  expect(events.filter((event) => event.startsWith('start 1:'))).toEqual(['start 1:1', 'start 1:1', 'start 1:2']);
  await close();
});
