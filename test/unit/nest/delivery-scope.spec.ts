import { setImmediate as turn } from 'node:timers/promises';
import {
  currentScope,
  DeliveryScope,
  firstLateEmitOf,
  proxiesExist,
  proxyCreated,
  runInScope,
} from '../../../lib/nest/delivery-scope.js';
import { type Clock, systemClock } from '../../../lib/net/clock.js';

class FakeEmit {
  observed = false;
  error: unknown = undefined;
  cancelled = 0;
  constructor(private readonly scope: DeliveryScope) {
    this.tracked = scope.track(this);
  }
  readonly tracked: boolean;
  stored(): void {
    this.scope.emitSettled(this, undefined);
  }
  fails(message: string): void {
    this.error = new Error(message);
    this.scope.emitSettled(this, { error: this.error });
  }
  cancel(): boolean {
    this.cancelled += 1;
    return true;
  }
}

const messageOf = (failure: { readonly error: unknown } | undefined): string | undefined =>
  failure === undefined ? undefined : (failure.error as Error).message;

describe('DeliveryScope', () => {
  let now = 0;
  const clock: Clock = { ...systemClock, now: () => now };
  let scope: DeliveryScope;

  beforeEach(() => {
    now = 0;
    scope = new DeliveryScope('Ingest.telemetry', clock);
  });

  it('is idle at once without emits', () => {
    let idle = 0;
    scope.whenIdle(() => (idle += 1));
    expect(idle).toBe(1);
    expect(scope.failure()).toBeUndefined();
  });

  it('is idle when the last of several emits has its outcome, once', () => {
    const emits = [new FakeEmit(scope), new FakeEmit(scope), new FakeEmit(scope)];
    let idle = 0;
    scope.whenIdle(() => (idle += 1));
    emits[1].stored();
    emits[0].stored();
    emits[0].stored();
    expect([idle, scope.pending]).toEqual([0, 1]);
    emits[2].stored();
    expect([idle, scope.pending]).toEqual([1, 0]);
    new FakeEmit(scope).stored();
    expect(idle).toBe(1);
  });

  it.each([true, false])('a failure after the result is complete fails the run (observed: %s)', (observed) => {
    const emit = new FakeEmit(scope);
    emit.observed = observed;
    scope.whenIdle(() => undefined);
    emit.fails('late');
    expect(messageOf(scope.failure())).toBe('late');
  });

  it('the same when the completion is announced before other work of the run ends', () => {
    const emit = new FakeEmit(scope);
    emit.observed = true;
    scope.complete();
    emit.fails('late');
    expect(messageOf(scope.failure())).toBe('late');
  });

  it('an earlier failure fails the run only if nobody subscribed, also not later', () => {
    const seen = new FakeEmit(scope);
    const unseen = new FakeEmit(scope);
    seen.observed = true;
    seen.fails('seen');
    expect(scope.failure()).toBeUndefined();
    unseen.fails('unseen');
    expect(messageOf(scope.failure())).toBe('unseen');
    unseen.observed = true;
    scope.complete();
    expect(scope.failure()).toBeUndefined();
  });

  it('counts the time with an open emit', () => {
    const first = new FakeEmit(scope);
    now = 10;
    const second = new FakeEmit(scope);
    now = 25;
    expect(scope.stoppedMs(now)).toBe(25);
    first.stored();
    now = 30;
    second.stored();
    now = 100;
    expect(scope.stoppedMs(now)).toBe(30);
    new FakeEmit(scope);
    now = 105;
    expect(scope.stoppedMs(now)).toBe(35);
  });

  it('asks every open emit to be taken back', () => {
    const emits = [new FakeEmit(scope), new FakeEmit(scope), new FakeEmit(scope)];
    emits[1].stored();
    scope.cancelUnwritten();
    expect(emits.map((emit) => emit.cancelled)).toEqual([1, 0, 1]);
  });

  it('after close() a new emit is not tracked, and an old one changes nothing', () => {
    const old = new FakeEmit(scope);
    let idle = 0;
    scope.whenIdle(() => (idle += 1));
    scope.close();
    expect(new FakeEmit(scope).tracked).toBe(false);
    old.fails('too late');
    expect([idle, scope.pending, scope.failure()]).toEqual([0, 0, undefined]);
  });

  it('belongs to the code it runs and to what that leads to, once a proxy exists', async () => {
    scope.run(() => expect(currentScope()).toBeUndefined());
    expect(proxiesExist()).toBe(false);
    proxyCreated();
    expect(proxiesExist()).toBe(true);
    const other = new DeliveryScope('Other.handler');
    const seen: unknown[] = [];
    scope.run(() => {
      void turn().then(() => seen.push(currentScope()));
      runInScope(other, () => seen.push(currentScope()));
      seen.push(currentScope());
    });
    await turn();
    await turn();
    expect(seen).toEqual([other, scope, scope]);
    expect(currentScope()).toBeUndefined();
  });

  it('is shared by all copies of the package in the process', async () => {
    const key = Symbol.for('nestjs-mqtt-pulsar/delivery-scope');
    const { storage } = (globalThis as unknown as Record<symbol, { storage: { getStore(): unknown } }>)[key];
    scope.run(() => expect(storage.getStore()).toBe(scope));
  });

  it('names a handler for a warning once', () => {
    expect([firstLateEmitOf('A.a'), firstLateEmitOf('B.b'), firstLateEmitOf('A.a')]).toEqual([true, true, false]);
  });
});
