import { Controller } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type RunningApp, startApp, until } from './support/app.js';

const NEVER = 60_000;
let first: string[][] = [];
let second: string[][] = [];
let failing = 0;

@Controller()
class Handlers {
  @MqttEvent('both/+', { batch: { size: 10, delay: NEVER }, failure: { retry: { attempts: 9, initialDelay: 1 } } })
  first(@Payload() data: Buffer[]): void {
    first.push(data.map(String));
    if (failing-- > 0) throw new Error('no');
  }
  @MqttEvent('both/#', { batch: { size: 10, delay: NEVER } })
  second(@Payload() data: Buffer[]): void {
    second.push(data.map(String));
  }
}

let running: RunningApp;
beforeEach(() => {
  first = [];
  second = [];
  failing = 0;
});
afterEach(() => running.close());

// One copy per message: both handlers run for it.
const start = async (): Promise<void> => {
  running = await startApp([Handlers], { strategy: { order: 'topic', protocolVersion: 4 } });
};
const publish = (payload: string): void => running.broker.publish('both/a', payload, { qos: 1 });
const each = (count: number): string[][] => Array.from({ length: count }, (_, i) => [String(i + 1)]);

it('one message in the batches of two handlers: both start once another message waits for its key', async () => {
  await start();
  for (let n = 1; n <= 6; n += 1) publish(String(n));
  await running.broker.log.waitForReceived('puback', 5);
  expect([first, second]).toEqual([each(5), each(5)]);
});

it('also where the other message waited before the second batch was joined again', async () => {
  await start();
  failing = 3;
  publish('1');
  publish('2');
  await running.broker.log.waitForReceived('puback', 1);
  expect(first).toEqual([['1'], ['1'], ['1'], ['1']]);
  expect(second).toEqual([['1']]);
  // The last one has nothing behind it: it waits for others, in both.
  await until(() => running.strategy.gate.runningCount === 1);
  expect(first).toHaveLength(4);
  running.strategy.pause();
  await running.broker.log.waitForReceived('puback', 2);
  expect(second).toEqual([['1'], ['2']]);
});
