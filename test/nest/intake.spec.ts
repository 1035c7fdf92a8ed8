import { Controller } from '@nestjs/common';
import { type ClientProxy, Ctx, EventPattern, Payload, RpcException } from '@nestjs/microservices';
import { NEVER } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let started: string[] = [];
let end = gate();

@Controller()
class Handlers {
  @EventPattern<string>('t')
  async t(@Payload() payload: Buffer): Promise<void> {
    started.push(payload.toString());
    await end.promise;
  }
}

let running: RunningApp;
beforeEach(() => {
  started = [];
  end = gate();
});
afterEach(async () => {
  end.open();
  await running.close();
});
const client = (): MqttClient => running.strategy.unwrap<MqttClient>();

it('concurrency bounds what runs; the rest starts in received order', async () => {
  running = await startApp([Handlers], { strategy: { concurrency: 2 } });
  for (let i = 0; i < 6; i += 1) running.broker.publish('t', String(i), { qos: 1 });
  await until(() => running.strategy.gate.waitingCount === 4);
  expect(started).toEqual(['0', '1']);
  end.open();
  await running.broker.log.waitForReceived('puback', 6);
  expect(started).toEqual(['0', '1', '2', '3', '4', '5']);
});

it('a QoS 0 flood: reading stops when too many wait, and goes on when they are fewer', async () => {
  running = await startApp([Handlers], { strategy: { concurrency: 4, receiveMaximum: 16 } });
  const total = 60_000;
  const payload = Buffer.alloc(200, 0x78);
  for (let i = 0; i < total; i += 1) running.broker.publish('t', payload, { qos: 0 });
  await until(() => client().status.readingPaused);
  await settled();
  const waiting = running.strategy.gate.waitingCount;
  expect(waiting).toBeGreaterThanOrEqual(1_000);
  // Only what one more chunk of the socket holds may come on top.
  expect(waiting).toBeLessThan(2_000);
  expect(running.strategy.stats.dropped).toBe(0);
  end.open();
  await until(() => started.length === total, 'all have run', 20_000);
  expect(client().status.readingPaused).toBe(false);
});

it('while an answer is awaited reading goes on, and over the hard bound the oldest QoS 0 messages are dropped, counted', async () => {
  running = await startApp([Handlers], { strategy: { concurrency: 1, receiveMaximum: 16 } });
  running.broker.withhold('puback');
  const published = client().publish({ topic: 'out', payload: Buffer.from('x'), qos: 1 });
  await running.broker.log.waitForReceived('publish');
  const total = 6_000;
  running.broker.publish('t', 'kept', { qos: 1 });
  for (let i = 0; i < total; i += 1) running.broker.publish('t', String(i), { qos: 0 });
  await until(() => running.strategy.stats.received === total + 1);
  expect(client().status.readingPaused).toBe(false);
  const { dropped } = running.strategy.stats;
  expect(dropped).toBeGreaterThan(0);
  expect(running.strategy.gate.waitingCount).toBe(total - dropped);
  end.open();
  await until(() => started.length === total + 1 - dropped, 'the others have run', 20_000);
  expect(started[0]).toBe('kept');
  // The oldest went, the newest are there, in order.
  expect(started.slice(1)).toEqual(Array.from({ length: total - dropped }, (_, i) => String(i + dropped)));
  running.broker.cut();
  published.catch(() => undefined);
});

it('drain(): intake stops, resolves when nothing runs; resume() takes it back', async () => {
  running = await startApp([Handlers]);
  running.broker.publish('t', '1', { qos: 1 });
  await until(() => started.length === 1);
  let drained = false;
  const draining = running.strategy.drain().then(() => (drained = true));
  running.broker.publish('t', '2', { qos: 1 });
  await settled();
  expect(drained).toBe(false);
  end.open();
  await draining;
  await settled();
  expect(started).toEqual(['1']);
  expect(running.broker.log.received('puback')).toHaveLength(1);
  expect(running.broker.log.received('disconnect')).toEqual([]);
  running.strategy.resume();
  await running.broker.log.waitForReceived('puback', 2);
  expect(started).toEqual(['1', '2']);
});

it.each(['retry', 'detach'])(
  'a QoS 0 flood whose handlers all %s: what is set aside counts as well, memory stays bounded',
  async (how) => {
    let runs = 0;
    @Controller()
    class Aside {
      @MqttEvent('aside', { failure: { retry: { attempts: 2, initialDelay: 60_000, maxDelay: 60_000 } } })
      aside(@Ctx() context: MqttMessageContext): void {
        runs += 1;
        if (how === 'detach') context.detach();
        else throw new RpcException('later');
      }
    }
    running = await startApp([Aside], { strategy: { concurrency: 4, receiveMaximum: 16, shutdownTimeout: 10 } });
    const payload = Buffer.alloc(20_000, 0x78);
    for (let i = 0; i < 6_000; i += 1) running.broker.publish('aside', payload, { qos: 0 });
    await until(() => client().status.readingPaused, 'reading stops');
    await settled(50);
    // Only what one more chunk of the socket holds may come on top.
    expect(runs).toBeGreaterThanOrEqual(1_000);
    expect(runs).toBeLessThan(2_000);
  },
);

it('a QoS 0 flood of unmatched messages waits for a dead-letter target that does not answer', async () => {
  let sent = 0;
  const target = { emit: () => ((sent += 1), NEVER) } as unknown as ClientProxy;
  running = await startApp([Handlers], {
    strategy: { receiveMaximum: 16, shutdownTimeout: 10, deadLetter: { client: target, pattern: 'dead' } },
  });
  await client().subscribe([{ filter: 'old', qos: 0 }]);
  const payload = Buffer.alloc(20_000, 0x78);
  for (let i = 0; i < 6_000; i += 1) running.broker.publish('old', payload, { qos: 0 });
  await until(() => client().status.readingPaused, 'reading stops');
  await settled(50);
  expect(sent).toBeGreaterThanOrEqual(1_000);
  expect(sent).toBeLessThan(2_000);
});

it('a QoS 1 flood over 3.1.1, which has no Receive Maximum: reading stops at what we would have asked for', async () => {
  running = await startApp([Handlers], { strategy: { protocolVersion: 4, concurrency: 4, receiveMaximum: 16 } });
  const payload = Buffer.alloc(2_000, 0x78);
  const total = 5_000;
  for (let i = 0; i < total; i += 1) running.broker.publish('t', payload, { qos: 1 });
  await until(() => client().status.readingPaused, 'reading stops');
  await settled(50);
  // Only what one more chunk of the socket holds may come on top.
  expect(client().window.used).toBeGreaterThanOrEqual(16);
  expect(client().window.used).toBeLessThan(200);
  end.open();
  await running.broker.log.waitForReceived('puback', total, {}, 25_000);
  expect(client().window.used).toBe(0);
});
