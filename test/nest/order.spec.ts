import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { type DetachedDelivery, MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let started: string[] = [];
let handles = new Map<string, DetachedDelivery>();
let batches: string[][] = [];
let work: (context: MqttBatchContext, names: string[]) => unknown = () => undefined;
let fail: (name: string) => boolean = () => false;

const nameOf = (context: MqttMessageContext): string => `${context.getParams()[0]}:${context.getPayload().toString()}`;

@Controller()
class Handlers {
  @MqttEvent('plain/+', { failure: { retry: { attempts: 5, initialDelay: 1 } } })
  plain(@Payload() _payload: Buffer, @Ctx() context: MqttMessageContext): void {
    started.push(nameOf(context));
    if (fail(nameOf(context))) throw new Error('no');
  }
  @MqttEvent('detached/+')
  detached(@Payload() _payload: Buffer, @Ctx() context: MqttMessageContext): void {
    started.push(nameOf(context));
    handles.set(nameOf(context), context.detach());
  }
  @MqttEvent('batch/+', {
    batch: { size: 10, delay: 60_000 },
    failure: { retry: { attempts: 9, initialDelay: 60_000, maxDelay: 60_000 } },
  })
  async batch(@Payload() _data: Buffer[], @Ctx() context: MqttBatchContext): Promise<void> {
    const names = context.getContexts().map(nameOf);
    batches.push(names);
    await work(context, names);
  }
}

let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  running = await startApp([Handlers], { strategy: { order: 'topic', shutdownTimeout: 50, ...strategy } });
};
beforeEach(() => {
  started = [];
  handles = new Map();
  batches = [];
  work = () => undefined;
  fail = () => false;
});
afterEach(() => running.close());
const publish = (topic: string, payload: string, qos: 0 | 1 | 2 = 1): void =>
  running.broker.publish(topic, payload, { qos });
const pubacks = (count: number): Promise<unknown> => running.broker.log.waitForReceived('puback', count, {}, 20_000);

it('the function sees the filter of the handler: what a wildcard stands for can be the key', async () => {
  const seen: unknown[] = [];
  await start({
    order: (context) => {
      seen.push([context.getPattern(), context.getTopic()]);
      return context.getParams()[0];
    },
  });
  for (const device of ['a', 'a', 'b']) publish(`detached/${device}`, String(seen.length));
  await until(() => handles.size === 2);
  await settled();
  expect(started.map((name) => name[0])).toEqual(['a', 'b']);
  expect(seen).toEqual(['a', 'a', 'b'].map((device) => ['detached/+', `detached/${device}`]));
  for (const handle of handles.values()) handle.acknowledge();
  await until(() => started.length === 3);
});

describe('with a detached handle', () => {
  it('the key is kept until the handle is used, the running place is free at once', async () => {
    await start({ concurrency: 10 });
    const devices = Array.from({ length: 30 }, (_, i) => `d${i}`);
    for (const n of [1, 2]) for (const device of devices) publish(`detached/${device}`, String(n));
    await until(() => handles.size === 30);
    await settled();
    expect(started).toEqual(devices.map((device) => `${device}:1`));
    for (const device of devices.slice(1)) handles.get(`${device}:1`)!.acknowledge();
    await until(() => handles.size === 59);
    await settled();
    expect(handles.has('d0:2')).toBe(false);
    // They stand behind what is not acknowledged.
    expect(running.broker.log.received('puback')).toEqual([]);
    handles.get('d0:1')!.acknowledge();
    await until(() => handles.has('d0:2'));
    for (const device of devices) handles.get(`${device}:2`)!.acknowledge();
    await pubacks(60);
    expect(running.strategy.gate.keyCount).toBe(0);
  });

  it('a handle that fails holds its own key only, and its message comes before the next of that key', async () => {
    await start({ redeliverAfter: 40 });
    for (const n of [1, 2]) for (const device of ['a', 'b']) publish(`detached/${device}`, String(n));
    await until(() => handles.size === 2);
    handles.get('a:1')!.fail(new Error('not stored'));
    handles.delete('a:1');
    handles.get('b:1')!.acknowledge();
    await until(() => handles.has('b:2'));
    handles.get('b:2')!.acknowledge();
    await until(() => handles.has('a:1'));
    await settled();
    expect(handles.has('a:2')).toBe(false);
    handles.get('a:1')!.acknowledge();
    await until(() => handles.has('a:2'));
    handles.get('a:2')!.acknowledge();
    await pubacks(4);
    expect(started).toEqual(['a:1', 'b:1', 'b:2', 'a:1', 'a:2']);
  });
});

describe('with batches: one message per key in each', () => {
  it('a device that sends alone is not slowed down to one message per delay', async () => {
    await start();
    for (let n = 1; n <= 20; n += 1) publish('batch/a', String(n));
    await pubacks(19);
    expect(batches).toEqual(Array.from({ length: 19 }, (_, i) => [`a:${i + 1}`]));
    // For the last one others may come.
    await settled();
    expect(batches).toHaveLength(19);
    publish('batch/b', '1');
    publish('batch/a', '21');
    await pubacks(21);
    expect(batches[19]).toEqual(['a:20', 'b:1']);
  });

  it('what can join does, also when a batch settles: one batch for the next message of every key', async () => {
    await start();
    const end = gate();
    work = (_context, names) => (names.includes('a:1') ? end.promise : undefined);
    for (const n of [1, 2, 3, 4]) for (const device of ['a', 'b', 'c', 'd']) publish(`batch/${device}`, String(n));
    await until(() => batches.length === 1 && running.strategy.gate.waitingCount === 12);
    end.open();
    await pubacks(12);
    expect(batches).toEqual([1, 2, 3].map((n) => ['a', 'b', 'c', 'd'].map((device) => `${device}:${n}`)));
    // The last of each wait for others, and a pause is a reason to start.
    running.strategy.pause();
    await pubacks(16);
    expect(batches[3]).toEqual(['a:4', 'b:4', 'c:4', 'd:4']);
    expect(running.strategy.gate.keyCount).toBe(0);
  });

  it('a message named by fail() holds its own key only', async () => {
    await start();
    work = (context, names) => {
      if (names.includes('a:1')) context.fail(names.indexOf('a:1'), new Error('bad'));
    };
    for (const n of [1, 2, 3]) for (const device of ['a', 'b']) publish(`batch/${device}`, String(n));
    publish('batch/b', '4');
    await until(() => running.strategy.stats.succeeded === 3);
    expect(batches).toEqual([['a:1', 'b:1'], ['b:2'], ['b:3']]);
    expect(running.broker.log.received('puback')).toEqual([]);
  });

  it('without keys a batch fills as ever', async () => {
    await start({ order: (context) => (context.getTopic().startsWith('batch/') ? undefined : context.getTopic()) });
    for (let n = 1; n <= 10; n += 1) publish('batch/a', String(n));
    await pubacks(10);
    expect(batches.map(({ length }) => length)).toEqual([10]);
  });
});

it.each([1, 2] as const)(
  'QoS %i: runs that fail at random, three messages a key: in received order per key',
  async (qos) => {
    await start({ concurrency: 16, qos });
    const failed = new Set<string>();
    fail = (name) => {
      if (failed.has(name) || [...name].reduce((sum, char) => sum * 31 + char.charCodeAt(0), 7) % 3 !== 0) return false;
      failed.add(name);
      return true;
    };
    const keys = Array.from({ length: 60 }, (_, i) => `device-${i}`);
    for (const n of [1, 2, 3]) for (const key of keys) publish(`plain/${key}`, String(n), qos);
    await running.broker.log.waitForReceived(qos === 1 ? 'puback' : 'pubcomp', qos === 1 ? 180 : 0, {}, 20_000);
    await until(() => running.strategy.stats.succeeded === 180);
    expect(failed.size).toBeGreaterThan(20);
    for (const key of keys) {
      const successes = [...new Set(started.filter((name) => name.startsWith(`${key}:`)))];
      expect(successes).toEqual([`${key}:1`, `${key}:2`, `${key}:3`]);
      const all = started.filter((name) => name.startsWith(`${key}:`));
      expect(all).toEqual([...all].sort());
    }
    expect(running.strategy.gate.keyCount).toBe(0);
  },
);

it('10,000 keys: none is left when all is settled', async () => {
  await start({ order: (context) => context.getPayload().toString(), concurrency: 64, receiveMaximum: 1_000 });
  for (let i = 0; i < 10_000; i += 1) publish('plain/all', `key ${i % 5_000 === 0 ? 'often' : i}`);
  await until(() => running.strategy.stats.succeeded === 10_000, 'all have run', 30_000);
  await pubacks(10_000);
  expect(running.strategy.gate).toMatchObject({ keyCount: 0, waitingCount: 0, runningCount: 0 });
});
