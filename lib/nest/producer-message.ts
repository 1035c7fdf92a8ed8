import { TransportError } from '../errors.js';
import { type ProducerMessage } from '../pulsar/index.js';
import { type PulsarRecordOptions } from './pulsar-record.js';

/** A message for the producer. The record's own properties win over those of the serializer and the dispatch hook. */
export function producerMessage(
  payload: Uint8Array | null,
  properties: Readonly<Record<string, string>> | undefined,
  options: PulsarRecordOptions | undefined,
): ProducerMessage {
  if (options === undefined) return properties === undefined ? { payload } : { payload, properties };
  const { orderingKey, eventTime, deliverAt, replicationClusters } = options;
  const message: { -readonly [K in keyof ProducerMessage]: ProducerMessage[K] } = { payload };
  if (options.key !== undefined) message.key = options.key;
  if (options.keyBytes !== undefined) message.keyBytes = options.keyBytes;
  if (orderingKey !== undefined)
    message.orderingKey = typeof orderingKey === 'string' ? Buffer.from(orderingKey) : orderingKey;
  if (properties !== undefined || options.properties !== undefined) {
    message.properties = { ...properties, ...options.properties };
  }
  if (eventTime !== undefined) message.eventTime = epochMs('eventTime', eventTime);
  if (options.sequenceId !== undefined) message.sequenceId = options.sequenceId;
  if (deliverAt !== undefined) message.deliverAt = epochMs('deliverAt', deliverAt);
  if (options.deliverAfter !== undefined) message.deliverAfter = options.deliverAfter;
  if (replicationClusters !== undefined) message.replicationClusters = [...replicationClusters];
  if (options.disableBatching !== undefined) message.disableBatching = options.disableBatching;
  return message;
}

function epochMs(name: string, value: number | Date): number {
  const ms = typeof value === 'number' ? value : value.getTime();
  if (Number.isFinite(ms) && ms >= 0) return ms;
  throw new TransportError(
    'ERR_SERIALIZATION',
    `PulsarRecord: ${name} must be a Date or milliseconds since 1970, received ${ms}`,
  );
}
