import {
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  UseFilters,
  UseGuards,
  UsePipes,
} from '@nestjs/common';
import { Ctx, EventPattern, Payload, type ReadPacket, RpcException } from '@nestjs/microservices';
import { throwError } from 'rxjs';
import { TransportError } from '../../lib/errors.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type Failure, type FailureFunction } from '../../lib/nest/failure-policy.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

/** A target that takes dead letters when it is told to. */
class Target extends EventClient {
  readonly taken: { pattern: string; data: Record<string, string> }[] = [];
  answer: () => Promise<unknown> = () => Promise.resolve();
  protected async dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    await this.answer();
    this.taken.push({ pattern: packet.pattern as string, data: packet.data as Record<string, string> });
    return undefined as T;
  }
}

class Broken extends Error {}
class Refuse implements CanActivate {
  canActivate(): boolean {
    throw new Broken('guard');
  }
}
class Pipe {
  transform(): never {
    throw new Broken('pipe');
  }
}
@Catch()
class Mask implements ExceptionFilter {
  catch() {
    return throwError(() => ({ status: 'error', message: 'masked by a filter' }));
  }
}

const runs: string[] = [];
const failures: Failure[] = [];
let fails = 0;
let decision: ReturnType<FailureFunction> = 'discard';
const decide: FailureFunction = (failure) => {
  failures.push(failure);
  return decision;
};

function failing(name: string): void {
  runs.push(name);
  if (fails > 0) {
    fails -= 1;
    throw new Broken(name);
  }
}

@Controller()
class Handlers {
  @MqttEvent('retry', { failure: { retry: { attempts: 3, initialDelay: 5 }, then: 'discard' } })
  retry(): void {
    failing('retry');
  }
  @MqttEvent('two', { failure: { retry: { attempts: 3, initialDelay: 5 }, then: 'discard' } })
  first(): void {
    failing('first');
  }
  @MqttEvent('two')
  second(): void {
    runs.push('second');
  }
  @MqttEvent('dead', { failure: { then: 'deadLetter' } })
  dead(): void {
    failing('dead');
  }
  @MqttEvent('reject', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  reject(): void {
    failing('reject');
  }
  @MqttEvent('discard', { failure: { then: 'discard' } })
  discard(): void {
    failing('discard');
  }
  @MqttEvent('halt', { failure: { then: 'halt' } })
  halt(): void {
    failing('halt');
  }
  @MqttEvent('redeliver', { qos: 0 })
  redeliver(): void {
    failing('redeliver');
  }
  @MqttEvent('json', { payload: 'json', failure: { retry: 5, then: 'deadLetter' } })
  json(): void {
    runs.push('json');
  }
  @MqttEvent('function', { failure: decide })
  decided(): void {
    failing('function');
  }
  @UseGuards(Refuse)
  @MqttEvent('guard', { failure: decide })
  guarded(): void {
    runs.push('guard');
  }
  @MqttEvent('pipe', { failure: decide })
  @UsePipes(Pipe)
  piped(@Payload() _payload: unknown): void {
    runs.push('pipe');
  }
  @UseFilters(Mask)
  @MqttEvent('filter', { failure: decide })
  filtered(): void {
    failing('filter');
  }
  @EventPattern<string>('plain', { failure: decide })
  plain(): void {
    failing('plain');
  }
  @MqttEvent('later', { failure: { then: 'discard' } })
  later(@Ctx() context: MqttMessageContext): void {
    runs.push('later');
    if (context.getRun() < 3) context.retryLater(5);
  }
  @MqttEvent('by-hand')
  byHand(@Ctx() context: MqttMessageContext): void {
    context.deadLetter('not wanted');
  }
  @MqttEvent('refuse-by-hand')
  refuseByHand(@Ctx() context: MqttMessageContext): void {
    context.reject(0x97);
  }
  @MqttEvent('rpc', { failure: decide })
  rpc(): void {
    throw new RpcException({ status: 'error', message: 'known' });
  }
  @MqttEvent('slow', { handlerTimeout: 40, failure: decide })
  async slow(@Ctx() context: MqttMessageContext): Promise<void> {
    await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
    runs.push('aborted');
  }
}

describe.each([5, 4] as const)('MQTT %i', (protocolVersion) => {
  let running: RunningApp;
  const target = new Target();
  beforeAll(async () => {
    running = await startApp([Handlers], {
      strategy: { protocolVersion, deadLetter: { client: target, pattern: (topic) => `dead/${topic}` } },
    });
  });
  afterAll(() => running.close());
  beforeEach(() => {
    runs.length = failures.length = target.taken.length = 0;
    fails = 0;
    decision = 'discard';
    target.answer = () => Promise.resolve();
    running.broker.log.clear();
  });
  const publish = (topic: string, payload: string | Buffer = 'x', properties = {}): void =>
    running.broker.publish(topic, payload, { qos: 1, ...(protocolVersion === 5 && { properties }) });
  const acknowledged = async (): Promise<number> => {
    const [packet] = await running.broker.log.waitForReceived('puback');
    return packet.reasonCode ?? 0;
  };

  it('retry: runs again in this process until it succeeds, then 0x00', async () => {
    fails = 2;
    publish('retry');
    expect(await acknowledged()).toBe(0);
    expect(runs).toEqual(['retry', 'retry', 'retry']);
  });

  it('retry: only the handler that failed runs again', async () => {
    fails = 1;
    publish('two');
    expect(await acknowledged()).toBe(0);
    expect(runs).toEqual(['first', 'second', 'first']);
  });

  it('retry, then discard: 0x00 after the last attempt, counted', async () => {
    const { discarded } = running.strategy.stats;
    fails = 3;
    publish('retry');
    expect(await acknowledged()).toBe(0);
    expect(runs).toHaveLength(3);
    expect(running.strategy.stats.discarded).toBe(discarded + 1);
  });

  it('deadLetter: bytes, topic, reason and attempts at the target; 0x00 on its receipt, not before', async () => {
    const receipt = gate();
    target.answer = () => receipt.promise;
    fails = 1;
    publish('dead', Buffer.from([0, 0xff, 0xfe, 0x80]), { userProperties: { device: 'd1' } });
    await until(() => runs.length === 1);
    await settled();
    expect(running.broker.log.received('puback')).toEqual([]);
    receipt.open();
    expect(await acknowledged()).toBe(0);
    const [{ pattern, data }] = target.taken;
    expect(pattern).toBe('dead/dead');
    expect(Buffer.from(data['payload'], 'base64')).toEqual(Buffer.from([0, 0xff, 0xfe, 0x80]));
    expect(data).toMatchObject({
      'dead-letter-topic': 'dead',
      'dead-letter-reason': 'handler',
      'dead-letter-error': 'dead',
      'dead-letter-attempt': '1',
      ...(protocolVersion === 5 && { properties: { device: 'd1' } }),
    });
  });

  it('reject: its reason code in MQTT 5, 0x00 in 3.1.1, counted', async () => {
    const { rejected } = running.strategy.stats;
    fails = 1;
    publish('reject');
    expect(await acknowledged()).toBe(protocolVersion === 5 ? 0x99 : 0);
    expect(running.strategy.stats.rejected).toBe(rejected + 1);
  });

  it('deadLetter: what the target does not take stays un-acknowledged, and the log says so', async () => {
    target.answer = () => Promise.reject(new Error('target is down'));
    fails = 1;
    publish('dead');
    await until(() => running.strategy.stats.deadLetterFailures > 0);
    await settled();
    expect(running.broker.log.received('puback')).toEqual([]);
    expect(running.strategy.state).toBe('stalled');
    expect(running.logged.some((line) => line.includes('target is down'))).toBe(true);
    // A copy that the broker sends meanwhile starts nothing; see redelivery.spec for what tries again.
    running.broker.cut();
    await running.broker.waitForClient('app');
    await settled();
    expect(runs).toEqual(['dead']);
  });

  it('QoS 0 has nothing to redeliver: it is discarded, counted', async () => {
    const { discarded } = running.strategy.stats;
    fails = 1;
    running.broker.publish('redeliver', 'x', { qos: 0 });
    await until(() => running.strategy.stats.discarded === discarded + 1);
    expect(running.strategy.stats.held).toBe(1);
  });
});

describe('one message after the other', () => {
  let running: RunningApp;
  const target = new Target();
  beforeEach(async () => {
    runs.length = failures.length = target.taken.length = 0;
    fails = 0;
    decision = 'discard';
    running = await startApp([Handlers], { strategy: { deadLetter: { client: target, pattern: 'dead' } } });
  });
  afterEach(() => running.close());
  const send = async (topic: string, payload = 'x'): Promise<number> => {
    running.broker.publish(topic, payload, { qos: 1 });
    const [packet] = await running.broker.log.waitForReceived('puback');
    return packet.reasonCode ?? 0;
  };

  it('an undecodable payload: no run, no retry, the final step', async () => {
    expect(await send('json', '{')).toBe(0);
    expect(runs).toEqual([]);
    expect(target.taken[0].data['dead-letter-reason']).toBe('undecodable');
  });

  it.each([
    ['function', 'function', 1],
    ['guard', 'guard', 0],
    ['pipe', 'pipe', 0],
    ['filter', 'filter', 1],
  ] as const)('a policy function sees what was thrown (%s)', async (topic, message, ran) => {
    fails = 1;
    await send(topic);
    expect(failures).toHaveLength(1);
    expect(failures[0].masked).toBe(false);
    expect(failures[0].error).toBeInstanceOf(Broken);
    expect((failures[0].error as Error).message).toBe(message);
    expect(failures[0]).toMatchObject({ kind: 'handler', topic, attempt: 1, run: 1, qos: 1, request: false });
    expect(runs).toHaveLength(ran);
  });

  it('an RpcException is seen as it is', async () => {
    await send('rpc');
    expect(failures[0].error).toBeInstanceOf(RpcException);
  });

  it('plain decorators: masked, and said so', async () => {
    fails = 1;
    await send('plain');
    expect(failures[0]).toMatchObject({ masked: true, error: { message: 'Internal server error' } });
  });

  it('a policy function decides: retry with its delay, then something else', async () => {
    fails = 2;
    decision = Promise.resolve({ action: 'retry' as const, delayMs: 1 });
    expect(await send('function')).toBe(0);
    expect(runs).toHaveLength(3);
    expect(failures.map(({ run }) => run)).toEqual([1, 2]);
  });

  it('a policy function that fails means redeliver', async () => {
    fails = 1;
    decision = Promise.reject(new Error('policy'));
    running.broker.publish('function', 'x', { qos: 1 });
    await until(() => running.strategy.stats.held === 1);
    expect(running.broker.log.received('puback')).toEqual([]);
    expect(running.logged.some((line) => line.includes('policy'))).toBe(true);
  });

  it.each([
    ['discrd', /'discrd'.*Did you mean 'discard'/],
    [{ action: 'discrd' }, /action.*Did you mean 'discard'/],
    [5, /decision/],
    [{ action: 'retry', delayMs: -1 }, /delayMs/],
    [{ action: 'retry', delayMs: 'soon' }, /delayMs/],
    [{ action: 'reject', reasonCode: 7 }, /reasonCode/],
  ])(
    'a policy function that gives %j, now or later: redeliver, and the log says what is allowed',
    async (given, said) => {
      for (const [index, value] of [given, Promise.resolve(given)].entries()) {
        fails = 1;
        decision = value as never;
        running.broker.publish('function', 'x', { qos: 1 });
        await until(() => running.strategy.stats.held === index + 1);
        expect(running.logged.filter((line) => said.test(line))).toHaveLength(index + 1);
      }
      expect(running.broker.log.received('puback')).toEqual([]);
    },
  );

  it('ctx.retryLater(): again, whatever it returned', async () => {
    expect(await send('later')).toBe(0);
    expect(runs).toEqual(['later', 'later', 'later']);
  });

  it('ctx.deadLetter(): with its reason', async () => {
    expect(await send('by-hand')).toBe(0);
    expect(target.taken[0].data['dead-letter-reason']).toBe('not wanted');
  });

  it('ctx.reject(): with its code', async () => {
    expect(await send('refuse-by-hand')).toBe(0x97);
  });

  it('handlerTimeout: the signal aborts with the error, the run failed', async () => {
    expect(await send('slow')).toBe(0);
    expect(runs).toEqual(['aborted']);
    expect(failures[0]).toMatchObject({ kind: 'timeout', error: { code: 'ERR_HANDLER_TIMEOUT' } });
    expect((failures[0].error as TransportError).message).toContain("'slow'");
  });

  it('halt: intake stops, health is down, resume() runs the message again', async () => {
    fails = 1;
    running.broker.publish('halt', 'x', { qos: 1 });
    await until(() => running.strategy.state === 'halted');
    running.broker.publish('discard', 'behind', { qos: 1 });
    await settled();
    expect(runs).toEqual(['halt']);
    expect(running.strategy.health()).toMatchObject({ status: 'down', reason: 'halted by a failure policy' });
    running.strategy.resume();
    await running.broker.log.waitForReceived('puback', 2);
    expect(runs).toEqual(['halt', 'halt', 'discard']);
    expect(running.strategy.state).toBe('connected');
  });
});
