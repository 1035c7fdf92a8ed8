import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock, systemClock } from '../net/clock.js';
import { type EmitScope } from './emit-scope.js';

/**
 * Which run of a handler an `emit()` belongs to, and what that emit means for the acknowledgement of the delivery.
 *
 * - An emit without an outcome when the handler's result completes holds the acknowledgement; if it fails, the run failed,
 *   whether somebody subscribed to it or not.
 * - An emit that failed before that fails the run only if nobody subscribed to it: otherwise it was the handler's to judge.
 * - The scope closes when the run ends and drops what it held. A later emit is sent, and holds nothing.
 */
export class DeliveryScope implements EmitScope {
  /** Emits without an outcome. */
  pending = 0;
  /** The run that this scope is of; told what was thrown before an exception filter makes something else of it. */
  owner: FailureRecorder | undefined = undefined;

  private closed = false;
  private resultCompleted = false;
  /** Most runs emit once: the first open emit needs no set. */
  private first: TrackedEmit | undefined = undefined;
  private others: Set<TrackedEmit> | undefined = undefined;
  private failedEarlier: TrackedEmit[] | undefined = undefined;
  private failedLate: { readonly error: unknown } | undefined = undefined;
  private idleCallback: (() => void) | undefined = undefined;
  private pendingSince = 0;
  private pendingMs = 0;

  constructor(
    /** The handler by name, for warnings. */
    readonly handler: string,
    private readonly clock: Clock = systemClock,
  ) {}

  run(fn: () => void): void {
    shared.storage.run(this, fn);
  }

  /** Takes an emit in; `emitSettled()` must follow once. False: the scope is closed, the emit holds nothing. */
  track(emit: TrackedEmit): boolean {
    if (this.closed) return false;
    if (this.pending === 0) this.pendingSince = this.clock.now();
    this.pending += 1;
    if (this.first === undefined) this.first = emit;
    else (this.others ??= new Set()).add(emit);
    return true;
  }

  /** The outcome of a tracked emit; `failure` undefined: it was stored. */
  emitSettled(emit: TrackedEmit, failure: { readonly error: unknown } | undefined): void {
    if (this.first === emit) this.first = undefined;
    else if (this.others?.delete(emit) !== true) return;
    if (this.closed) return;
    if (failure !== undefined) {
      if (this.resultCompleted) this.failedLate ??= failure;
      else (this.failedEarlier ??= []).push(emit);
    }
    this.pending -= 1;
    if (this.pending > 0) return;
    this.pendingMs += this.clock.now() - this.pendingSince;
    const callback = this.idleCallback;
    this.idleCallback = undefined;
    callback?.();
  }

  /** The handler's result is complete: from now on a failing emit fails the run whoever subscribed to it. */
  complete(): void {
    this.resultCompleted = true;
  }

  whenIdle(callback: () => void): void {
    this.resultCompleted = true;
    if (this.pending === 0) callback();
    else this.idleCallback = callback;
  }

  observedFailure(): { readonly error: unknown } | undefined {
    const last = this.failedEarlier?.at(-1);
    return last === undefined ? this.failedLate : { error: last.error };
  }

  failure(): { readonly error: unknown } | undefined {
    if (this.failedLate !== undefined) return this.failedLate;
    const unobserved = this.failedEarlier?.find((emit) => !emit.observed);
    return unobserved === undefined ? undefined : { error: unobserved.error };
  }

  stoppedMs(now: number): number {
    return this.pendingMs + (this.pending > 0 ? now - this.pendingSince : 0);
  }

  cancelUnwritten(): void {
    const open = [...(this.first === undefined ? [] : [this.first]), ...(this.others ?? [])];
    for (const emit of open) emit.cancel();
  }

  close(): void {
    this.closed = true;
    this.pending = 0;
    this.first = this.others = this.failedEarlier = this.idleCallback = undefined;
  }
}

/** Takes note of what was thrown. */
export interface FailureRecorder {
  recordFailure(error: unknown): void;
}

/** An emit as the scope sees it. */
export interface TrackedEmit {
  /** Somebody subscribed to it. */
  readonly observed: boolean;
  /** Why it failed, if it did. */
  readonly error: unknown;
  /** Takes it back if it was not written yet; then it fails with ERR_ABORTED at once. False: it was written. */
  cancel(): boolean;
}

/** Copies of this package in one process (two versions, or ESM and CJS) see each other's scopes and proxies. */
interface Shared {
  readonly storage: AsyncLocalStorage<DeliveryScope>;
  proxies: number;
  readonly warnedHandlers: Set<string>;
  /** What emits failed with; a copy of an earlier version knows none. */
  emitFailures?: WeakSet<object>;
}

const KEY = Symbol.for('nestjs-mqtt-pulsar/delivery-scope');
const globals = globalThis as unknown as Record<symbol, Shared | undefined>;
const shared = (globals[KEY] ??= { storage: new AsyncLocalStorage(), proxies: 0, warnedHandlers: new Set() });

/** The scope that the running code belongs to; `undefined` outside a handler and while no proxy exists. */
export function currentScope(): DeliveryScope | undefined {
  return shared.proxies === 0 ? undefined : shared.storage.getStore();
}

/** Runs `fn` as code of that scope: what it emits, and what it leads to, belongs there. */
export function runInScope<T>(scope: DeliveryScope, fn: () => T): T {
  return shared.storage.run(scope, fn);
}

/** Notes `error` for the run that the running code belongs to, if it belongs to one. */
export function recordFailureInScope(error: unknown): void {
  shared.storage.getStore()?.owner?.recordFailure(error);
}

/** An emit failed with this error: whoever throws it on, now or later, failed because of the sink. */
export function noteEmitFailure(error: unknown): void {
  if (typeof error === 'object' && error !== null) (shared.emitFailures ??= new WeakSet()).add(error);
}

export function isEmitFailure(error: object): boolean {
  return shared.emitFailures?.has(error) === true;
}

/** Runs `fn` as code of no scope: what settles a delivery is not the handler's. */
export function runOutsideScopes<T>(fn: () => T): T {
  return shared.storage.exit(fn);
}

/** Async context tracking costs every promise of the process, so scopes are opened only if something can be tracked. */
export function proxiesExist(): boolean {
  return shared.proxies > 0;
}

/** Called by each proxy of this package when it is made. */
export function proxyCreated(): void {
  shared.proxies += 1;
}

/** True once per handler name: the first late emit is worth a warning, the others are counted. */
export function firstLateEmitOf(handler: string): boolean {
  if (shared.warnedHandlers.has(handler)) return false;
  shared.warnedHandlers.add(handler);
  return true;
}
