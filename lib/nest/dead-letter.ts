import { type ClientProxy } from '@nestjs/microservices';
import { type MqttDelivery } from '../mqtt/index.js';
import { type Failure } from './failure-policy.js';
import { messageProperties } from './message-properties.js';

/** How a proxy of this package makes a record of bytes, key and properties; holds across copies of the package. */
export const DEAD_LETTER_RECORD = Symbol.for('nestjs-mqtt-pulsar/dead-letter-record');

/** A proxy that can carry a payload untouched, with properties beside it. */
export interface CarriesDeadLetters {
  [DEAD_LETTER_RECORD](payload: Buffer, topic: string, properties: Readonly<Record<string, string>>): unknown;
}

/**
 * The payload bytes as they came, with the message's own properties and what is known about its failure as properties: in
 * a record of ours where the target is one of our proxies, else as an object with the payload in base64.
 */
export function deadLetterOf(
  target: ClientProxy,
  delivery: MqttDelivery,
  failure: Pick<Failure, 'error' | 'attempt' | 'run' | 'kind'> | undefined,
  reason: string | undefined,
  receivedAt: number,
  now: number,
): unknown {
  const { topic, payload, qos } = delivery.message;
  const all: Record<string, string> = {
    ...messageProperties(delivery.message, receivedAt),
    'dead-letter-topic': topic,
    'dead-letter-qos': String(qos),
    'dead-letter-reason': reason ?? failure?.kind ?? 'unmatched',
    'dead-letter-attempt': String(failure?.attempt ?? delivery.attempt),
    'dead-letter-run': String(failure?.run ?? 0),
    'dead-letter-received-at': new Date(receivedAt).toISOString(),
    'dead-letter-at': new Date(now).toISOString(),
    ...(failure !== undefined && { 'dead-letter-error': errorText(failure.error) }),
  };
  if (DEAD_LETTER_RECORD in target) {
    return (target as ClientProxy & CarriesDeadLetters)[DEAD_LETTER_RECORD](payload, topic, all);
  }
  return { ...all, payload: payload.toString('base64') };
}

function errorText(error: unknown): string {
  const message = error instanceof Error ? error.message : JSON.stringify(error);
  return (message ?? 'unknown').slice(0, 1_000);
}
