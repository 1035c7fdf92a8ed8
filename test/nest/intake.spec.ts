import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
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
