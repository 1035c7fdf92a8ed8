import { isTransportError, TransportError } from '../errors.js';
import { type EncodableMessage } from './codec/send-types.js';
import { SendOp } from './protocol/send-op.js';
import { type Schema } from './schema/index.js';
import { type CancelHandle, type ProducerMessage, type SendCallback } from './types.js';

/** Takes messages back. */
export interface SendOwner {
  cancel(send: Send): boolean;
}

/** One message on its way: the core's operation and the caller's handle in one object. */
export class Send extends SendOp<EncodableMessage> implements CancelHandle {
  constructor(
    message: EncodableMessage,
    size: number,
    alone: boolean,
    givenId: number | undefined,
    submittedAt: number,
    readonly callback: SendCallback,
    private readonly owner: SendOwner,
  ) {
    super(message, size, givenId, alone, submittedAt);
  }

  cancel(): boolean {
    return this.owner.cancel(this);
  }
}

/** A checked message as it will be encoded, or what is wrong with it. */
export interface CheckedMessage {
  readonly message: EncodableMessage;
  readonly size: number;
  readonly alone: boolean;
  readonly problem: TransportError | undefined;
}

const EMPTY: EncodableMessage = { payload: null };

/**
 * The message with the bytes of its value.
 *
 * @throws TransportError ERR_SERIALIZATION if the schema does not take the value, or there is none
 */
export function encodeValue(message: ProducerMessage, schema: Schema<unknown> | undefined): ProducerMessage {
  const { value, payload } = message;
  if (schema === undefined) throw wrongValue("the producer has no schema (option 'schema'), so it needs a payload");
  if (payload !== undefined) throw wrongValue('there is a payload too; a message has one of them');
  return { ...message, value: undefined, payload: value === null ? null : schema.encode(value) };
}

/**
 * Checks everything the encoder relies on: a message that fails there would fail the others of its batch.
 *
 * @param wallTime milliseconds since 1970, for `deliverAfter`
 */
export function checkMessage(message: ProducerMessage, wallTime: () => number): CheckedMessage {
  const { payload, key, keyBytes, orderingKey, properties, eventTime, deliverAt, deliverAfter, sequenceId } = message;
  if (payload !== null && !(payload instanceof Uint8Array)) return invalid('payload', 'a Uint8Array or null', payload);
  let size = ENTRY_BYTES + (payload === null ? 0 : payload.length);
  if (key !== undefined) {
    if (typeof key !== 'string') return invalid('key', 'a string', key);
    size += Buffer.byteLength(key);
  }
  if (keyBytes !== undefined) {
    if (!(keyBytes instanceof Uint8Array)) return invalid('keyBytes', 'a Uint8Array', keyBytes);
    size += keyBytes.length * 2;
  }
  if (orderingKey !== undefined) {
    if (!(orderingKey instanceof Uint8Array)) return invalid('orderingKey', 'a Uint8Array', orderingKey);
    size += orderingKey.length;
  }
  if (properties !== undefined) {
    for (const name in properties) {
      const value = properties[name] as unknown;
      if (typeof value !== 'string') return invalid(`properties.${name}`, 'a string', value);
      size += PROPERTY_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
    }
  }
  if (eventTime !== undefined && !isWhole(eventTime)) return invalid('eventTime', 'whole milliseconds', eventTime);
  if (sequenceId !== undefined && !isWhole(sequenceId)) return invalid('sequenceId', 'an integer from 0', sequenceId);
  if (deliverAt !== undefined && !isWhole(deliverAt)) return invalid('deliverAt', 'whole milliseconds', deliverAt);
  const clusters = message.replicationClusters;
  if (deliverAfter === undefined) {
    const alone = message.disableBatching === true || deliverAt !== undefined || clusters !== undefined;
    return { message: message as EncodableMessage, size, alone, problem: undefined };
  }
  if (!isWhole(deliverAfter)) return invalid('deliverAfter', 'whole milliseconds', deliverAfter);
  const delayed = { ...message, payload, deliverAt: Math.round(wallTime()) + deliverAfter };
  return { message: delayed, size, alone: true, problem: undefined };
}

/** A message that could not even be made. */
export function failedMessage(error: unknown): CheckedMessage {
  const problem = isTransportError(error)
    ? error
    : new TransportError('ERR_SERIALIZATION', 'The message could not be made', { cause: error });
  return { message: EMPTY, size: 0, alone: true, problem };
}

/** At most what one entry and one property take on the wire beside their bytes. */
const ENTRY_BYTES = 40;
const PROPERTY_BYTES = 16;

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function wrongValue(why: string): TransportError {
  return new TransportError('ERR_SERIALIZATION', `Message field 'value': ${why}`);
}

function invalid(name: string, expected: string, received: unknown): CheckedMessage {
  const type = received === null ? 'null' : typeof received;
  return failedMessage(
    new TransportError('ERR_SERIALIZATION', `Message field '${name}': expected ${expected}, received ${type}`),
  );
}
