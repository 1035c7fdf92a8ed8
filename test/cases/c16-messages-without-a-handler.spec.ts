import { Controller } from '@nestjs/common';
import { EventPattern, type ReadPacket } from '@nestjs/microservices';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { gate, settled, startApp, until } from '../nest/support/app.js';
import { EventClient } from '../nest/support/event-client.js';

@Controller()
class Old {
  @EventPattern<string>('old/+')
  handle(): void {}
}
let ran = 0;
@Controller()
class New {
  @EventPattern<string>('new')
  handle(): void {
    ran += 1;
  }
}

class Target extends EventClient {
  readonly tried: Record<string, string>[] = [];
  answer: () => Promise<unknown> = () => Promise.resolve();
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.tried.push(packet.data as Record<string, string>);
    return this.answer() as Promise<T>;
  }
}

/** A session that an earlier version of the app left behind. */
async function leftBehind(): Promise<InMemoryMqttBroker> {
  const broker = await InMemoryMqttBroker.start();
  const { close } = await startApp([Old], { broker });
  await close();
  broker.publish('old/1', 'x', { qos: 1 });
  broker.log.clear();
  return broker;
}

beforeEach(() => (ran = 0));

it('C16: held by default: said in the log with the cure, status stalled, later messages are handled', async () => {
  const broker = await leftBehind();
  const { strategy, logged, close } = await startApp([New], { broker });
  broker.publish('new', 'x', { qos: 1 });
  await until(() => ran === 1 && strategy.stats.unmatched === 1);
  await settled();
  // The held one came first: nothing behind it may be acknowledged [MQTT-4.6.0-2].
  expect(broker.log.received('puback')).toEqual([]);
  expect(logged.some((line) => line.includes("'old/1'") && line.includes('unsubscribe'))).toBe(true);
  expect(strategy.health().status).toBe('down');
  await close();
  await broker.close();
});

it('C16: acknowledged and counted where that was asked for', async () => {
  const broker = await leftBehind();
  const { strategy, logged, close } = await startApp([New], { broker, strategy: { unmatched: 'acknowledge' } });
  await broker.log.waitForReceived('puback');
  expect(strategy.stats.unmatched).toBe(1);
  expect(logged.some((line) => line.includes("'old/1'"))).toBe(true);
  await close();
  await broker.close();
});

it('C16: a filter of an earlier version is dropped at start when it is named', async () => {
  const broker = await leftBehind();
  const { close } = await startApp([New], { broker, strategy: { unmatched: 'acknowledge', unsubscribe: ['old/+'] } });
  expect(broker.log.received('unsubscribe')).toMatchObject([{ unsubscriptions: ['old/+'] }]);
  await close();
  await broker.close();
});

it('C16: deadLetter: acknowledged when its receipt is there, not before; said in the log', async () => {
  const broker = await leftBehind();
  const target = new Target();
  const receipt = gate();
  target.answer = () => receipt.promise;
  const { strategy, logged, close } = await startApp([New], {
    broker,
    strategy: { deadLetter: { client: target, pattern: 'dead' } },
  });
  broker.publish('new', 'x', { qos: 1 });
  await until(() => target.tried.length === 1 && ran === 1);
  await settled();
  // Neither it nor what came behind it [MQTT-4.6.0-2].
  expect(broker.log.received('puback')).toEqual([]);
  receipt.open();
  await broker.log.waitForReceived('puback', 2);
  const [old, next] = broker.log.sent('publish').map(({ topic, messageId }) => ({ topic, messageId }));
  expect([old.topic, next.topic]).toEqual(['old/1', 'new']);
  const acknowledged = broker.log.of('puback', { direction: 'in' }).map(({ bytes }) => bytes.toString('hex'));
  const plain = (id = 0): string => Buffer.from([0x40, 2, id >> 8, id & 0xff]).toString('hex');
  expect(acknowledged).toEqual([plain(old.messageId), plain(next.messageId)]);
  expect(target.tried).toMatchObject([
    { 'dead-letter-topic': 'old/1', 'dead-letter-reason': 'no handler', payload: btoa('x') },
  ]);
  expect(strategy.stats).toMatchObject({ unmatched: 1, deadLettered: 1, succeeded: 1 });
  expect(logged.some((line) => line.includes("'old/1'") && line.includes('unsubscribe'))).toBe(true);
  await close();
  await broker.close();
});

it('C16: deadLetter with a target that fails: never acknowledged, tried again, stalled; also not by close()', async () => {
  const broker = await leftBehind();
  const target = new Target();
  target.answer = () => Promise.reject(new Error('target is down'));
  const options = { broker, strategy: { redeliverAfter: 5, deadLetter: { client: target, pattern: 'dead' } } };
  const first = await startApp([New], options);
  await until(() => target.tried.length >= 3);
  // A copy that comes on the next connection is bound to the one whose letter is tried.
  broker.cut();
  await broker.log.waitForReceived('connect', 2);
  const before = target.tried.length;
  await until(() => first.strategy.state === 'stalled' && target.tried.length > before + 1);
  expect(first.strategy.health().status).toBe('down');
  expect(first.logged.some((line) => line.includes('target is down'))).toBe(true);
  await first.close();
  expect(broker.log.received('puback')).toEqual([]);
  expect(first.strategy.stats).toMatchObject({ unmatched: 1, deadLettered: 0 });

  // The broker still has it.
  target.tried.length = 0;
  target.answer = () => Promise.resolve();
  const second = await startApp([New], options);
  await broker.log.waitForReceived('puback');
  await settled();
  expect(target.tried).toHaveLength(1);
  expect(broker.log.received('puback')).toHaveLength(1);
  await second.close();
  await broker.close();
});
