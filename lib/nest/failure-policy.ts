import { OptionsError, isTransportError } from '../errors.js';
import { backoffDelay, type BackoffOptions } from '../net/backoff.js';
import { REJECT_CODES, type Directive, type MqttMessageContext } from './mqtt-message.context.js';

/** How a run of a handler failed. */
export interface Failure {
  /** What was thrown; see `masked`. */
  readonly error: unknown;
  /** True: an exception filter made `error`, and nobody recorded what was thrown (`FailureCapture`, `@MqttEvent`). */
  readonly masked: boolean;
  /**
   * - `handler`: it threw, rejected, its Observable errored, its detached handle failed, or `waitUntil` work failed
   * - `emit`: an `emit()` of a proxy of this package failed
   * - `timeout`: not finished within `handlerTimeout`
   * - `undecodable`: the payload could not be decoded; the handler did not run
   */
  readonly kind: 'handler' | 'emit' | 'timeout' | 'undecodable';
  /** Class and method where our decorators are used, else the filter. */
  readonly handler: string;
  readonly pattern: string;
  readonly topic: string;
  readonly qos: 0 | 1 | 2;
  /** The broker's deliveries of this message that ran: 1, 2, ... */
  readonly attempt: number;
  /** Runs in this attempt: 1, 2, ... */
  readonly run: number;
  /** Since this process first received the message, in ms. */
  readonly ageMs: number;
  /** An answer is expected (MQTT 5 Response Topic, or Nest's envelope). */
  readonly request: boolean;
}

/** What happens to a message whose handler failed for good; in words in `FailurePolicyOptions.then`. */
export type FinalStep = 'redeliver' | 'deadLetter' | 'reject' | 'discard' | 'halt';

/** What a policy function decides. `retry` without `delayMs` takes the configured backoff. */
export type FailureDecision =
  | FinalStep
  | 'retry'
  | { readonly action: 'retry'; readonly delayMs?: number }
  | { readonly action: 'deadLetter'; readonly reason?: string }
  | { readonly action: 'reject'; readonly reasonCode?: number }
  | { readonly action: 'redeliver' | 'discard' | 'halt' };

/** Decides per failure; `undefined` means `redeliver`. If it throws or rejects, that is logged and means `redeliver`. */
export type FailureFunction = (
  failure: Failure,
  context: MqttMessageContext,
) => FailureDecision | undefined | Promise<FailureDecision | undefined>;

export interface RetryOptions {
  /** Runs in this process, the first one included. Default 1: no local retry. */
  readonly attempts?: number;
  /** Upper bound of the first delay in ms; the delay is a random share of the bound (full jitter). Default 200. */
  readonly initialDelay?: number;
  /** Upper bound of every delay in ms. Default 30,000. */
  readonly maxDelay?: number;
  /** Growth of the bound. Default 2. */
  readonly factor?: number;
  /** `handlerTimeout` of the runs, in ms. Default: the handler's. */
  readonly perAttemptTimeout?: number;
  /** No further run is started later than this after the first one, in ms. Default 300,000. */
  readonly maxHold?: number;
}

export interface FailurePolicyOptions {
  readonly retry?: RetryOptions | number;
  /**
   * What follows when the runs in this process are used up:
   * - `redeliver` (default): not acknowledged; the broker sends it again after a controlled reconnect
   * - `deadLetter`: sent to the `deadLetter` target; acknowledged on its receipt
   * - `reject`: acknowledged with `rejectReasonCode` (MQTT 5); brokers treat that as done
   * - `discard`: acknowledged with success and counted
   * - `halt`: not acknowledged; intake stops until `resume()`, health is down
   *
   * QoS 0 has no acknowledgement: `redeliver` and `reject` discard it, counted.
   */
  readonly then?: FinalStep;
  /** For `reject`: a PUBACK/PUBREC error code. Default 131 (0x83, implementation specific error). */
  readonly rejectReasonCode?: number;
}

/** A decision in its full form. */
export type ResolvedDecision = Directive | { readonly action: 'redeliver' | 'discard' | 'halt' };

export interface FailurePolicy {
  readonly attempts: number;
  readonly backoff: BackoffOptions;
  readonly perAttemptTimeout: number | undefined;
  readonly maxHold: number;
  readonly then: FinalStep;
  readonly rejectReasonCode: number;
  readonly decide: FailureFunction | undefined;
}

export const DEFAULT_FAILURE_POLICY: FailurePolicy = {
  attempts: 1,
  backoff: { initial: 200, max: 30_000, factor: 2 },
  perAttemptTimeout: undefined,
  maxHold: 300_000,
  then: 'redeliver',
  rejectReasonCode: 0x83,
  decide: undefined,
};

/** What the table of options says about a failure. Retrying cannot cure a payload that does not decode. */
export function decideByTable(policy: FailurePolicy, failure: Failure, random: number): ResolvedDecision {
  if (failure.kind !== 'undecodable' && failure.run < policy.attempts) {
    return { action: 'retry', delayMs: backoffDelay(policy.backoff, failure.run - 1, random) };
  }
  return fullForm(policy.then, policy, failure, random);
}

/** Completes what a policy function gave. */
export function fullForm(
  decision: FailureDecision | undefined,
  policy: FailurePolicy,
  failure: Failure,
  random: number,
): ResolvedDecision {
  const given = typeof decision === 'string' ? { action: decision } : (decision ?? { action: 'redeliver' as const });
  switch (given.action) {
    case 'retry': {
      const delayMs = 'delayMs' in given ? given.delayMs : undefined;
      return { action: 'retry', delayMs: delayMs ?? backoffDelay(policy.backoff, failure.run - 1, random) };
    }
    case 'reject': {
      const code = 'reasonCode' in given ? given.reasonCode : undefined;
      return {
        action: 'reject',
        reasonCode: code !== undefined && REJECT_CODES.has(code) ? code : policy.rejectReasonCode,
      };
    }
    case 'deadLetter':
      return { action: 'deadLetter', reason: 'reason' in given ? given.reason : undefined };
    case 'redeliver':
    case 'discard':
    case 'halt':
      return { action: given.action };
  }
}

/**
 * What a failure says about the sink:
 * - `down`: an error of our proxies that no repetition cures and that every message would meet (terminated, fenced,
 *   refused, closed): reconnecting to the MQTT broker cannot help, taking in more cannot either
 * - `message`: an error of our proxies about this message alone (too large, not serializable): no reconnect
 * - `none`: everything else
 */
export function sinkVerdict(failure: Failure): 'none' | 'message' | 'down' {
  if (failure.kind === 'undecodable') return 'message';
  if (failure.kind === 'timeout' || !isTransportError(failure.error) || failure.error.retriable) return 'none';
  return MESSAGE_BOUND.has(failure.error.code) ? 'message' : 'down';
}

const MESSAGE_BOUND: ReadonlySet<string> = new Set([
  'ERR_MESSAGE_TOO_LARGE',
  'ERR_SERIALIZATION',
  'ERR_LOCAL_PROTOCOL',
  'ERR_OPTIONS',
  'ERR_SEQUENCE',
  'ERR_DEDUPLICATED',
  'ERR_ABORTED',
  'ERR_PUBLISH',
]);

/** @throws OptionsError */
export function resolveFailurePolicy(
  given: FailurePolicyOptions | FailureFunction | undefined,
  path: string,
  base: FailurePolicy = DEFAULT_FAILURE_POLICY,
): FailurePolicy {
  if (given === undefined) return base;
  if (typeof given === 'function') return { ...base, decide: given };
  expectObject(given, path, ['retry', 'then', 'rejectReasonCode']);
  const retry = typeof given.retry === 'number' ? { attempts: given.retry } : (given.retry ?? {});
  expectObject(retry, `${path}.retry`, RETRY_KEYS);
  if (retry.attempts !== undefined && !(Number.isInteger(retry.attempts) && retry.attempts >= 1)) {
    throw new OptionsError(
      `${path}.retry.attempts`,
      'a whole number >= 1 (the first run included)',
      show(retry.attempts),
    );
  }
  for (const key of ['initialDelay', 'maxDelay', 'perAttemptTimeout', 'maxHold'] as const) {
    const value = retry[key];
    if (value !== undefined && !(typeof value === 'number' && value > 0)) {
      throw new OptionsError(`${path}.retry.${key}`, 'milliseconds > 0', show(value));
    }
  }
  if (retry.factor !== undefined && !(retry.factor >= 1)) {
    throw new OptionsError(`${path}.retry.factor`, 'a number >= 1', show(retry.factor));
  }
  if (given.then !== undefined && !FINAL_STEPS.includes(given.then)) {
    throw new OptionsError(`${path}.then`, `one of ${FINAL_STEPS.join(', ')}`, show(given.then));
  }
  if (given.rejectReasonCode !== undefined && !REJECT_CODES.has(given.rejectReasonCode)) {
    throw new OptionsError(
      `${path}.rejectReasonCode`,
      `an error code of PUBACK and PUBREC (${[...REJECT_CODES].join(', ')})`,
      show(given.rejectReasonCode),
    );
  }
  return {
    attempts: retry.attempts ?? base.attempts,
    backoff: {
      initial: retry.initialDelay ?? base.backoff.initial,
      max: retry.maxDelay ?? base.backoff.max,
      factor: retry.factor ?? base.backoff.factor,
    },
    perAttemptTimeout: retry.perAttemptTimeout ?? base.perAttemptTimeout,
    maxHold: retry.maxHold ?? base.maxHold,
    then: given.then ?? base.then,
    rejectReasonCode: given.rejectReasonCode ?? base.rejectReasonCode,
    decide: undefined,
  };
}

const FINAL_STEPS: readonly string[] = ['redeliver', 'deadLetter', 'reject', 'discard', 'halt'];
const RETRY_KEYS = ['attempts', 'initialDelay', 'maxDelay', 'factor', 'perAttemptTimeout', 'maxHold'];

function expectObject(value: unknown, path: string, keys: readonly string[]): void {
  if (typeof value !== 'object' || value === null) {
    throw new OptionsError(path, `an object with ${keys.join(', ')}, or a function`, show(value));
  }
  for (const key of Object.keys(value)) {
    if (!keys.includes(key)) throw new OptionsError(`${path}.${key}`, `one of ${keys.join(', ')}`, 'an unknown option');
  }
}

function show(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}
