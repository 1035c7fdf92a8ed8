import { Observable, type Subscriber, type TeardownLogic } from 'rxjs';
import { TransportError } from '../errors.js';
import { currentScope, type DeliveryScope, noteEmitFailure, runInScope, type TrackedEmit } from './delivery-scope.js';

/** What an emission tells the proxy it came from. */
export interface EmissionOwner {
  /** `unattended`: no scope of a delivery answers for it. Called once, after the subscribers and the scope were told. */
  emissionSettled(emission: Emission<unknown>, unattended: boolean): void;
  /** It was emitted by a handler whose delivery was settled already. */
  emittedLate(emission: Emission<unknown>, handler: string): void;
}

/** Takes an emission back: true if nothing of it was written, and it will be told so with ERR_ABORTED. */
export interface CancelHandle {
  cancel(): boolean;
}

/**
 * What `emit()` returns: hot, one value and completion, or one error, the same for late subscribers. One object per emit:
 * it is the Observable, the entry of the delivery's scope and the record of the outcome.
 */
export class Emission<T> extends Observable<T> implements TrackedEmit {
  /** Somebody subscribed. */
  observed = false;
  error: unknown = undefined;
  value: T | undefined = undefined;
  state: 'pending' | 'stored' | 'failed' = 'pending';
  /** Set by the proxy once there is something that can be taken back. */
  handle: CancelHandle | undefined = undefined;

  private scope: DeliveryScope | undefined = undefined;
  private subscribers: Subscriber<T> | Set<Subscriber<T>> | undefined = undefined;

  /**
   * @param owner the proxy, or an inner part of it
   * @param pattern as given to `emit()`, normalised
   * @param holds whether the acknowledgement of the delivery that emits it waits for it
   */
  constructor(
    private readonly owner: EmissionOwner,
    readonly pattern: string,
    holds: boolean,
  ) {
    super(subscribe as (this: Observable<T>, subscriber: Subscriber<T>) => TeardownLogic);
    if (!holds) return;
    const scope = currentScope();
    if (scope === undefined) return;
    if (scope.track(this)) this.scope = scope;
    else owner.emittedLate(this, scope.handler);
  }

  succeed(value: T): void {
    if (this.state !== 'pending') return;
    this.state = 'stored';
    this.value = value;
    this.settle();
  }

  fail(error: unknown): void {
    if (this.state !== 'pending') return;
    this.state = 'failed';
    this.error = error;
    noteEmitFailure(error);
    this.settle();
  }

  cancel(): boolean {
    return this.state === 'pending' && this.handle !== undefined && this.handle.cancel();
  }

  /** For callers that want a promise; marks it as observed. */
  outcome(): Promise<T> {
    return new Promise((resolve, reject) => {
      this.subscribe({ next: resolve, error: reject });
    });
  }

  /** @internal */
  attach(subscriber: Subscriber<T>): (() => void) | undefined {
    this.observed = true;
    if (this.state !== 'pending') {
      this.deliver(subscriber);
      return undefined;
    }
    if (this.subscribers === undefined) this.subscribers = subscriber;
    else if (this.subscribers instanceof Set) this.subscribers.add(subscriber);
    else this.subscribers = new Set([this.subscribers, subscriber]);
    return () => this.detach(subscriber);
  }

  private detach(subscriber: Subscriber<T>): void {
    if (this.subscribers === subscriber) this.subscribers = undefined;
    else if (this.subscribers instanceof Set) this.subscribers.delete(subscriber);
  }

  /** Subscribers first: what they emit in turn still belongs to the delivery. */
  private settle(): void {
    const { scope, subscribers } = this;
    this.scope = this.subscribers = this.handle = undefined;
    if (subscribers !== undefined) {
      if (scope === undefined) this.deliverAll(subscribers);
      else runInScope(scope, () => this.deliverAll(subscribers));
    }
    scope?.emitSettled(this, this.state === 'failed' ? { error: this.error } : undefined);
    this.owner.emissionSettled(this, scope === undefined);
  }

  private deliverAll(subscribers: Subscriber<T> | Set<Subscriber<T>>): void {
    if (subscribers instanceof Set) for (const subscriber of [...subscribers]) this.deliver(subscriber);
    else this.deliver(subscribers);
  }

  private deliver(subscriber: Subscriber<T>): void {
    if (this.state === 'failed') {
      subscriber.error(this.error);
    } else {
      subscriber.next(this.value as T);
      subscriber.complete();
    }
  }
}

/** One function for all: rxjs calls it with the Observable as `this`. */
function subscribe(this: Emission<unknown>, subscriber: Subscriber<unknown>): TeardownLogic {
  return this.attach(subscriber);
}

/** The error of an emission that was taken back before it was written. */
export function takenBack(pattern: string): TransportError {
  return new TransportError('ERR_ABORTED', `emit('${pattern}'): taken back before it was written`, { retriable: true });
}
