import { isTransportError, type TransportError } from '../errors.js';
import { isEmitFailure } from './delivery-scope.js';
import { type Failure } from './failure-policy.js';

/**
 * What a held delivery waits for:
 * - `handler`: for the controlled reconnect, after which the broker sends it again
 * - `sink`: until the place it emits to takes messages again; every other message would meet the same, so the intake pauses
 * - `call`: something else of this package was asked and gave no answer (a `send()`, say). `deadLetter`: its target did not
 *   take it. No reconnect cures these either, but they are no reason to stop everything
 * - `message`: the fault is in this message alone, which runs again after the interval from the copy we hold
 * - `halted`: for `resume()`
 */
export type HoldReason = 'handler' | 'sink' | 'message' | 'call' | 'deadLetter' | 'halted';

/**
 * Why a delivery is held whose handlers failed like this. A reconnect to the MQTT broker is only for what fails in the users'
 * own code: where an emit of a proxy of this package failed, or was thrown on (also as the `cause` of another error), whether
 * it may be repeated or not, the sink is what failed.
 */
export function holdReason(failures: readonly Pick<Failure, 'kind' | 'error'>[]): HoldReason {
  const reasons = failures.map(reasonOf);
  return STRONGEST_FIRST.find((reason) => reasons.includes(reason)) ?? 'handler';
}

const STRONGEST_FIRST: readonly HoldReason[] = ['sink', 'handler', 'call', 'message'];

function reasonOf({ kind, error }: Pick<Failure, 'kind' | 'error'>): HoldReason {
  if (kind === 'undecodable') return 'message';
  // Its clock stands still while an emit is pending: what took so long was something else.
  if (kind === 'timeout') return 'handler';
  const cause = causeOfOurs(error);
  if (kind === 'emit' || (cause !== undefined && isEmitFailure(cause))) {
    // What is no error of ours comes from a serializer of the user's, or a hook.
    return isTransportError(cause) && !MESSAGE_BOUND.has(cause.code) ? 'sink' : 'message';
  }
  if (!isTransportError(cause)) return 'handler';
  if (MESSAGE_BOUND.has(cause.code)) return 'message';
  return cause.retriable ? 'call' : 'sink';
}

/** The first in the chain of causes that comes from this package. */
function causeOfOurs(error: unknown): TransportError | object | undefined {
  let each = error;
  for (let depth = 0; depth < MAX_DEPTH && typeof each === 'object' && each !== null; depth += 1) {
    if (isEmitFailure(each) || isTransportError(each)) return each;
    // Nest's RpcException wraps an error without naming it as its cause.
    const { cause, error: wrapped } = each as { cause?: unknown; error?: unknown };
    each = cause ?? wrapped;
  }
  return undefined;
}

const MAX_DEPTH = 8;

/** Errors that other messages need not meet. */
const MESSAGE_BOUND: ReadonlySet<string> = new Set([
  'ERR_MESSAGE_TOO_LARGE',
  'ERR_SERIALIZATION',
  'ERR_LOCAL_PROTOCOL',
  'ERR_OPTIONS',
  'ERR_SEQUENCE',
  'ERR_DEDUPLICATED',
  'ERR_ABORTED',
  'ERR_PUBLISH',
  // A topic name that a message's own data led to, a call that our proxies do not have.
  'ERR_TOPIC',
  'ERR_NOT_SUPPORTED',
]);
