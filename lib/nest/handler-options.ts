import { OptionsError } from '../errors.js';
import { type MqttMessage, type Qos } from '../mqtt/index.js';
import {
  boolean,
  checkOptions,
  describeValue,
  either,
  integer,
  milliseconds,
  nearestName,
  object,
  oneOf,
  type OptionSchema,
  required,
  satisfies,
} from '../option-checks.js';
import {
  type FailureFunction,
  type FailurePolicy,
  type FailurePolicyOptions,
  resolveFailurePolicy,
} from './failure-policy.js';
import { parseJson } from './json-text.js';

/** Makes the first argument of a handler from a message; may return a promise. What it throws is an undecodable payload. */
export type PayloadDecoder = (payload: Buffer, message: MqttMessage) => unknown;

/**
 * What a handler gets as its data:
 * - `raw` (default): the payload bytes, a `Buffer`
 * - `text`: UTF-8 (invalid bytes are an undecodable payload)
 * - `json`: the parsed JSON text; an object is never taken for a Nest envelope
 * - a function
 */
export type PayloadFormat = 'raw' | 'text' | 'json' | PayloadDecoder;

/** One run for many messages. With `order`, one per key: a batch starts early once another message waits for one of its keys. */
export interface BatchOptions {
  /** Messages of a full batch, 1 to the strategy's `concurrency`. */
  readonly size: number;
  /** How long the first message of a batch waits for others, in ms. */
  readonly delay: number;
}

/** What `@MqttEvent()` and `@MqttRequest()` take besides the pattern; `@EventPattern()`'s extras may have the same keys. */
export interface MqttHandlerOptions {
  /** QoS of the subscription: 0, 1 or 2. Default: the strategy's `qos` (1). */
  readonly qos?: Qos;
  /** Subscribes as `$share/<group>/<filter>`; `false`: not shared, whatever the strategy's `sharedGroup` says. */
  readonly sharedGroup?: string | false;
  /** MQTT 5: messages that this client published are not sent to it. Default false. */
  readonly noLocal?: boolean;
  /** MQTT 5: the retain flag stays as it was published. Default false. */
  readonly retainAsPublished?: boolean;
  /** MQTT 5: stored retained messages are sent 0 at every subscribe, 1 at a new subscription only, 2 never. Default 0. */
  readonly retainHandling?: 0 | 1 | 2;
  /** `skip`: messages with the retain flag do not run this handler. Default `deliver`. */
  readonly retained?: 'deliver' | 'skip';
  /** Default: the strategy's `payload`. */
  readonly payload?: PayloadFormat;
  /** ms; 0 = none. Default: the strategy's `handlerTimeout`. */
  readonly handlerTimeout?: number;
  /** ms; 0 = none. Default: the strategy's `detachTimeout`. */
  readonly detachTimeout?: number;
  /**
   * Default: the strategy's `failure`. A function replaces it. So does an object with `then`; one without takes over what it
   * does not say, the strategy's function too, which is asked once the handler's runs are used up.
   */
  readonly failure?: FailurePolicyOptions | FailureFunction;
  /** For event handlers: data and results are arrays, the context is an `MqttBatchContext`. */
  readonly batch?: BatchOptions;
  /**
   * For request handlers: when the request is acknowledged. `onSuccess` (default): after the last reply was accepted by
   * the broker. `onFirstReply`: after the first, for streams without an end.
   */
  readonly acknowledge?: 'onSuccess' | 'onFirstReply';
}

export interface ResolvedHandlerOptions {
  readonly qos: Qos;
  /** As given; `undefined`: the strategy's. */
  readonly sharedGroup: string | false | undefined;
  readonly subscription: { noLocal?: boolean; retainAsPublished?: boolean; retainHandling?: 0 | 1 | 2 };
  readonly retained: 'deliver' | 'skip';
  /** As given; `undefined`: the strategy's. */
  readonly payload: PayloadFormat | undefined;
  /** `undefined`: the bytes as they are. */
  readonly decode: PayloadDecoder | undefined;
  readonly handlerTimeout: number;
  readonly detachTimeout: number;
  readonly failure: FailurePolicy;
  readonly batch: BatchOptions | undefined;
  readonly acknowledge: 'onSuccess' | 'onFirstReply';
}

/** What a handler takes from its strategy where it says nothing itself. */
export interface HandlerDefaults {
  readonly qos: Qos;
  readonly payload: PayloadFormat;
  readonly handlerTimeout: number;
  readonly detachTimeout: number;
  readonly failure: FailurePolicy;
  readonly concurrency: number;
}

/**
 * @param own the options are those of our decorators, so every name must be known; Nest's `extras` may hold what other
 * transports read
 * @throws OptionsError naming the handler and the option
 */
export function resolveHandlerOptions(
  extras: Readonly<Record<string, unknown>>,
  defaults: HandlerDefaults,
  path: string,
  own: boolean,
): ResolvedHandlerOptions {
  const input = own ? extras : knownExtras(extras);
  checkOptions<MqttHandlerOptions>(path, input, SCHEMA);
  const given: MqttHandlerOptions = input;
  if (given.batch !== undefined) checkBatch(given.batch, defaults.concurrency, `${path}.batch`);
  return {
    qos: given.qos ?? defaults.qos,
    sharedGroup: given.sharedGroup,
    subscription: {
      ...(given.noLocal !== undefined && { noLocal: given.noLocal }),
      ...(given.retainAsPublished !== undefined && { retainAsPublished: given.retainAsPublished }),
      ...(given.retainHandling !== undefined && { retainHandling: given.retainHandling }),
    },
    retained: given.retained ?? 'deliver',
    payload: given.payload,
    decode: payloadDecoder(given.payload ?? defaults.payload, `${path}.payload`),
    handlerTimeout: given.handlerTimeout ?? defaults.handlerTimeout,
    detachTimeout: given.detachTimeout ?? defaults.detachTimeout,
    failure: resolveFailurePolicy(given.failure, `${path}.failure`, defaults.failure),
    batch: given.batch,
    acknowledge: given.acknowledge ?? 'onSuccess',
  };
}

/** The group of a shared subscription [MQTT5 4.8.2]. */
export const shareName = satisfies(
  'a group name without /, + and #',
  (value) => typeof value === 'string' && /^[^/+#]+$/.test(value),
);

const SCHEMA: OptionSchema<MqttHandlerOptions> = {
  qos: oneOf(0, 1, 2),
  sharedGroup: either('a group name, or false', [(value) => value === false, () => undefined], [() => true, shareName]),
  noLocal: boolean,
  retainAsPublished: boolean,
  retainHandling: oneOf(0, 1, 2),
  retained: oneOf('deliver', 'skip'),
  payload: (path, value) => void payloadDecoder(value as PayloadFormat, path),
  handlerTimeout: milliseconds(),
  detachTimeout: milliseconds(),
  failure: (path, value) => void resolveFailurePolicy(value as FailurePolicyOptions, path),
  batch: object<BatchOptions>({ size: required(integer(1)), delay: required(milliseconds(1)) }),
  acknowledge: oneOf('onSuccess', 'onFirstReply'),
};

function knownExtras(extras: Readonly<Record<string, unknown>>): Record<string, unknown> {
  // Nest's documentation shows `{ extras: { qos: 2 } }`, Nest's code reads `{ qos: 2 }`: both are understood here.
  const nested = typeof extras['extras'] === 'object' && extras['extras'] !== null ? extras['extras'] : {};
  return Object.fromEntries(Object.entries({ ...nested, ...extras }).filter(([key]) => Object.hasOwn(SCHEMA, key)));
}

/** @throws OptionsError for an unknown format */
export function payloadDecoder(format: PayloadFormat, path: string): PayloadDecoder | undefined {
  if (typeof format === 'function') return format;
  if (!FORMATS.includes(format)) {
    throw new OptionsError(
      path,
      "'raw', 'text', 'json' or a function",
      describeValue(format),
      typeof format === 'string' ? nearestName(format, FORMATS) : undefined,
    );
  }
  return format === 'raw' ? undefined : format === 'text' ? decodeText : parseJson;
}

const FORMATS: readonly string[] = ['raw', 'text', 'json'];
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeText(payload: Buffer): string {
  return utf8.decode(payload);
}

function checkBatch(batch: BatchOptions, concurrency: number, path: string): void {
  if (batch.size <= concurrency) return;
  throw new OptionsError(
    `${path}.size`,
    `a whole number from 1 to the strategy's concurrency (${concurrency})`,
    String(batch.size),
  );
}
