import { OptionsError } from '../errors.js';
import { backoffDelay, type BackoffOptions } from '../net/backoff.js';
import {
  checkOptions,
  describeValue,
  either,
  isPlainObject,
  number,
  object,
  oneOf,
  type OptionSchema,
  required,
  satisfies,
  text,
} from '../option-checks.js';
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

/** Decides per failure; `undefined` means `redeliver`. If it throws, rejects or gives something else, that is logged and means `redeliver`. */
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

/** A handler takes from the strategy's policy what its own does not say. */
export interface FailurePolicyOptions {
  /**
   * Runs in this process before the end, or their number alone. Where a handler gives this without `then`, and the strategy's
   * policy is a function, that function is asked once these runs are used up; what it retries waits as this says.
   */
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
   *
   * A request: the broker must have accepted the error reply before any of these. `redeliver` then means that the requester
   * has its answer: acknowledged with success, not run again. `halt` sends no reply before `resume()`.
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

/** The runs of the table are not used up. Retrying cannot cure a payload that does not decode. */
export function hasRunsLeft(policy: FailurePolicy, failure: Failure): boolean {
  return failure.kind !== 'undecodable' && failure.run < policy.attempts;
}

/** What the table of options says about a failure. */
export function decideByTable(policy: FailurePolicy, failure: Failure, random: number): ResolvedDecision {
  if (hasRunsLeft(policy, failure)) {
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
      return { action: 'reject', reasonCode: code ?? policy.rejectReasonCode };
    }
    case 'deadLetter':
      return { action: 'deadLetter', reason: 'reason' in given ? given.reason : undefined };
    case 'redeliver':
    case 'discard':
    case 'halt':
      return { action: given.action };
  }
}

/** What a policy function gave, if it is a decision. @throws OptionsError naming what is allowed */
export function checkedDecision(given: unknown): FailureDecision | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given === 'string') action('decision', given);
  else
    checkOptions<{ action: string; delayMs: number; reason: string; reasonCode: number }>('decision', given, DECISION);
  return given as FailureDecision;
}

/**
 * @param base the strategy's policy, for what a handler does not say: its function as well, unless the handler says what is
 * done `then`
 * @throws OptionsError
 */
export function resolveFailurePolicy(
  given: FailurePolicyOptions | FailureFunction | undefined,
  path: string,
  base: FailurePolicy = DEFAULT_FAILURE_POLICY,
): FailurePolicy {
  if (given === undefined) return base;
  // It is asked for every failure.
  if (typeof given === 'function') return { ...base, attempts: 1, decide: given };
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    const step = FINAL_STEPS.find((name) => name === (given as unknown));
    const hint = step === undefined ? '' : ` (write { then: '${step}' })`;
    throw new OptionsError(
      path,
      `an object with ${Object.keys(POLICY).join(', ')}, or a function${hint}`,
      describeValue(given),
    );
  }
  checkOptions<FailurePolicyOptions>(path, given, POLICY);
  const retry = typeof given.retry === 'number' ? { attempts: given.retry } : (given.retry ?? {});
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
    decide: given.then === undefined ? base.decide : undefined,
  };
}

const FINAL_STEPS: readonly FinalStep[] = ['redeliver', 'deadLetter', 'reject', 'discard', 'halt'];
const positive = satisfies(
  'milliseconds > 0, up to 2147483647',
  (value) => typeof value === 'number' && value > 0 && value < 2 ** 31,
);
const attempts = satisfies(
  'a whole number >= 1 (the first run included)',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
);
const RETRY: OptionSchema<RetryOptions> = {
  attempts,
  initialDelay: positive,
  maxDelay: positive,
  factor: number(1, 1_000),
  perAttemptTimeout: positive,
  maxHold: positive,
};
const POLICY: OptionSchema<FailurePolicyOptions> = {
  retry: either(
    'a number of runs, or an object',
    [(value) => typeof value === 'number', (path, value) => attempts(`${path}.attempts`, value)],
    [isPlainObject, object<RetryOptions>(RETRY)],
  ),
  then: oneOf(...FINAL_STEPS),
  rejectReasonCode: oneOf(...REJECT_CODES),
};
const action = oneOf('retry', ...FINAL_STEPS);
const DECISION = {
  action: required(action),
  delayMs: number(0, 2 ** 31 - 1, 'milliseconds'),
  reason: text,
  reasonCode: oneOf(...REJECT_CODES),
};
