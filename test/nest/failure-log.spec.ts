import { Controller } from '@nestjs/common';
import { type ClientProxy, Ctx, EventPattern, RpcException } from '@nestjs/microservices';
import { of } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { gate, type RunningApp, startApp, until } from './support/app.js';

let decided = gate();

@Controller()
class Handlers {
  @MqttEvent('retries', { failure: { retry: { attempts: 3, initialDelay: 4 }, then: 'discard' } })
  retries(): void {
    throw new Error('reason');
  }
  @MqttEvent('letter', { failure: { then: 'deadLetter' } })
  letter(): void {
    throw new Error('reason');
  }
  @MqttEvent('rejects', { failure: { then: 'reject' } })
  rejects(): void {
    throw new Error('reason');
  }
  @MqttEvent('held')
  held(): void {
    throw new Error('reason');
  }
  @MqttEvent('halts', { failure: { then: 'halt' } })
  halts(): void {
    throw new Error('reason');
  }
  @MqttEvent('decides', { failure: () => decided.promise.then(() => 'discard' as const) })
  decides(): void {
    throw new Error('reason');
  }
  @MqttEvent('json', { payload: 'json', failure: { retry: 3, then: 'discard' } })
  json(): void {}
  @MqttEvent('asks')
  asks(_payload: Buffer, @Ctx() context: MqttMessageContext): void {
    if (context.getRun() === 1) context.retryLater(3);
    else context.reject(0x97);
  }
  @MqttEvent('lines/+', { failure: { then: 'discard' } })
  lines(): void {
    throw new RpcException('first\n  second\r\nthird');
  }
  // Two handlers of one message: the stronger end is what happens to it.
  @EventPattern<string>('two', { failure: { then: 'discard' } })
  one(): void {
    throw new Error('reason');
  }
  @MqttEvent('two', { failure: { retry: { attempts: 2, initialDelay: 4 }, then: 'reject' } })
  other(): void {
    throw new Error('reason');
  }
}

let running: RunningApp;
let said: string[] = [];
const start = async (protocolVersion: 4 | 5 = 5): Promise<void> => {
  const client = { emit: () => of(undefined) } as unknown as ClientProxy;
  running = await startApp([Handlers], { strategy: { protocolVersion, deadLetter: { client, pattern: 'dead' } } });
  said = [];
  Object.assign(running.strategy.logger, {
    warn: (message: unknown) => said.push(`WARN ${String(message)}`),
    error: (message: unknown) => said.push(`ERROR ${String(message)}`),
  });
};
const publish = (topic: string): void => running.broker.publish(topic, 'x', { qos: 1 });
beforeEach(() => {
  decided = gate();
});
afterEach(() => running.close());

it('a run that is followed by another is a warning with its delay, the last one an error with the end', async () => {
  await start();
  publish('retries');
  await until(() => running.strategy.stats.discarded === 1);
  expect(said).toHaveLength(3);
  const line = "Handlers.retries failed (handler) for a message on 'retries', attempt 1, run";
  expect(said[0]).toMatch(/^WARN .*, run 1 of 3, again in \d+ ms$/);
  expect(said[1]).toMatch(/^WARN .*, run 2 of 3, again in \d+ ms$/);
  expect(said[2]).toBe(`ERROR ${line} 3 of 3, discarded`);
});

it.each([
  ['letter', 'goes to the dead-letter target'],
  ['rejects', 'rejected with 0x83'],
  ['held', 'held'],
  ['halts', 'halted'],
])('%s: an error that ends with "%s"', async (topic, end) => {
  await start();
  publish(topic);
  await until(() => said.length > 0);
  expect(said[0]).toBe(
    `ERROR Handlers.${topic} failed (handler) for a message on '${topic}', attempt 1, run 1, ${end}`,
  );
});

it('MQTT 3.1.1 has no reason codes to tell', async () => {
  await start(4);
  publish('rejects');
  await until(() => running.strategy.stats.rejected === 1);
  expect(said).toEqual([expect.stringMatching(/run 1, rejected$/)]);
});

it('a dead letter that was taken needs no further line', async () => {
  await start();
  publish('letter');
  await until(() => running.strategy.stats.deadLettered === 1);
  expect(said).toHaveLength(1);
});

it('a policy that takes its time: the line comes when it has decided', async () => {
  await start();
  publish('decides');
  await until(() => running.strategy.stats.failedRuns === 1);
  expect(said).toEqual([]);
  decided.open();
  await until(() => running.strategy.stats.discarded === 1);
  expect(said).toEqual([expect.stringMatching(/^ERROR Handlers\.decides failed .* run 1, discarded$/)]);
});

it('what Nest does not log stands at the end; a payload that does not decode is not promised a retry', async () => {
  await start();
  publish('json');
  await until(() => running.strategy.stats.discarded === 1);
  expect(said).toEqual([
    expect.stringMatching(/^ERROR Handlers\.json failed \(undecodable\) .* run 1, discarded: .*JSON/),
  ]);
});

it('what the handler asks for itself', async () => {
  await start();
  publish('asks');
  await until(() => running.strategy.stats.rejected === 1);
  const where = "for a message on 'asks', attempt 1, run";
  expect(said).toEqual([
    `WARN Handlers.asks asked for another run in 3 ms ${where} 1, again in 3 ms`,
    `WARN Handlers.asks asked for a rejection (0x97) ${where} 2, rejected with 0x97`,
  ]);
});

it('two handlers: the one that is done waits for the other, and the stronger end is said', async () => {
  await start();
  publish('two');
  await until(() => running.strategy.stats.rejected === 1);
  expect(said.map((line) => line.replace(/in \d+ ms/, 'in n ms')).sort()).toEqual([
    expect.stringMatching(/^ERROR Handlers\.other .* run 2 of 2, rejected with 0x83$/),
    expect.stringMatching(/^ERROR handler of 'two' failed .* run 1, waits for a handler that runs again/),
    expect.stringMatching(/^WARN Handlers\.other .* run 1 of 2, again in n ms$/),
  ]);
});

it('is one line, whatever the error says', async () => {
  await start();
  publish('lines/a');
  await until(() => running.strategy.stats.discarded === 1);
  expect(said).toEqual([
    "ERROR Handlers.lines failed (handler) for a message on 'lines/a', attempt 1, run 1, discarded: first second third",
  ]);
});
