import { Controller } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { concat, finalize, from, interval, map, NEVER, of } from 'rxjs';
import { MqttRequest } from '../../lib/nest/decorators.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let runs: string[] = [];
let end = gate();

@Controller()
class Handlers {
  @MqttRequest('sum', { payload: 'json' })
  sum(@Payload() numbers: number[]): number {
    runs.push('sum');
    return numbers.reduce((a, b) => a + b, 0);
  }
  @MqttRequest('bytes')
  bytes(@Payload() payload: Buffer): Buffer {
    return payload;
  }
  @MqttRequest('stream')
  stream() {
    return concat(of(1), from(end.promise).pipe(map(() => 2)), of(3));
  }
  @MqttRequest('endless', { acknowledge: 'onFirstReply' })
  endless() {
    return concat(of('first'), NEVER);
  }
  @MqttRequest('ticks', { acknowledge: 'onFirstReply' })
  ticks() {
    return interval(5).pipe(finalize(() => runs.push('ticks ended')));
  }
  @MqttRequest('fails')
  fails(): never {
    runs.push('fails');
    throw new Error('secret');
  }
  @MqttRequest('rpc')
  rpc(): never {
    throw new RpcException({ status: 'error', message: 'known' });
  }
  @MessagePattern<string>('plain')
  plain(): string {
    return 'answer';
  }
  @MqttRequest('waits')
  async waits(): Promise<string> {
    runs.push('waits');
    await end.promise;
    return 'late';
  }
  @EventPattern<string>('event')
  event(): void {
    runs.push('event');
  }
}

let running: RunningApp;
beforeEach(async () => {
  runs = [];
  end = gate();
  running = await startApp([Handlers], { strategy: { concurrency: 1 } });
});
afterEach(() => running.close());

const ask = (topic: string, payload = 'x', properties = {}): void =>
  running.broker.publish(topic, payload, {
    qos: 1,
    properties: { responseTopic: 'replies/1', correlationData: Buffer.from([1, 2]), ...properties },
  });
const replies = async (count: number) =>
  (await running.broker.log.waitForReceived('publish', count)).map(({ topic, payload, properties }) => ({
    topic,
    payload: payload.toString(),
    correlation: properties?.correlationData,
    kind: (properties?.userProperties as Record<string, string>)['nest-reply'],
  }));
const correlation = Buffer.from([1, 2]);

it('one value: one reply with the Correlation Data; the request is acknowledged after the broker accepted it', async () => {
  const release = running.broker.withhold('puback');
  ask('sum', '[1,2,3]');
  expect(await replies(1)).toEqual([{ topic: 'replies/1', payload: '6', correlation, kind: 'last' }]);
  await settled();
  expect(running.broker.log.received('puback')).toEqual([]);
  release();
  // The withheld answer comes with the reply that is sent again.
  running.broker.cut();
  await running.broker.log.waitForReceived('puback');
  expect(runs).toEqual(['sum']);
});

it('plain decorators, bytes as they are', async () => {
  ask('plain');
  ask('bytes', Buffer.from([0, 0xff]).toString('latin1'));
  const [first, second] = await replies(2);
  expect(first).toMatchObject({ payload: 'answer', kind: 'last' });
  expect(second.kind).toBe('last');
  await running.broker.log.waitForReceived('puback', 2);
});

it('a stream: every value as it comes, acknowledged after the last', async () => {
  ask('stream');
  expect(await replies(1)).toMatchObject([{ payload: '1', kind: 'next' }]);
  await settled();
  expect(running.broker.log.received('puback')).toEqual([]);
  end.open();
  expect((await replies(3)).map(({ payload, kind }) => [payload, kind])).toEqual([
    ['1', 'next'],
    ['2', 'next'],
    ['3', 'last'],
  ]);
  await running.broker.log.waitForReceived('puback');
});

it("acknowledge: 'onFirstReply' for a stream without an end; close() ends it", async () => {
  ask('endless');
  await replies(1);
  await running.broker.log.waitForReceived('puback');
  // Its running place is free.
  ask('ticks');
  await replies(4);
  await running.broker.log.waitForReceived('puback', 2);
  await running.app.close();
  expect(runs).toEqual(['ticks ended']);
});

it.each([
  ['fails', { status: 'error', message: 'Internal server error' }],
  ['rpc', { status: 'error', message: 'known' }],
])('an error reply settles the request (%s): 0x00, no second run, nothing of the error leaks', async (topic, error) => {
  ask(topic);
  const [reply] = await replies(1);
  expect(reply.kind).toBe('error');
  expect(JSON.parse(reply.payload)).toEqual(error);
  const [acknowledged] = await running.broker.log.waitForReceived('puback');
  expect(acknowledged.reasonCode ?? 0).toBe(0);
  await settled();
  expect(runs.length).toBeLessThanOrEqual(1);
  expect(running.strategy.stats.held).toBe(0);
});

it('a reply that the broker refuses for good settles the request, counted', async () => {
  running.broker.onSend((packet) => (packet.cmd === 'puback' ? { ...packet, reasonCode: 0x87 } : undefined));
  ask('sum', '[1]');
  await running.broker.log.waitForReceived('puback');
  expect(running.strategy.stats.replyFailed).toBe(1);
});

it("a Response Topic equal to the request's own topic is not answered, the request is handled", async () => {
  ask('sum', '[1]', { responseTopic: 'sum' });
  await running.broker.log.waitForReceived('puback');
  expect(runs).toEqual(['sum']);
  expect(running.broker.log.received('publish')).toEqual([]);
  expect(running.strategy.stats.replyFailed).toBe(1);
});

it('without a Response Topic it is an event: handled, not answered', async () => {
  running.broker.publish('sum', '[1]', { qos: 1 });
  await running.broker.log.waitForReceived('puback');
  expect(runs).toEqual(['sum']);
  expect(running.broker.log.received('publish')).toEqual([]);
});

it('an event handler is not answered although a Response Topic is there', async () => {
  ask('event');
  await running.broker.log.waitForReceived('puback');
  expect(running.broker.log.received('publish')).toEqual([]);
});

it('a request whose time was over before a handler could start is acknowledged without a run, counted', async () => {
  ask('waits');
  await until(() => runs.length === 1);
  ask('sum', '[1]', { messageExpiryInterval: 1 });
  await until(() => running.strategy.gate.waitingCount === 1);
  await new Promise((resolve) => setTimeout(resolve, 1_050));
  end.open();
  await running.broker.log.waitForReceived('puback', 2);
  expect(runs).toEqual(['waits']);
  expect(running.strategy.stats.expired).toBe(1);
});
