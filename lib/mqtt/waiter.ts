import { type SubscribeJob, type UnsubscribeJob } from './protocol/subscribe-job.js';

/** The ends of a promise. */
export interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

/** Tells the caller of `subscribe()` or `unsubscribe()`; nobody waits for what the session renewed by itself. */
export function settleJob(job: SubscribeJob | UnsubscribeJob): void {
  if (job.token === undefined) return;
  const waiter = job.token as Waiter<readonly unknown[]>;
  if (job.error !== undefined) waiter.reject(job.error);
  else waiter.resolve(job.kind === 'subscribed' ? job.grants : job.results);
}
