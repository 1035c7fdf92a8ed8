import { Controller } from '@nestjs/common';
import { Ctx, EventPattern } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { startApp, until } from './support/app.js';

let seen: MqttMessageContext[] = [];
let tries: [attempt: number, run: number][] = [];
let fail = false;
let directing: ((context: MqttMessageContext) => boolean[]) | undefined;
let directed: boolean[] | undefined;

@Controller()
class Handlers {
  @MqttEvent('site/+/device/#', { qos: 2 })
  ours(@Ctx() context: MqttMessageContext): void {
    seen.push(context);
    tries.push([context.getAttempt(), context.getRun()]);
    directed = directing?.(context);
    if (fail) throw new Error('not yet');
  }

  @EventPattern<string>('plain/+', { extras: { sharedGroup: 'g' } })
  plain(@Ctx() context: MqttMessageContext): void {
    seen.push(context);
  }
}

beforeEach(() => {
  seen = [];
  tries = [];
  fail = false;
  directing = directed = undefined;
});

it('MQTT 5: topic, wildcard parameters, properties, user properties in order, packet and time', async () => {
  const { broker, close } = await startApp([Handlers], { strategy: { protocolVersion: 5 } });
  const before = Date.now();
  const userProperties = { a: ['1', '2'], b: '3' };
  const properties = { contentType: 'x', responseTopic: 'r', correlationData: Buffer.from([7]), userProperties };
  broker.publish('site/north/device/1/state', 'data', { qos: 2, properties });
  await until(() => seen.length === 1);
  const [context] = seen;
  expect(context).toBeInstanceOf(MqttMessageContext);
  expect(context.getTopic()).toBe('site/north/device/1/state');
  expect(context.getPattern()).toBe('site/+/device/#');
  expect(context.getParams()).toEqual(['north', '1/state']);
  expect(context.getProperties()).toMatchObject({
    contentType: 'x',
    responseTopic: 'r',
    correlationData: Buffer.from([7]),
  });
  expect(context.getUserProperties()).toEqual([
    ['a', '1'],
    ['a', '2'],
    ['b', '3'],
  ]);
  expect(context.getUserProperty('a')).toBe('1');
  expect(context.getUserProperty('c')).toBeUndefined();
  expect(context.getMetadata()).toEqual({ a: '2', b: '3' });
  expect(context.getPacket()).toMatchObject({ topic: 'site/north/device/1/state', qos: 2, retain: false, dup: false });
  expect(context.getMessage()).toBe(context.getPacket());
  expect(context.getPayload()).toEqual(Buffer.from('data'));
  expect(context.getArgs()).toEqual([context.getTopic(), context.getPacket()]);
  expect([context.getAttempt(), context.getRun(), context.retained, context.redelivered]).toEqual([1, 1, false, false]);
  expect(context.getReceivedAt()).toBeGreaterThanOrEqual(before - 1);
  expect(context.getReceivedAt()).toBeLessThanOrEqual(Date.now() + 1);
  await close();
});

it('3.1.1: no properties; the pattern of a shared subscription is its filter', async () => {
  const { broker, close } = await startApp([Handlers], { strategy: { protocolVersion: 4 } });
  broker.publish('plain/1', 'data', { qos: 1 });
  await until(() => seen.length === 1);
  const [context] = seen;
  expect([context.getPattern(), context.getParams()]).toEqual(['plain/+', ['1']]);
  expect([context.getProperties(), context.getUserProperties(), context.getMetadata()]).toEqual([{}, [], {}]);
  await close();
});

it('a copy after a reconnect is the next attempt, a local retry the next run', async () => {
  fail = true;
  const failure = { retry: { attempts: 2, initialDelay: 1 }, then: 'redeliver' } as const;
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { failure } });
  broker.publish('site/1/device/1', 'data', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  fail = false;
  broker.cut();
  await broker.log.waitForReceived('puback');
  expect(tries).toEqual([
    [1, 1],
    [1, 2],
    [2, 1],
  ]);
  await close();
});

it('retryLater(), deadLetter() and reject(): true while the run goes on, false when it is over; wrong values throw', async () => {
  const { broker, strategy, logged, close } = await startApp([Handlers]);
  broker.publish('plain/1', 'data', { qos: 1 });
  await broker.log.waitForReceived('puback');
  const [over] = seen;
  expect([over.retryLater(1), over.deadLetter(), over.reject()]).toEqual([false, false, false]);
  for (const wrong of [-1, NaN, '5'] as number[]) expect(() => over.retryLater(wrong)).toThrow(/milliseconds >= 0/);
  expect(() => over.reject(0x10)).toThrow(/reason code/);
  directing = (context) => [context.deadLetter('never mind'), context.reject(0x97)];
  broker.publish('site/1/device/1', 'data', { qos: 1 });
  const [, rejected] = await broker.log.waitForReceived('puback', 2);
  // The last one counts.
  expect(directed).toEqual([true, true]);
  expect(rejected.reasonCode).toBe(0x97);
  expect(strategy.stats).toMatchObject({ succeeded: 1, rejected: 1, deadLettered: 0 });
  expect(logged.filter((line) => line.includes('asked for a rejection (0x97)'))).toHaveLength(1);
  await close();
});
