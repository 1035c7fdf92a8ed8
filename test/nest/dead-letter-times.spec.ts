import { Controller } from '@nestjs/common';
import { EventPattern, type ReadPacket } from '@nestjs/microservices';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { VirtualClock } from '../model/strategy/virtual-clock.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

class Target extends EventClient {
  readonly tried: Record<string, string>[] = [];
  refusals = 0;
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.tried.push(packet.data as Record<string, string>);
    return this.refusals-- > 0 ? Promise.reject(new Error('not now')) : Promise.resolve(undefined as T);
  }
}

const EPOCH = Date.parse('2026-03-01T12:00:00.000Z');

/** The time of day runs beside the clock's own, and can be set. */
class Clock extends VirtualClock {
  offset = EPOCH - this.now();
  override wallTime(): number {
    return this.now() + this.offset;
  }
}

let runs = 0;

@Controller()
class Handlers {
  @MqttEvent('retried', { failure: { retry: { attempts: 2, initialDelay: 200 }, then: 'deadLetter' } })
  retried(): never {
    runs += 1;
    throw new Error('no');
  }
  @MqttEvent('redelivered', { failure: ({ attempt }) => (attempt < 2 ? 'redeliver' : 'deadLetter') })
  redelivered(): never {
    runs += 1;
    throw new Error('no');
  }
  @EventPattern<string>('other')
  other(): void {}
}

let running: RunningApp;
let clock: Clock;
const target = new Target();
const at = (ms: number): string => new Date(EPOCH + ms).toISOString();
const pass = (ms: number): Promise<void> => clock.pass(ms, () => settled(3));

beforeEach(async () => {
  runs = target.tried.length = target.refusals = 0;
  clock = new Clock(() => 1);
  running = await startApp([Handlers], {
    strategy: { clock, keepAlive: 0, redeliverAfter: 5_000, deadLetter: { client: target, pattern: 'dead' } },
  });
});
afterEach(async () => {
  running.strategy.destroy();
  await running.close();
});

it('received-at is when the message came, at is when this letter was sent; attempt and run are those that failed', async () => {
  target.refusals = 1;
  await pass(40);
  running.broker.publish('retried', 'x', { qos: 1 });
  await until(() => runs === 1);
  await pass(200);
  await until(() => target.tried.length === 1);
  await pass(5_000);
  await until(() => target.tried.length === 2);
  const known = { 'dead-letter-attempt': '1', 'dead-letter-run': '2', 'dead-letter-received-at': at(40) };
  expect(target.tried).toMatchObject([
    { ...known, 'dead-letter-at': at(240) },
    { ...known, 'dead-letter-at': at(5_240) },
  ]);
});

it('a message that was redelivered was received when it came first', async () => {
  running.broker.publish('redelivered', 'x', { qos: 1 });
  await until(() => running.strategy.stats.held === 1);
  await pass(5_000);
  await until(() => running.strategy.stats.reconnects === 1);
  for (let turn = 0; turn < 200 && target.tried.length === 0; turn += 1) await pass(50);
  expect(target.tried).toMatchObject([
    { 'dead-letter-attempt': '2', 'dead-letter-run': '1', 'dead-letter-received-at': at(0) },
  ]);
  expect(target.tried[0]['dead-letter-at']).toBe(new Date(clock.wallTime()).toISOString());
  expect(runs).toBe(2);
});

it('without a handler: no run, and the times all the same', async () => {
  await running.strategy.unwrap<MqttClient>().subscribe([{ filter: 'old', qos: 1 }]);
  target.refusals = 1;
  running.broker.publish('old', 'x', { qos: 1 });
  await until(() => target.tried.length === 1);
  await pass(5_000);
  await until(() => target.tried.length === 2);
  const known = { 'dead-letter-reason': 'no handler', 'dead-letter-run': '0', 'dead-letter-received-at': at(0) };
  expect(target.tried).toMatchObject([
    { ...known, 'dead-letter-at': at(0) },
    { ...known, 'dead-letter-at': at(5_000) },
  ]);
});

it('the time of day that is set meanwhile moves both', async () => {
  running.broker.publish('retried', 'x', { qos: 1 });
  await until(() => runs === 1);
  clock.offset += 3_600_000;
  await pass(200);
  await until(() => target.tried.length === 1);
  expect(target.tried[0]).toMatchObject({
    'dead-letter-received-at': at(3_600_000),
    'dead-letter-at': at(3_600_200),
  });
});
