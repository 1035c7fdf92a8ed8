import { Catch, Controller, type ExceptionFilter, UseFilters, UseInterceptors } from '@nestjs/common';
import { EventPattern, RpcException } from '@nestjs/microservices';
import { concat, EMPTY, map, NEVER, of, throwError, timer } from 'rxjs';
import { type RunningApp, settled, startApp, until } from './support/app.js';

/** What ran, in order. */
let ran: string[] = [];

@Catch()
class Swallow implements ExceptionFilter {
  catch() {
    return of('handled');
  }
}
@Catch()
class SwallowAsync implements ExceptionFilter {
  async catch() {
    return 'handled';
  }
}
@Catch()
class Undecided implements ExceptionFilter {
  catch() {
    return undefined;
  }
}
@Catch()
class Rethrow implements ExceptionFilter {
  catch(error: Error): never {
    throw error;
  }
}
class Plain {
  intercept(_context: unknown, next: { handle: () => import('rxjs').Observable<unknown> }) {
    return next.handle().pipe(map((value) => value));
  }
}

@Controller()
class Handlers {
  @EventPattern<string>('value')
  value() {
    return 'done';
  }
  @EventPattern<string>('nothing')
  nothing() {
    ran.push('nothing');
  }
  @EventPattern<string>('promise')
  async promise() {
    await Promise.resolve();
  }
  @EventPattern<string>('empty')
  empty() {
    return EMPTY;
  }
  @EventPattern<string>('late-effect')
  lateEffect() {
    return concat(of(1), timer(30).pipe(map(() => ran.push('effect'))));
  }
  @EventPattern<string>('filter-of')
  @UseFilters(Swallow)
  filterOf() {
    throw new Error('swallowed');
  }
  @EventPattern<string>('filter-async')
  @UseFilters(SwallowAsync)
  filterAsync() {
    throw new Error('swallowed');
  }
  @EventPattern<string>('intercepted')
  @UseInterceptors(Plain)
  intercepted() {
    ran.push('intercepted');
  }

  @EventPattern<string>('sync-throw')
  syncThrow() {
    throw new Error('no');
  }
  @EventPattern<string>('async-throw')
  async asyncThrow() {
    throw new Error('no');
  }
  @EventPattern<string>('rpc')
  rpc() {
    throw new RpcException('no');
  }
  @EventPattern<string>('late-error')
  lateError() {
    return concat(of(1), timer(5).pipe(map(() => {
      throw new Error('no');
    }))); // prettier-ignore
  }
  @EventPattern<string>('observable-error')
  observableError() {
    return throwError(() => new Error('no'));
  }
  @EventPattern<string>('filter-undefined')
  @UseFilters(Undecided)
  filterUndefined() {
    throw new Error('no');
  }
  @EventPattern<string>('filter-throws')
  @UseFilters(Rethrow)
  filterThrows() {
    throw new Error('no');
  }
  @EventPattern<string>('never')
  never() {
    return NEVER;
  }
  @EventPattern<string>('intercepted-throw')
  @UseInterceptors(Plain)
  interceptedThrow() {
    ran.push('intercepted-throw');
    throw new Error('no');
  }
}

describe.each([
  [1, 'puback'],
  [2, 'pubrec'],
] as const)('QoS %i', (qos, acknowledgement) => {
  let running: RunningApp;
  beforeAll(async () => {
    running = await startApp([Handlers], { strategy: { qos, handlerTimeout: 200 } });
  });
  afterAll(() => running.close());
  beforeEach(() => {
    ran = [];
    running.broker.log.clear();
  });

  it.each(['value', 'nothing', 'promise', 'empty', 'filter-of', 'filter-async', 'intercepted', 'late-effect'])(
    '%s is success: acknowledged with 0x00',
    async (topic) => {
      running.broker.publish(topic, 'x', { qos });
      const [packet] = await running.broker.log.waitForReceived(acknowledgement);
      expect(packet.reasonCode ?? 0).toBe(0);
      if (topic === 'late-effect') expect(ran).toEqual(['effect']);
      if (topic === 'intercepted') expect(ran).toEqual(['intercepted']);
    },
  );

  it.each([
    'sync-throw',
    'async-throw',
    'rpc',
    'late-error',
    'observable-error',
    'filter-undefined',
    'filter-throws',
    'intercepted-throw',
  ])('%s is failure: no acknowledgement of any code, the message is held and the log says so', async (topic) => {
    const before = running.strategy.stats.held;
    running.broker.publish(topic, 'x', { qos });
    await until(() => running.strategy.stats.held > before);
    await settled();
    expect(running.broker.log.received(acknowledgement)).toEqual([]);
    expect(running.logged.some((line) => line.includes(`'${topic}'`))).toBe(true);
    if (topic === 'intercepted-throw') expect(ran).toEqual(['intercepted-throw']);
  });

  it('what does not end fails at the handler timeout', async () => {
    const before = running.strategy.stats.timedOut;
    running.broker.publish('never', 'x', { qos });
    await until(() => running.strategy.stats.timedOut > before);
    await settled();
    expect(running.broker.log.received(acknowledgement)).toEqual([]);
  });
});
