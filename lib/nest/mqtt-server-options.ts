import { type ClientProxy } from '@nestjs/microservices';
import { OptionsError } from '../errors.js';
import { type MqttClientOptions, type Qos, validateTopicFilter } from '../mqtt/index.js';
import {
  addNames,
  anyObject,
  arrayOf,
  checkOptions,
  describeValue,
  integer,
  milliseconds,
  objectWith,
  oneOf,
  type OptionCheck,
  satisfies,
} from '../option-checks.js';
import {
  type FailureFunction,
  type FailurePolicy,
  type FailurePolicyOptions,
  resolveFailurePolicy,
} from './failure-policy.js';
import { payloadDecoder, type PayloadFormat, shareName } from './handler-options.js';
import { type MqttMessageContext } from './mqtt-message.context.js';

/** Where messages go that no handler could deal with. */
export interface DeadLetterOptions {
  /** Any Nest `ClientProxy`, of whatever events and status (`ClientKafka` has its own). */
  readonly client: Pick<ClientProxy, 'emit'>;
  /** Pattern for `client.emit()`; a function gets the original topic. */
  readonly pattern: string | ((topic: string) => string);
}

/** Options of {@link MqttServerStrategy} besides those of the MQTT client. */
export interface MqttServerOwnOptions {
  /** Tells several strategies of one app apart; decorators take it as `server`. Default `default`. */
  name?: string;
  /** QoS of subscriptions that say nothing themselves. Default 1. */
  qos?: Qos;
  /** What handlers get as data. Default `raw`, the bytes. */
  payload?: PayloadFormat;
  /** Deliveries that run at a time. Default 128. */
  concurrency?: number;
  /**
   * `none` (default): handlers start in received order. `topic`: one at a time per topic, in received order. A function:
   * one at a time per key; `undefined` as key has no tie. Keys are compared as a `Map` does; a function that throws or
   * gives a promise leaves the message without a tie, which is logged once. Its context goes by the filter of the first
   * handler that matches (`getPattern()`, `getParams()`).
   */
  order?: 'none' | 'topic' | ((context: MqttMessageContext) => unknown);
  /** Milliseconds a run may take; the clock stops while an emit of it is pending. 0: none. Default 60,000. */
  handlerTimeout?: number;
  /** Milliseconds a detached handle may stay unused. 0: none. Default 300,000. */
  detachTimeout?: number;
  /**
   * Milliseconds from a failure to the controlled reconnect; doubles while nothing is freed, up to 5 min (30 s where an emit,
   * a `send()` or a dead letter failed: those are tried again without a reconnect). Default 5,000.
   */
  redeliverAfter?: number;
  /**
   * Milliseconds after which a message that is still not acknowledged makes the status `stalled` and the health down, with
   * a log line: everything behind it waits as well. 0: never. Default 60,000; raise it where handlers detach for longer.
   */
  stalledAfter?: number;
  /** Milliseconds that `close()` waits for running handlers. Default 10,000. */
  shutdownTimeout?: number;
  /** What happens to a message whose handler failed. Default: not acknowledged, redelivered. */
  failure?: FailurePolicyOptions | FailureFunction;
  deadLetter?: DeadLetterOptions;
  /**
   * A message that no handler matches: `hold` leaves it un-acknowledged and says so, `acknowledge` counts it,
   * `deadLetter` sends it there. Default `deadLetter` where a target is configured, else `hold`.
   */
  unmatched?: 'deadLetter' | 'hold' | 'acknowledge';
  /** Subscribes every filter as `$share/<group>/<filter>`. Needs client ids that stay the same. */
  sharedGroup?: string;
  /** Filters that an earlier version subscribed and this one drops at start. */
  unsubscribe?: readonly string[];
  /** Accept a lower QoS than asked for. Default false: `listen()` fails. */
  allowLowerQos?: boolean;
  /** `nest`: requests come in the envelope of Nest's built-in MQTT transport and are answered on `<topic>/reply`. */
  envelope?: 'nest';
}

export type MqttServerOptions = MqttServerOwnOptions & MqttClientOptions;

export interface ResolvedMqttServerOptions {
  readonly name: string;
  readonly qos: Qos;
  readonly payload: PayloadFormat;
  readonly concurrency: number;
  readonly order: 'none' | 'topic' | ((context: MqttMessageContext) => unknown);
  readonly handlerTimeout: number;
  readonly detachTimeout: number;
  readonly redeliverAfter: number;
  readonly stalledAfter: number;
  readonly shutdownTimeout: number;
  readonly failure: FailurePolicy;
  readonly deadLetter: DeadLetterOptions | undefined;
  readonly unmatched: 'deadLetter' | 'hold' | 'acknowledge';
  readonly sharedGroup: string | undefined;
  readonly unsubscribe: readonly string[];
  readonly allowLowerQos: boolean;
  readonly envelope: 'nest' | undefined;
}

const topicFilter: OptionCheck = (path, value) => {
  try {
    validateTopicFilter(value as string);
  } catch (error) {
    throw new OptionsError(path, `a topic filter (${(error as Error).message})`, describeValue(value));
  }
};
const anything = satisfies('a value', () => true);
const SCHEMA = {
  name: satisfies('a name', (value) => typeof value === 'string' && value.length > 0),
  qos: oneOf(0, 1, 2),
  payload: anything,
  concurrency: integer(1, 65_535),
  order: satisfies(
    "'none', 'topic' or a function",
    (value) => value === 'none' || value === 'topic' || typeof value === 'function',
  ),
  handlerTimeout: milliseconds(),
  detachTimeout: milliseconds(),
  redeliverAfter: milliseconds(1),
  stalledAfter: milliseconds(),
  shutdownTimeout: milliseconds(),
  failure: anything,
  deadLetter: anyObject,
  unmatched: oneOf('deadLetter', 'hold', 'acknowledge'),
  sharedGroup: shareName,
  unsubscribe: arrayOf(topicFilter),
  allowLowerQos: oneOf(true, false),
  envelope: oneOf('nest'),
};
export const SERVER_OPTION_NAMES = Object.keys(SCHEMA);

/** Splits what is the strategy's from what is the client's; the client checks the rest. @throws OptionsError */
export function resolveMqttServerOptions(input: MqttServerOptions): {
  server: ResolvedMqttServerOptions;
  client: MqttClientOptions;
} {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new OptionsError('mqtt', 'an object', describeValue(input));
  }
  const own: Record<string, unknown> = {};
  const client: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(input)) (Object.hasOwn(SCHEMA, key) ? own : client)[key] = value;
  checkOptions<MqttServerOwnOptions>('mqtt', own, SCHEMA);
  const given: MqttServerOwnOptions = own;
  payloadDecoder(given.payload ?? 'raw', 'mqtt.payload');
  if (given.deadLetter !== undefined) checkDeadLetter(given.deadLetter);
  if (given.unmatched === 'deadLetter' && given.deadLetter === undefined) {
    throw new OptionsError(
      'mqtt.unmatched',
      "'hold' or 'acknowledge' where no target is given (set the strategy's `deadLetter`)",
      "'deadLetter'",
    );
  }
  const failure = resolveFailurePolicy(given.failure, 'mqtt.failure');
  if (failure.then === 'deadLetter' && given.deadLetter === undefined) {
    throw new OptionsError(
      'mqtt.failure.then',
      "a step other than 'deadLetter' where no target is given (set the strategy's `deadLetter`)",
      "'deadLetter'",
    );
  }
  return {
    client,
    server: {
      name: given.name ?? 'default',
      qos: given.qos ?? 1,
      payload: given.payload ?? 'raw',
      concurrency: given.concurrency ?? 128,
      order: given.order ?? 'none',
      handlerTimeout: given.handlerTimeout ?? 60_000,
      detachTimeout: given.detachTimeout ?? 300_000,
      redeliverAfter: given.redeliverAfter ?? 5_000,
      stalledAfter: given.stalledAfter ?? 60_000,
      shutdownTimeout: given.shutdownTimeout ?? 10_000,
      failure,
      deadLetter: given.deadLetter,
      unmatched: given.unmatched ?? (given.deadLetter === undefined ? 'hold' : 'deadLetter'),
      sharedGroup: given.sharedGroup,
      unsubscribe: given.unsubscribe ?? [],
      allowLowerQos: given.allowLowerQos ?? false,
      envelope: given.envelope,
    },
  };
}

/** An unknown key was checked by the client, which knows only its own names. */
export function withServerNames(error: unknown): unknown {
  return addNames(error, 'mqtt', SERVER_OPTION_NAMES);
}

function checkDeadLetter(given: DeadLetterOptions): void {
  checkOptions<DeadLetterOptions>('mqtt.deadLetter', given, {
    client: objectWith('emit'),
    pattern: satisfies(
      'a non-empty pattern or a function',
      (value) => (typeof value === 'string' && value !== '') || typeof value === 'function',
    ),
  });
  if (given.client === undefined || given.pattern === undefined) {
    const neither = given.client === undefined && given.pattern === undefined;
    throw new OptionsError(
      'mqtt.deadLetter',
      'client (a ClientProxy) and pattern',
      neither ? 'neither' : 'only one of them',
    );
  }
}
