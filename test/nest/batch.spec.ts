import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload, type ReadPacket } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { PulsarClientProxy } from '../../lib/nest/pulsar-client.proxy.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

class Target extends EventClient {
  readonly taken: Record<string, string>[] = [];
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.taken.push(packet.data as Record<string, string>);
    return Promise.resolve(undefined as T);
  }
}

let calls: { data: unknown[]; topics: string[] }[] = [];
let work: (context: MqttBatchContext) => unknown = () => undefined;

@Controller()
class Handlers {
  @MqttEvent('s/+', { batch: { size: 3, delay: 60 }, payload: 'json', failure: { then: 'deadLetter' } })
  async readings(@Payload() data: unknown[], @Ctx() context: MqttBatchContext): Promise<void> {
    calls.push({ data, topics: context.getContexts().map((each) => each.getTopic()) });
    await work(context);
  }
  @MqttEvent('r', { batch: { size: 2, delay: 20 }, failure: { retry: { attempts: 3, initialDelay: 1 } } })
  retried(@Payload() data: Buffer[]): void {
    calls.push({ data: data.map(String), topics: [] });
    if (calls.length === 1) throw new Error('first time');
  }
  @MqttEvent('slow', { batch: { size: 2, delay: 5_000 }, handlerTimeout: 60, failure: { then: 'discard' } })
  async slow(@Payload() _data: unknown[], @Ctx() context: MqttBatchContext): Promise<void> {
    await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
    calls.push({ data: ['aborted'], topics: [] });
  }
}

let running: RunningApp;
const target = new Target();
beforeEach(async () => {
  calls = [];
  work = () => undefined;
  target.taken.length = 0;
  running = await startApp([Handlers], { strategy: { deadLetter: { client: target, pattern: 'dead' } } });
});
afterEach(() => running.close());
const publish = (topic: string, payload: unknown): void =>
  running.broker.publish(topic, JSON.stringify(payload), { qos: 1 });
const inReceivedOrder = (): void =>
  expect(running.broker.log.received('puback').map(({ messageId }) => messageId)).toEqual(
    running.broker.log.sent('publish').map(({ messageId }) => messageId),
  );

it('one run per full batch, data and contexts with the same indexes; each message is acknowledged, in received order', async () => {
  for (let i = 0; i < 6; i += 1) publish(`s/${i}`, { i });
  await running.broker.log.waitForReceived('puback', 6);
  expect(calls).toEqual([
    { data: [{ i: 0 }, { i: 1 }, { i: 2 }], topics: ['s/0', 's/1', 's/2'] },
    { data: [{ i: 3 }, { i: 4 }, { i: 5 }], topics: ['s/3', 's/4', 's/5'] },
  ]);
  inReceivedOrder();
});

it('what does not fill a batch waits for its delay', async () => {
  publish('s/1', 1);
  publish('s/2', 2);
  await running.broker.log.waitForReceived('puback', 2);
  expect(calls.map(({ data }) => data)).toEqual([[1, 2]]);
});

it('nothing is acknowledged before the batch has ended', async () => {
  const end = gate();
  work = () => end.promise;
  for (let i = 0; i < 3; i += 1) publish('s/x', i);
  await until(() => calls.length === 1);
  await settled();
  expect(running.broker.log.received('puback')).toEqual([]);
  end.open();
  await running.broker.log.waitForReceived('puback', 3);
});

it('fail(): that message alone goes through the policy; an undecodable one is not in the batch', async () => {
  work = (context) => context.fail(1, new Error('bad reading'));
  publish('s/a', 'a');
  running.broker.publish('s/b', '{', { qos: 1 });
  publish('s/c', 'c');
  publish('s/d', 'd');
  await running.broker.log.waitForReceived('puback', 4);
  expect(calls.map(({ data }) => data)).toEqual([['a', 'c', 'd']]);
  expect(target.taken.map((letter) => [letter['dead-letter-topic'], letter['dead-letter-reason']])).toEqual([
    ['s/b', 'undecodable'],
    ['s/c', 'handler'],
  ]);
  expect(target.taken[1]['dead-letter-error']).toBe('bad reading');
  expect(running.strategy.stats).toMatchObject({ succeeded: 2, deadLettered: 2 });
  inReceivedOrder();
});

it('fail() names what is wrong with an index', async () => {
  let thrown: unknown;
  work = (context) => {
    try {
      context.fail(3, new Error('x'));
    } catch (error) {
      thrown = error;
    }
  };
  for (let i = 0; i < 3; i += 1) publish('s/x', i);
  await running.broker.log.waitForReceived('puback', 3);
  expect((thrown as Error).message).toContain('from 0 to 2, received 3');
});

it('a handler that throws failed for every message; they are retried as a batch', async () => {
  running.broker.publish('r', 'a', { qos: 1 });
  running.broker.publish('r', 'b', { qos: 1 });
  await running.broker.log.waitForReceived('puback', 2);
  expect(calls[0].data).toEqual(['a', 'b']);
  expect(calls.slice(1).flatMap(({ data }) => data)).toEqual(['a', 'b']);
});

it('handlerTimeout ends the batch for all of its messages', async () => {
  running.broker.publish('slow', 'a', { qos: 1 });
  // The second one's time is over a little later: the handler that the signal has ended meanwhile must not count for it.
  await until(() => running.strategy.gate.runningCount === 1);
  await settled();
  running.broker.publish('slow', 'b', { qos: 1 });
  await running.broker.log.waitForReceived('puback', 2);
  expect(calls).toEqual([{ data: ['aborted'], topics: [] }]);
  expect(running.strategy.stats).toMatchObject({ timedOut: 2, discarded: 2 });
});

it("the time that a batch takes to fill is not the handler's", async () => {
  const got: string[][] = [];
  @Controller()
  class Late {
    @MqttEvent('late', { batch: { size: 2, delay: 60_000 }, handlerTimeout: 30, failure: { then: 'discard' } })
    late(@Payload() data: Buffer[]): Promise<void> | undefined {
      got.push(data.map(String));
      return got.length === 1 ? undefined : new Promise(() => undefined);
    }
  }
  const app = await startApp([Late]);
  app.broker.publish('late', 'a', { qos: 1 });
  await until(() => app.strategy.gate.runningCount === 1);
  await settled(90);
  expect(app.strategy.stats.timedOut).toBe(0);
  for (const payload of ['b', 'c', 'd']) app.broker.publish('late', payload, { qos: 1 });
  await app.broker.log.waitForReceived('puback', 4);
  expect(got).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ]);
  // The second batch did not end.
  expect(app.strategy.stats).toMatchObject({ succeeded: 2, timedOut: 2, discarded: 2 });
  await app.close();
});

it('data and contexts are in received order, also where decoders take their time', async () => {
  const got: { data: string[]; payloads: string[] }[] = [];
  const decoding = new Map<string, () => void>();
  @Controller()
  class Slow {
    @MqttEvent('decoded', {
      batch: { size: 3, delay: 60_000 },
      payload: (payload) => new Promise((resolve) => decoding.set(String(payload), () => resolve(String(payload)))),
    })
    decoded(@Payload() data: string[], @Ctx() context: MqttBatchContext): void {
      const payloads = context.getContexts().map((one) => String(one.getPayload()));
      got.push({ data: [...data], payloads });
      context.fail(2, new Error('the third'));
    }
  }
  const app = await startApp([Slow], { strategy: { failure: { then: 'reject' } } });
  for (const payload of ['1', '2', '3']) app.broker.publish('decoded', payload, { qos: 1 });
  await until(() => decoding.size === 3);
  for (const payload of ['3', '1', '2']) {
    decoding.get(payload)!();
    await settled();
  }
  const pubacks = await app.broker.log.waitForReceived('puback', 3);
  expect(got).toEqual([{ data: ['1', '2', '3'], payloads: ['1', '2', '3'] }]);
  expect(pubacks.map(({ messageId, reasonCode }) => [messageId, reasonCode ?? 0])).toEqual([
    [1, 0],
    [2, 0],
    [3, 0x83],
  ]);
  await app.close();
});

it('a size that the concurrency cannot fill is an option error', async () => {
  @Controller()
  class TooLarge {
    @MqttEvent('x', { batch: { size: 9, delay: 1 } })
    x(): void {}
  }
  await expect(startApp([TooLarge], { strategy: { concurrency: 8 } })).rejects.toThrow(
    /handlers\['x'\]\.batch\.size.*concurrency \(8\)/,
  );
});

it('emits of a batch handler hold the acknowledgement of every message', async () => {
  const pulsar = await InMemoryPulsarBroker.start();
  const proxy = new PulsarClientProxy({ url: pulsar.url });
  @Controller()
  class Emitting {
    constructor(@Inject(PulsarClientProxy) private readonly out: PulsarClientProxy) {}
    @MqttEvent('e', { batch: { size: 2, delay: 10 } })
    e(@Payload() data: Buffer[]): void {
      for (const each of data) this.out.emit('out', each);
    }
  }
  const app = await startApp([Emitting], { providers: [{ provide: PulsarClientProxy, useValue: proxy }] });
  pulsar.holdReceipts();
  app.broker.publish('e', '1', { qos: 1 });
  app.broker.publish('e', '2', { qos: 1 });
  await until(() => pulsar.topic('persistent://public/default/out').messages.length === 2);
  await settled();
  expect(app.broker.log.received('puback')).toEqual([]);
  pulsar.releaseReceipts();
  await app.broker.log.waitForReceived('puback', 2);
  await app.close();
  await proxy.close();
  await pulsar.close();
});
