import { inspect } from 'node:util';
import { lastValueFrom } from 'rxjs';
import { errorText } from '../error-text.js';
import { LocalProtocolError } from '../errors.js';
import { type MqttDelivery, type MqttMessage, type UserProperty } from '../mqtt/index.js';
import { runOutsideScopes } from './delivery-scope.js';
import { type Failure } from './failure-policy.js';
import { messageFacts, messageProperties, userProperties } from './message-properties.js';
import { type DeadLetterOptions } from './mqtt-server-options.js';
import { type TaskHost } from './task-host.js';

/** How a proxy of this package makes a record of bytes, key and properties; holds across copies of the package. */
export const DEAD_LETTER_RECORD = Symbol.for('nestjs-mqtt-pulsar/dead-letter-record');

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
}

/**
 * Emits the dead letter and waits for its receipt, however long its target takes: a second letter while the first is under
 * way would be one too many. What waits for it shows as stalled.
 */
export async function sendDeadLetter(
  target: DeadLetterOptions,
  delivery: MqttDelivery,
  failure: Pick<Failure, 'error' | 'attempt' | 'run' | 'kind'> | undefined,
  reason: string | undefined,
  host: Pick<TaskHost, 'clock' | 'wallTimeAt'>,
): Promise<void> {
  const { topic } = delivery.message;
  const pattern = typeof target.pattern === 'function' ? target.pattern(topic) : target.pattern;
  if (pattern === topic && isDeadLetter(delivery.message)) {
    throw new LocalProtocolError(
      `a dead letter that failed again on '${topic}' would come back there for ever: let no handler that dead-letters receive this topic`,
    );
  }
  const record = deadLetterOf(
    target.client,
    delivery,
    failure,
    reason,
    host.wallTimeAt(delivery.receivedAt),
    host.clock.wallTime(),
  );
  await runOutsideScopes(() => lastValueFrom(target.client.emit(pattern, record), { defaultValue: undefined }));
}

/**
 * The payload bytes as they came, with the message's own properties and what is known about its failure as properties: in
 * a record of ours where the target is one of our proxies, else as `{ payload, properties, 'dead-letter-…' }` with the
 * payload in base64. There the properties stand apart: a device's `key` or `value` would make Nest's Kafka client take
 * the whole letter for a message of its own.
 */
export function deadLetterOf(
  target: object,
  delivery: MqttDelivery,
  failure: Pick<Failure, 'error' | 'attempt' | 'run' | 'kind'> | undefined,
  reason: string | undefined,
  receivedAt: number,
  now: number,
): unknown {
  const { message } = delivery;
  const { topic, payload, qos } = message;
  const properties = messageProperties(message, receivedAt);
  const about: Record<string, string> = {
    'dead-letter-topic': topic,
    'dead-letter-qos': String(qos),
    'dead-letter-reason': sendable(reason ?? failure?.kind ?? 'unmatched'),
    'dead-letter-attempt': String(failure?.attempt ?? delivery.attempt),
    'dead-letter-run': String(failure?.run ?? 0),
    'dead-letter-received-at': new Date(receivedAt).toISOString(),
    'dead-letter-at': new Date(now).toISOString(),
    ...(failure !== undefined && { 'dead-letter-error': thrownText(failure.error) }),
  };
  if (DEAD_LETTER_RECORD in target) {
    const facts = { ...messageFacts(message, receivedAt), ...about };
    // What a letter says of its own way here is said anew; with both, letters of letters would grow.
    const own = userProperties(message).filter(([name]) => !isDeadLetter(message) || !Object.hasOwn(facts, name));
    const letter = { payload, properties: { ...properties, ...about }, pairs: [...own, ...Object.entries(facts)] };
    return (target as CarriesDeadLetters)[DEAD_LETTER_RECORD](letter, topic);
  }
  return { ...about, properties, payload: payload.toString('base64') };
}

function isDeadLetter({ properties }: MqttMessage): boolean {
  return properties?.userProperties?.some(([name]) => name === 'dead-letter-topic') === true;
}

function thrownText(error: unknown): string {
  return sendable((error instanceof Error ? errorText(error) : asText(error)).slice(0, 1_000));
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
function sendable(text: string): string {
  // Writing UTF-8 replaces a lone surrogate by U+FFFD.
  return Buffer.from(text.replaceAll('\u0000', '\uFFFD')).toString();
}
