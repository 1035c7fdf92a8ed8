import { inspect } from 'node:util';
import { errorText } from '../error-text.js';
import { type Endpoint, type MqttDelivery, type MqttMessage, type UserProperty } from '../mqtt/index.js';
import { type Failure } from './failure-policy.js';
import { messageFacts, messageProperties, userProperties } from './message-properties.js';

/** How a proxy of this package makes a record of bytes, key and properties; holds across copies of the package. */
export const DEAD_LETTER_RECORD = Symbol.for('nestjs-mqtt-pulsar/dead-letter-record');
/** The servers that an MQTT proxy of this package publishes to. */
export const DEAD_LETTER_ENDPOINTS = Symbol.for('nestjs-mqtt-pulsar/dead-letter-endpoints');

/** What a proxy of this package makes a record of. */
export interface DeadLetter {
  /** As it came. */
  readonly payload: Buffer;
  /** The message's own properties and those about its failure; of a repeated name the last one. */
  readonly properties: Readonly<Record<string, string>>;
  /** The same as ordered pairs, where names may repeat. */
  readonly pairs: readonly UserProperty[];
}

/** A proxy that can carry a payload untouched, with properties beside it. */
export interface CarriesDeadLetters {
  [DEAD_LETTER_RECORD](letter: DeadLetter, topic: string): unknown;
  /** Only where letters are published over MQTT. */
  readonly [DEAD_LETTER_ENDPOINTS]?: readonly Endpoint[];
}

/** What there is to say of a message that becomes a dead letter. */
export interface DeadLetterFacts {
  readonly delivery: MqttDelivery;
  /** None for a message without a handler. */
  readonly failure: Pick<Failure, 'error' | 'attempt' | 'run' | 'kind'> | undefined;
  readonly reason: string | undefined;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  readonly now: number;
}

/**
 * The payload bytes as they came, with the message's own properties and what is known about its failure; then the same
 * with ever less beside the payload, for a target that takes no more. `dead-letter-left-out` says what is missing:
 * `properties` (the message's own), `rest` (all but topic and reason). The last one is the payload alone.
 */
export function* deadLetters(facts: DeadLetterFacts): Generator<DeadLetter, void> {
  const { message } = facts.delivery;
  const { payload } = message;
  const about = aboutFailure(facts);
  yield completeLetter(facts, about);
  const inProperties = (properties: Record<string, string>): DeadLetter => ({
    payload,
    properties,
    pairs: Object.entries(properties),
  });
  yield inProperties({ ...about, [LEFT_OUT]: 'properties' });
  yield inProperties({
    'dead-letter-topic': message.topic,
    'dead-letter-reason': sendable(about['dead-letter-reason'], 100),
    [LEFT_OUT]: 'rest',
  });
  yield inProperties({});
}

/**
 * For a proxy that is not ours: `{ payload, properties, 'dead-letter-…' }` with the payload in base64. The properties
 * stand apart: a device's `key` or `value` would make Nest's Kafka client take the whole letter for a message of its own.
 */
export function plainDeadLetter(facts: DeadLetterFacts): unknown {
  const { message } = facts.delivery;
  const properties = messageProperties(message, facts.receivedAt);
  return { ...aboutFailure(facts), properties, payload: message.payload.toString('base64') };
}

function completeLetter({ delivery, receivedAt }: DeadLetterFacts, about: Record<string, string>): DeadLetter {
  const { message } = delivery;
  const said = { ...messageFacts(message, receivedAt), ...about };
  // What a letter says of its own way here is said anew; with both, letters of letters would grow.
  const stale = (name: string): boolean => Object.hasOwn(said, name) || ABOUT_FAILURE.has(name);
  const again = isDeadLetter(message);
  const own = userProperties(message).filter(([name]) => !again || !stale(name));
  const kept = Object.entries(messageProperties(message, receivedAt)).filter(
    ([name]) => !again || !ABOUT_FAILURE.has(name),
  );
  // Correlation data can be longer in base64 than a user property may be [MQTT5 1.5.4].
  const [fitting, long] = [true, false].map((fits) =>
    Object.entries(said).filter(([, value]) => Buffer.byteLength(value) <= 65_535 === fits),
  );
  const missing = long.length === 0 ? [] : ([[LEFT_OUT, long.map(([name]) => name).join()]] as const);
  return {
    payload: message.payload,
    properties: { ...Object.fromEntries(kept), ...about },
    pairs: [...own, ...fitting, ...missing],
  };
}

function aboutFailure({ delivery, failure, reason, receivedAt, now }: DeadLetterFacts): Record<string, string> {
  const { topic, qos } = delivery.message;
  return {
    'dead-letter-topic': topic,
    'dead-letter-qos': String(qos),
    'dead-letter-reason': sendable(reason ?? failure?.kind ?? 'unmatched', 1_000),
    'dead-letter-attempt': String(failure?.attempt ?? delivery.attempt),
    'dead-letter-run': String(failure?.run ?? 0),
    'dead-letter-received-at': new Date(receivedAt).toISOString(),
    'dead-letter-at': new Date(now).toISOString(),
    ...(failure !== undefined && { 'dead-letter-error': thrownText(failure.error) }),
  };
}

const LEFT_OUT = 'dead-letter-left-out';

const ABOUT_FAILURE: ReadonlySet<string> = new Set([
  ...['topic', 'qos', 'reason', 'attempt', 'run', 'received-at', 'at', 'error'].map((name) => `dead-letter-${name}`),
  LEFT_OUT,
]);

function isDeadLetter({ properties }: MqttMessage): boolean {
  return properties?.userProperties?.some(([name]) => name === 'dead-letter-topic') === true;
}

function thrownText(error: unknown): string {
  return sendable(error instanceof Error ? errorText(error) : asText(error), 1_000);
}

/** What was thrown need not be an error, nor have a JSON form. */
function asText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? inspect(value);
  } catch {
    return inspect(value, { depth: 1 });
  }
}

/** MQTT has no U+0000 and no half of a surrogate pair in a string: the letter must leave whatever the error says. */
function sendable(text: string, length: number): string {
  // Writing UTF-8 replaces a lone surrogate by U+FFFD.
  return Buffer.from(text.slice(0, length).replaceAll('\u0000', '\uFFFD')).toString();
}
