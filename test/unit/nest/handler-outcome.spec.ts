import { BaseRpcContext, type MessageHandler } from '@nestjs/microservices';
import { concat, EMPTY, type Observable, NEVER, Observable as Rx, of, throwError, type Unsubscribable } from 'rxjs';
import {
  cancelOutcome,
  type OutcomeSink,
  type ProcessingHooks,
  runHandler,
} from '../../../lib/nest/handler-outcome.js';

/** Writes down what it is told. */
class Sink implements OutcomeSink {
  outcome: Unsubscribable | undefined = undefined;
  readonly told: string[] = [];
  handlerValue(value: unknown) {
    this.told.push(`value ${String(value)}`);
  }
  handlerSucceeded() {
    this.told.push('succeeded');
  }
  handlerFailed(error: unknown) {
    this.told.push(`failed ${(error as Error).message}`);
  }
}

const context = new BaseRpcContext([]);
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const no = new Error('no');

const ROWS: readonly (readonly [string, () => unknown, readonly string[]])[] = [
  ['a value', () => 1, ['value 1', 'succeeded']],
  ['nothing', () => undefined, ['value undefined', 'succeeded']],
  ['a promise', () => Promise.resolve(2), ['value 2', 'succeeded']],
  ['a rejection', () => Promise.reject(no), ['failed no']],
  ['an Observable', () => of(1, 2), ['value 1', 'value 2', 'succeeded']],
  ['a promise of an Observable', () => Promise.resolve(of(1)), ['value 1', 'succeeded']],
  ['an empty Observable', () => EMPTY, ['succeeded']],
  ['an Observable that errors', () => throwError(() => no), ['failed no']],
  ['one that errors after a value', () => concat(of(1), throwError(() => no)), ['value 1', 'failed no']], // prettier-ignore
  ['a promise of one that errors', () => Promise.resolve(throwError(() => no)), ['failed no']],
  ['one that does not end', () => concat(of(1), NEVER), ['value 1']],
];
const throwing: MessageHandler = () => {
  throw no;
};

describe.each([
  ['without hooks', undefined],
  ['with both hooks', (_id: unknown, _context: unknown, done: () => Promise<unknown>): void => void done()],
  [
    'with a start hook that waits',
    async (_id: unknown, _context: unknown, done: () => Promise<unknown>): Promise<void> => {
      await Promise.resolve();
      await done();
    },
  ],
] as const)('%s', (_name, start) => {
  let ended = 0;
  const hooks: ProcessingHooks | undefined =
    start === undefined ? undefined : { transportId: Symbol('x'), start, end: () => (ended += 1) };
  beforeEach(() => {
    ended = 0;
  });

  it.each(ROWS)('%s', async (_row, handler, told) => {
    const sink = new Sink();
    runHandler(handler as MessageHandler, 'data', context, hooks, sink);
    await turn();
    expect(sink.told).toEqual(told);
    const over = told.at(-1) !== 'value 1';
    if (hooks !== undefined) expect(ended).toBe(over ? 1 : 0);
    expect(sink.outcome === undefined).toBe(over);
  });

  it('a handler that throws at once', async () => {
    const sink = new Sink();
    runHandler(throwing, 'data', context, hooks, sink);
    await turn();
    expect(sink.told).toEqual(['failed no']);
    if (hooks !== undefined) expect(ended).toBe(1);
  });

  it('is subscribed to once; cancelling unsubscribes, tells the sink nothing and ends the hooks once', async () => {
    let subscriptions = 0;
    let teardowns = 0;
    const stream: Observable<number> = new Rx(() => {
      subscriptions += 1;
      return () => (teardowns += 1);
    });
    const sink = new Sink();
    runHandler((() => stream) as unknown as MessageHandler, 'data', context, hooks, sink);
    await turn();
    cancelOutcome(sink);
    cancelOutcome(sink);
    await turn();
    expect([subscriptions, teardowns, sink.told]).toEqual([1, 1, []]);
    if (hooks !== undefined) expect(ended).toBe(1);
  });
});

describe('hooks that misbehave', () => {
  const run = async (start: NonNullable<ProcessingHooks['start']>, end: ProcessingHooks['end'] = undefined) => {
    const sink = new Sink();
    let ran = 0;
    const handler = (() => (ran += 1)) as unknown as MessageHandler;
    runHandler(handler, 'data', context, { transportId: Symbol('x'), start, end }, sink);
    await turn();
    return { ran, told: sink.told, sink };
  };

  it('done called twice runs the handler once', async () => {
    const { ran, told } = await run((_i, _c, done) => void Promise.all([done(), done()]));
    expect([ran, told]).toEqual([1, ['value 1', 'succeeded']]);
  });

  it('a start hook that fails before done fails the run; the handler does not run', async () => {
    const thrown = await run(() => {
      throw no;
    });
    const rejected = await run(() => Promise.reject(no));
    for (const { ran, told } of [thrown, rejected]) expect([ran, told]).toEqual([0, ['failed no']]);
  });

  it('a start hook that fails after done changes nothing; nor does an end hook that throws', async () => {
    const { told } = await run(
      async (_i, _c, done) => {
        await done();
        throw no;
      },
      () => {
        throw no;
      },
    );
    expect(told).toEqual(['value 1', 'succeeded']);
  });

  it('done after the run was cancelled runs nothing', async () => {
    let late: () => Promise<unknown> = () => Promise.resolve();
    const { sink } = await run((_i, _c, done) => void (late = done));
    cancelOutcome(sink);
    await late();
    expect(sink.told).toEqual([]);
  });
});
