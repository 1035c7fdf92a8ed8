import { type BaseRpcContext, type MessageHandler, type Transport } from '@nestjs/microservices';
import { isObservable, type Unsubscribable } from 'rxjs';
import { isPromiseLike } from './promise-like.js';

/**
 * How a Nest handler ended, for any transport.
 *
 * A handler that fails does not reject: Nest's proxy resolves to an Observable that errors; and an Observable is not
 * finished with its first value. So what the handler gives is subscribed to, once, up to its end:
 *
 * | the handler (or the exception filter) gives | outcome |
 * |---|---|
 * | a value, a fulfilled promise | succeeded, one value |
 * | an Observable that completes, with or without values | succeeded |
 * | an Observable that errors (what Nest makes of every thrown error), a rejection | failed |
 * | an Observable or promise that does not end | none: the caller's timeout decides and cancels |
 */
export interface OutcomeSink {
  /** Kept here while something of the handler is open that `cancelOutcome()` can end. */
  outcome: Unsubscribable | undefined;
  /** A value of the handler: one for a plain result, each item of an Observable. */
  handlerValue(value: unknown): void;
  /** The handler ended well. `handlerSucceeded` or `handlerFailed` is called at most once. */
  handlerSucceeded(): void;
  handlerFailed(error: unknown): void;
}

/** Nest's processing hooks of one server; `start` undefined: nobody set one. */
export interface ProcessingHooks {
  readonly transportId: Transport | symbol;
  readonly start:
    ((transportId: Transport | symbol, context: unknown, done: () => Promise<unknown>) => unknown) | undefined;
  readonly end: ((transportId: Transport | symbol, context: unknown) => unknown) | undefined;
}

/** Runs `handler` and tells `sink` how it ended. Never throws. */
export function runHandler(
  handler: MessageHandler,
  data: unknown,
  context: BaseRpcContext,
  hooks: ProcessingHooks | undefined,
  sink: OutcomeSink,
): void {
  if (hooks === undefined) invoke(handler, data, context, sink);
  else new HookedRun(handler, data, context, hooks, sink).begin();
}

/** Ends what the handler left open: its Observable is unsubscribed. The sink is not called. */
export function cancelOutcome(sink: OutcomeSink): void {
  const open = sink.outcome;
  sink.outcome = undefined;
  open?.unsubscribe();
}

function invoke(handler: MessageHandler, data: unknown, context: BaseRpcContext, sink: OutcomeSink): void {
  let result: unknown;
  try {
    result = handler(data, context);
  } catch (error) {
    sink.handlerFailed(error);
    return;
  }
  if (isPromiseLike(result)) {
    result.then(
      (value) => settle(value, sink),
      (error: unknown) => sink.handlerFailed(error),
    );
  } else {
    settle(result, sink);
  }
}

function settle(result: unknown, sink: OutcomeSink): void {
  if (!isObservable(result)) {
    sink.handlerValue(result);
    sink.handlerSucceeded();
    return;
  }
  let ended = false;
  const subscription = result.subscribe({
    next: (value) => sink.handlerValue(value),
    error: (error: unknown) => {
      ended = true;
      sink.outcome = undefined;
      sink.handlerFailed(error);
    },
    complete: () => {
      ended = true;
      sink.outcome = undefined;
      sink.handlerSucceeded();
    },
  });
  if (!ended) sink.outcome = subscription;
}

/**
 * A run between the two processing hooks. The outcome is taken inside `done`, whatever the start hook returns or awaits:
 * a hook of type `=> void` may call `done` and return before the handler has run. The end hook is called exactly once.
 */
class HookedRun implements OutcomeSink, Unsubscribable {
  outcome: Unsubscribable | undefined = undefined;
  private begun: Promise<void> | undefined;
  private finish: () => void = () => undefined;
  private ended = false;

  constructor(
    private readonly handler: MessageHandler,
    private readonly data: unknown,
    private readonly context: BaseRpcContext,
    private readonly hooks: ProcessingHooks,
    private readonly sink: OutcomeSink,
  ) {}

  begin(): void {
    this.sink.outcome = this;
    if (this.hooks.start === undefined) {
      void this.done();
      return;
    }
    try {
      const returned = this.hooks.start(this.hooks.transportId, this.context, () => this.done());
      if (isPromiseLike(returned)) returned.then(undefined, (error: unknown) => this.hookFailed(error));
    } catch (error) {
      this.hookFailed(error);
    }
  }

  handlerValue(value: unknown): void {
    if (!this.ended) this.sink.handlerValue(value);
  }

  handlerSucceeded(): void {
    if (this.end()) this.sink.handlerSucceeded();
  }

  handlerFailed(error: unknown): void {
    if (this.end()) this.sink.handlerFailed(error);
  }

  /** Cancelled: a start hook that has not called `done` yet finds the run over. */
  unsubscribe(): void {
    cancelOutcome(this);
    this.begun ??= Promise.resolve();
    this.end();
  }

  /** The promise is fulfilled when the handler ended, well or not: a hook that drops it leaves no unhandled rejection. */
  private done(): Promise<void> {
    if (this.begun === undefined) {
      this.begun = new Promise((resolve) => (this.finish = resolve));
      invoke(this.handler, this.data, this.context, this);
    }
    return this.begun;
  }

  /** A start hook that fails before it called `done` kept the handler from running: that is a failure of the run. */
  private hookFailed(error: unknown): void {
    if (this.begun !== undefined) return;
    this.begun = Promise.resolve();
    this.handlerFailed(error);
  }

  private end(): boolean {
    if (this.ended) return false;
    this.ended = true;
    if (this.sink.outcome === this) this.sink.outcome = undefined;
    this.finish();
    try {
      this.hooks.end?.(this.hooks.transportId, this.context);
    } catch {
      // The hook belongs to a tracer: its failure says nothing about the message.
    }
    return true;
  }
}
