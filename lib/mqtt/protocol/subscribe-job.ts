import { type TransportError } from '../../errors.js';
import { type Subscription, type SubscriptionGrant, type UnsubscribeResult } from './types.js';

/** One `subscribe()` call: settled when every filter has its answer. */
export class SubscribeJob {
  error: TransportError | undefined = undefined;
  readonly grants: SubscriptionGrant[];
  remaining: number;

  constructor(
    readonly requests: readonly Subscription[],
    /** The driver's own: whom to tell. Undefined for a subscription the session renews by itself. */
    readonly token: unknown,
  ) {
    this.grants = new Array<SubscriptionGrant>(requests.length);
    this.remaining = requests.length;
  }

  get kind(): 'subscribed' {
    return 'subscribed';
  }
}

/** One `unsubscribe()` call. */
export class UnsubscribeJob {
  error: TransportError | undefined = undefined;
  readonly results: UnsubscribeResult[];
  remaining: number;

  constructor(
    readonly filters: readonly string[],
    readonly token: unknown,
  ) {
    this.results = new Array<UnsubscribeResult>(filters.length);
    this.remaining = filters.length;
  }

  get kind(): 'unsubscribed' {
    return 'unsubscribed';
  }
}
