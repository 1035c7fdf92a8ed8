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

/** One filter of a job on its way: job and the filter's place in it. */
export interface Part<Job extends SubscribeJob | UnsubscribeJob = SubscribeJob | UnsubscribeJob> {
  readonly job: Job;
  readonly index: number;
  /** Refused once because of the packet identifier. */
  askedAgain?: boolean;
}

export function isSubscribe(part: Part): part is Part<SubscribeJob> {
  return part.job.kind === 'subscribed';
}

export function isUnsubscribe(part: Part): part is Part<UnsubscribeJob> {
  return part.job.kind === 'unsubscribed';
}

export function requestOf(part: Part<SubscribeJob>): Subscription {
  return part.job.requests[part.index];
}

export function filterOf(part: Part): string {
  return isSubscribe(part) ? requestOf(part).filter : (part as Part<UnsubscribeJob>).job.filters[part.index];
}

export function identifierOf(part: Part): number | undefined {
  return isSubscribe(part) ? requestOf(part).subscriptionIdentifier : undefined;
}

/** Refused only for its packet identifier. 3.1.1 cannot say so: there it is likely on a resumed session. */
export function identifierClashes(part: Part, reasonCode: number, version4: boolean, resumed: boolean): boolean {
  if (part.askedAgain === true) return false;
  if (reasonCode === IDENTIFIER_IN_USE) return resumed || isSubscribe(part);
  return version4 && resumed && reasonCode === FAILURE_OF_3_1_1;
}

const IDENTIFIER_IN_USE = 0x91;
const FAILURE_OF_3_1_1 = 0x80;
