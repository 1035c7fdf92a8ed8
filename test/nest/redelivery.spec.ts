import { Controller } from '@nestjs/common';
import { Ctx, EventPattern, type ReadPacket } from '@nestjs/microservices';
import { TransportError } from '../../lib/errors.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

class Target extends EventClient {
  taken = 0;
  fails = 0;
  protected dispatchEvent<T>(_packet: ReadPacket): Promise<T> {
    if (this.fails > 0) {
      this.fails -= 1;
      return Promise.reject(new Error('not now'));
    }
    this.taken += 1;
    return Promise.resolve(undefined as T);
  }
}

const runs: string[] = [];
let error: Error | undefined;

@Controller()
class Handlers {
  @MqttEvent('a')
  a(@Ctx() context: MqttMessageContext): void {
    this.run(context);
  }
  @MqttEvent('b')
  b(@Ctx() context: MqttMessageContext): void {
    this.run(context);
  }
  @EventPattern<string>('good')
  good(): void {
    runs.push('good');
  }
  @MqttEvent('dead', { failure: { then: 'deadLetter' } })
  dead(): void {
    runs.push('dead');
    throw new Error('poison');
  }
  @MqttEvent('halt', { failure: { then: 'halt' } })
  halt(@Ctx() context: MqttMessageContext): void {
    this.run(context);
  }

  private run(context: MqttMessageContext): void {
    runs.push(`${context.getTopic()} ${context.getAttempt()}`);
    if (error !== undefined) throw error;
  }
}

let running: RunningApp;
const target = new Target();
const start = async (strategy = {}): Promise<void> => {
  running = await startApp([Handlers], {
    strategy: { redeliverAfter: 40, deadLetter: { client: target, pattern: 'dead' }, ...strategy },
  });
};
beforeEach(() => {
  runs.length = target.taken = target.fails = 0;
  error = undefined;
});
afterEach(() => running.close());
const connects = (): number => running.broker.log.received('connect').length;

it('one controlled reconnect for all that failed; what succeeded behind them is acknowledged without running again', async () => {
  await start();
  error = new Error('no');
  running.broker.publish('a', '1', { qos: 1 });
  running.broker.publish('b', '2', { qos: 1 });
  for (let i = 0; i < 5; i += 1) running.broker.publish('good', 'x', { qos: 1 });
  await until(() => running.strategy.stats.held === 2 && runs.length === 7);
  expect(running.strategy.state).toBe('stalled');
  expect(running.strategy.health().status).toBe('down');
  expect(running.broker.log.received('puback')).toEqual([]);
  error = undefined;
  await running.broker.log.waitForReceived('puback', 7);
  expect(connects()).toBe(2);
  expect(runs.filter((run) => run === 'good')).toHaveLength(5);
  expect(runs.slice(-2)).toEqual(['a 2', 'b 2']);
  expect(running.strategy.state).toBe('connected');
  expect(running.broker.violations).toEqual([]);
});

it('the intervals double while nothing is freed', async () => {
  await start({ redeliverAfter: 20 });
  const at: number[] = [];
  running.broker.onReceive((packet) => {
    if (packet.cmd === 'connect') at.push(performance.now());
  });
  error = new Error('no');
  const from = performance.now();
  running.broker.publish('a', '1', { qos: 1 });
  await until(() => at.length >= 4);
  // 20, 40, 80 and 160 ms: the fourth cannot come before their sum.
  expect(at[3] - from).toBeGreaterThanOrEqual(295);
});

it('a sink that is down: no reconnect, intake pauses, one message tries it, then all go on', async () => {
  await start();
  error = new TransportError('ERR_TERMINATED', 'the topic is terminated');
  for (let i = 0; i < 4; i += 1) running.broker.publish('a', String(i), { qos: 1 });
  await until(() => running.strategy.stats.held >= 4);
  await until(() => running.strategy.unwrap<{ status: { readingPaused: boolean } }>().status.readingPaused);
  expect(running.strategy.state).toBe('stalled');
  runs.length = 0;
  await until(() => runs.length >= 1);
  expect(runs).toEqual(['a 2']);
  error = undefined;
  await running.broker.log.waitForReceived('puback', 4);
  expect(connects()).toBe(1);
  expect(running.strategy.stats.reconnects).toBe(0);
  await until(() => !running.strategy.unwrap<{ status: { readingPaused: boolean } }>().status.readingPaused);
});

it.each([
  'ERR_MESSAGE_TOO_LARGE',
  // An emit to a topic named after something in the message.
  'ERR_TOPIC',
  'ERR_NOT_SUPPORTED',
] as const)('an error about this message alone (%s): no reconnect, the others go on', async (code) => {
  await start();
  error = new TransportError(code, 'no');
  running.broker.publish('a', '1', { qos: 1 });
  running.broker.publish('good', 'x', { qos: 1 });
  await until(() => runs.filter((run) => run.startsWith('a')).length >= 3 && runs.includes('good'));
  expect(connects()).toBe(1);
  error = undefined;
  await running.broker.log.waitForReceived('puback', 2);
});

it('a dead letter that was not taken is tried again, the handler is not', async () => {
  await start();
  target.fails = 2;
  running.broker.publish('dead', 'x', { qos: 1 });
  await running.broker.log.waitForReceived('puback');
  expect(runs).toEqual(['dead']);
  expect(target.taken).toBe(1);
  expect(running.strategy.stats).toMatchObject({ deadLetterFailures: 2, deadLettered: 1 });
  expect(connects()).toBe(1);
});

it('a lost session: ours is the only copy, it runs again here and is acknowledged to nobody', async () => {
  await start();
  error = new Error('no');
  running.broker.publish('a', '1', { qos: 1 });
  await until(() => running.strategy.stats.held === 1);
  running.broker.dropSession('app');
  running.broker.cut();
  await until(() => running.logged.some((line) => line.includes('lost our session')));
  error = undefined;
  await until(() => running.strategy.stats.succeeded === 1);
  await settled();
  expect(runs.at(-1)).toMatch(/^a [23]$/);
  expect(running.broker.log.received('puback')).toEqual([]);
});

it('a halted message whose copy comes again runs once more at resume(), not twice', async () => {
  await start();
  error = new Error('no');
  running.broker.publish('halt', '1', { qos: 1 });
  await until(() => running.strategy.state === 'halted');
  running.broker.cut();
  await running.broker.waitForClient('app');
  await settled();
  expect(runs).toEqual(['halt 1']);
  error = undefined;
  running.strategy.resume();
  await running.broker.log.waitForReceived('puback');
  await settled();
  expect(runs).toHaveLength(2);
});

it('an unmatched message is counted once, however often it comes again', async () => {
  await start({ unmatched: 'hold' });
  const broker = running.broker;
  await running.strategy.unwrap<{ subscribe(s: unknown[]): Promise<unknown> }>().subscribe([{ filter: 'old', qos: 1 }]);
  broker.publish('old', 'x', { qos: 1 });
  await until(() => running.strategy.stats.unmatched === 1);
  broker.cut();
  await until(() => running.strategy.stats.unmatched === 2);
  expect(running.strategy.health().details).toMatchObject({ held: 1 });
  expect(running.logged.filter((line) => line.includes("'old'") && line.includes('unsubscribe'))).toHaveLength(1);
});

it('pause() is kept although what was held is settled', async () => {
  await start();
  error = new Error('no');
  running.broker.publish('a', '1', { qos: 1 });
  await until(() => running.strategy.stats.held === 1);
  error = undefined;
  running.broker.cut();
  await until(() => running.strategy.stats.succeeded === 1);
  running.strategy.pause();
  running.broker.publish('good', 'x', { qos: 1 });
  await settled();
  expect(runs).not.toContain('good');
  running.strategy.resume();
  await until(() => runs.includes('good'));
});
