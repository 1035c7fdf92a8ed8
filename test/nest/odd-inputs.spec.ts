import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { type Observable } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type FailureFunction } from '../../lib/nest/failure-policy.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

/** What users do by mistake, in plain JavaScript and in haste: a clear answer, and never a lost or a hung message. */

let runs: string[] = [];
let work: (context: MqttMessageContext) => unknown = () => undefined;
let batchWork: (context: MqttBatchContext) => unknown = () => undefined;
let decide: FailureFunction = () => undefined;
const policyOptions = { retry: { attempts: 2, initialDelay: 1, maxHold: 60_000 }, then: 'discard' as const };

@Controller()
class Handlers {
  @MqttEvent('work', { failure: policyOptions })
  run(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): unknown {
    runs.push(payload.toString());
    return work(context);
  }
  @MqttEvent('decided', { failure: (failure, context) => decide(failure, context), handlerTimeout: 150 })
  decided(@Payload() payload: Buffer): void {
    runs.push(payload.toString());
    if (runs.length === 1) throw new Error('no');
  }
  @MqttEvent('dead', { failure: { then: 'deadLetter' } })
  dead(@Payload() payload: Buffer): void {
    runs.push(payload.toString());
    throw new Error('poison');
  }
  @MqttEvent('halt', { failure: { then: 'halt' }, qos: 1 })
  halt(@Payload() payload: Buffer): void {
    runs.push(payload.toString());
    if (runs.length === 1) throw new Error('no');
  }
}

@Controller()
class Batches {
  @MqttEvent('batch', { batch: { size: 3, delay: 20 }, failure: { then: 'discard' } })
  batch(@Payload() data: Buffer[], @Ctx() context: MqttBatchContext): unknown {
    runs.push(data.join());
    return batchWork(context);
  }
}

class Target extends EventClient {
  answer: 'throws' | 'never' | 'fails' | 'takes' = 'takes';
  sent = 0;
  override emit<T>(pattern: unknown, data: unknown): Observable<T> {
    this.sent += 1;
    if (this.answer === 'throws') throw new Error('target throws at once');
    return super.emit<T>(pattern, data);
  }
  protected dispatchEvent<T>(): Promise<T> {
    if (this.answer === 'never') return new Promise(() => undefined);
    return this.answer === 'fails' ? Promise.reject(new Error('not now')) : Promise.resolve(undefined as T);
  }
}

const target = new Target();
let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  const { concurrency } = strategy;
  running = await startApp(concurrency === 1 ? [Handlers] : [Handlers, Batches], {
    strategy: { deadLetter: { client: target, pattern: 'dead' }, ...strategy },
  });
};
const publish = (topic: string, payload = 'x', qos: 0 | 1 = 1): void => running.broker.publish(topic, payload, { qos });
const acknowledged = (count = 1): Promise<unknown> => running.broker.log.waitForReceived('puback', count);
const pubacks = (): number => running.broker.log.received('puback').length;

beforeEach(() => {
  runs = [];
  work = batchWork = () => undefined;
  decide = () => undefined;
});
afterEach(() => running.close());

describe('context', () => {
  it.each([
    ['retryLater', NaN, /retryLater\(\): expected milliseconds >= 0, received NaN/],
    ['retryLater', -1, /received -1/],
    ['retryLater', '5', /received '5'/],
    ['reject', 0, /reason code/],
    ['reject', '131', /reason code/],
    ['waitUntil', 5, /waitUntil\(\): expected a promise or an Observable, received 5/],
    ['waitUntil', undefined, /waitUntil\(\): expected a promise or an Observable/],
    ['detach', { timeout: 'soon' }, /detach\(\): expected timeout in ms/],
  ] as const)('%s(%p) throws what is wrong, and asks for nothing', async (method, argument, message) => {
    await start();
    let thrown: unknown;
    work = (context) => {
      try {
        (context[method] as (argument: unknown) => void)(argument);
      } catch (error) {
        thrown = error;
      }
    };
    publish('work');
    await acknowledged();
    expect(String(thrown)).toMatch(message);
    expect(runs).toHaveLength(1);
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, failedRuns: 0 });
  });

  it('retryLater(Infinity) is over maxHold: the final step, not a wait for ever', async () => {
    await start();
    work = (context) => context.retryLater(Infinity);
    publish('work');
    await acknowledged();
    expect(running.strategy.stats.discarded).toBe(1);
  });

  it('the last of several directives counts', async () => {
    await start();
    work = (context) => {
      context.retryLater(1);
      context.reject(0x97);
    };
    publish('work');
    const [packet] = await running.broker.log.waitForReceived('puback');
    expect(packet.reasonCode).toBe(0x97);
  });

  it('a handle that is used twice, after the end, or never', async () => {
    await start({ detachTimeout: 40 });
    const answers: boolean[] = [];
    work = (context) => {
      if (runs.length > 1) return;
      const handle = context.detach();
      setTimeout(() => answers.push(handle.pending, handle.acknowledge(), handle.fail(new Error('late'))), 150);
    };
    publish('work', 'never');
    await until(() => running.strategy.stats.timedOut === 1, 'the unused handle fails the run');
    await acknowledged();
    await until(() => answers.length > 0);
    expect(answers).toEqual([false, false, false]);
    expect(runs).toEqual(['never', 'never']);
  });

  it('after the run: waitUntil() and detach() throw, the signal has aborted', async () => {
    await start();
    let late: MqttMessageContext | undefined;
    work = (context) => void (late = context);
    publish('work');
    await acknowledged();
    expect(() => late?.waitUntil(Promise.resolve())).toThrow('over');
    expect(() => late?.detach()).toThrow('over');
    expect(late?.signal.aborted).toBe(true);
    late?.retryLater(1);
    await settled();
    expect(runs).toHaveLength(1);
  });
});

describe('policy function', () => {
  it.each<[string, unknown]>([
    ['an unknown name', 'ignore'],
    ['a number', 5],
    ['an object without an action', {}],
    ['a delay that is none', { action: 'retry', delayMs: NaN }],
    ['a negative delay', { action: 'retry', delayMs: -1 }],
    ['a reason code that PUBACK does not have', { action: 'reject', reasonCode: 7 }],
    ['a promise of nonsense', Promise.resolve('ignore')],
  ])('%s: said in the log, redelivered', async (_name, decision) => {
    await start({ redeliverAfter: 30 });
    decide = () => decision as never;
    publish('decided');
    await acknowledged();
    expect(runs).toHaveLength(2);
    expect(running.strategy.stats).toMatchObject({ held: 1, reconnects: 1, succeeded: 1 });
    expect(running.logged.filter((line) => line.includes('failure policy of Handlers.decided'))).toHaveLength(1);
  });

  it('null means redeliver, like undefined', async () => {
    await start({ redeliverAfter: 30 });
    decide = () => null as never;
    publish('decided');
    await acknowledged();
    expect(running.strategy.stats.held).toBe(1);
  });

  it('a thenable that is no Promise is awaited', async () => {
    await start();
    decide = () => ({ then: (resolve: (decision: string) => void) => resolve('discard') }) as never;
    publish('decided');
    await acknowledged();
    expect(running.strategy.stats.discarded).toBe(1);
  });

  it('one that never decides: redelivered when handlerTimeout is over; others go on meanwhile', async () => {
    await start({ redeliverAfter: 30, concurrency: 1 });
    decide = () => new Promise(() => undefined);
    publish('decided');
    await until(() => runs.length === 1);
    publish('work', 'behind');
    await until(() => runs.includes('behind'));
    await acknowledged(2);
    expect(running.strategy.stats.held).toBe(1);
    expect(running.logged.some((line) => line.includes('within 150 ms'))).toBe(true);
  });

  it('one that decides after close() was called is waited for', async () => {
    await start();
    let decided!: (decision: 'discard') => void;
    decide = () => new Promise((resolve) => (decided = resolve));
    publish('decided');
    await until(() => runs.length === 1);
    await settled();
    const closing = running.strategy.close();
    decided('discard');
    await closing;
    expect(pubacks()).toBe(1);
  });
});

describe('batch', () => {
  it('fail() twice for one index: the message fails once, with the last error', async () => {
    await start();
    batchWork = (context) => {
      context.fail(1, new Error('first'));
      context.fail(1, new Error('second'));
      expect(() => context.fail(1.5, 'x')).toThrow('from 0 to 2');
      expect(() => context.fail('1' as never, 'x')).toThrow('from 0 to 2');
    };
    for (const payload of ['a', 'b', 'c']) publish('batch', payload);
    await acknowledged(3);
    expect(running.strategy.stats).toMatchObject({ failedRuns: 1, discarded: 1, succeeded: 2 });
    expect(running.logged.filter((line) => line.includes('second'))).toHaveLength(1);
  });

  it('fail() after the end of the batch throws', async () => {
    await start();
    let late: MqttBatchContext | undefined;
    batchWork = (context) => void (late = context);
    publish('batch');
    await acknowledged();
    expect(() => late?.fail(0, new Error('late'))).toThrow('over');
  });

  it('close() does not wait for a batch to fill', async () => {
    @Controller()
    class Patient {
      @MqttEvent('patient', { batch: { size: 100, delay: 60_000 } })
      patient(@Payload() data: Buffer[]): void {
        runs.push(data.join());
      }
    }
    running = await startApp([Patient], { strategy: { shutdownTimeout: 20_000 } });
    publish('patient', 'a');
    publish('patient', 'b');
    await until(() => running.strategy.gate.runningCount === 2);
    await running.close();
    expect(runs).toEqual(['a,b']);
    expect(pubacks()).toBe(2);
  });
});

describe('order', () => {
  it('a key function that throws or gives undefined: no tie, said once', async () => {
    await start({
      order: (context) => {
        if (context.getTopic() === 'work') throw new Error('no key');
        return undefined;
      },
    });
    for (let i = 0; i < 5; i += 1) publish('work', String(i));
    publish('batch', 'b');
    await acknowledged(6);
    expect(running.strategy.gate.keyCount).toBe(0);
    expect(running.logged.filter((line) => line.includes('no key'))).toHaveLength(1);
  });

  it('a key function that gives a promise is told so: such keys are never equal', async () => {
    await start({ order: () => Promise.resolve('key') });
    publish('work', '1');
    publish('work', '2');
    await acknowledged(2);
    expect(running.logged.filter((line) => /order\(\).*promise/.test(line))).toHaveLength(1);
  });

  it('keys are released, also those that many wait for', async () => {
    await start({ order: (context) => context.getPayload().toString(), concurrency: 3 });
    for (let i = 0; i < 300; i += 1) publish('work', String(i % 40));
    await acknowledged(300);
    expect(running.strategy.gate.keyCount).toBe(0);
    expect(running.strategy.gate.waitingCount).toBe(0);
  });
});

describe('dead-letter target', () => {
  beforeEach(() => {
    target.answer = 'takes';
    target.sent = 0;
  });

  it.each(['throws', 'fails'] as const)('one that %s: kept, stalled, taken later', async (answer) => {
    target.answer = answer;
    await start({ deadLetter: { client: target, pattern: 'dead' }, redeliverAfter: 40 });
    publish('dead');
    await until(() => running.strategy.stats.deadLetterFailures > 0);
    expect(running.strategy.state).toBe('stalled');
    expect(pubacks()).toBe(0);
    target.answer = 'takes';
    await acknowledged();
    expect(running.strategy.stats.deadLettered).toBe(1);
    expect(runs).toEqual(['x']);
  });

  it('a pattern function that throws: kept', async () => {
    let broken = true;
    const pattern = (): string => {
      if (broken) throw new Error('which topic?');
      return 'dead';
    };
    await start({ deadLetter: { client: target, pattern }, redeliverAfter: 40 });
    publish('dead');
    await until(() => running.logged.some((line) => line.includes('which topic?')));
    expect(pubacks()).toBe(0);
    broken = false;
    await acknowledged();
  });

  it('one that never answers takes no running place: other messages go on', async () => {
    target.answer = 'never';
    await start({ deadLetter: { client: target, pattern: 'dead' }, concurrency: 1, shutdownTimeout: 50 });
    publish('dead', 'poison');
    await until(() => target.sent === 1);
    publish('work', 'behind');
    await until(() => running.strategy.stats.succeeded === 1);
    expect(pubacks()).toBe(0);
    expect(running.logged.filter((line) => line.includes('unfinished'))).toEqual([]);
    await running.strategy.close();
    expect(running.logged.filter((line) => line.includes('unfinished'))).toHaveLength(1);
  });
});

describe('halt', () => {
  it('halt, resume, and halt again: nothing is lost, nothing runs while halted', async () => {
    await start({ redeliverAfter: 20 });
    publish('halt', 'a');
    await until(() => running.strategy.state === 'halted');
    publish('work', 'b');
    await settled(60);
    expect(runs).toEqual(['a']);
    expect(running.broker.log.received('connect')).toHaveLength(1);
    running.strategy.resume();
    await acknowledged(2);
    runs = [];
    publish('halt', 'c');
    await until(() => running.strategy.state === 'halted');
    await running.strategy.close();
    expect(runs).toEqual(['c']);
    expect(pubacks()).toBe(2);
  });

  it('QoS 0: the copy we hold runs at resume()', async () => {
    await start();
    publish('halt', 'a', 0);
    await until(() => running.strategy.state === 'halted');
    running.strategy.resume();
    await until(() => running.strategy.stats.succeeded === 1);
    expect(runs).toEqual(['a', 'a']);
    expect(running.strategy.state).toBe('connected');
  });
});
