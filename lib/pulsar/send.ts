import { TransportError } from '../errors.js';
import { type SignalGroup } from './cancel-signals.js';
import { type EncodableMessage } from './codec/send-types.js';
import { SendOp } from './protocol/send-op.js';
import { type Schema } from './schema/index.js';
import { type CancelHandle, type ProducerMessage, type SendCallback, type SendResult } from './types.js';

/** Takes messages back. */
export interface SendOwner {
  cancel(send: Send): boolean;
}

/** One message on its way: the core's operation and the caller's handle in one object. */
export class Send extends SendOp<EncodableMessage> implements CancelHandle {
  /** The partition it was routed to. */
  owner: SendOwner | undefined = undefined;
  /** Of the caller's AbortSignal. */
  signal: SignalGroup | undefined = undefined;

  constructor(
    message: EncodableMessage,
    size: number,
    alone: boolean,
    submittedAt: number,
    /** The message as the interceptors made it. */
    readonly given: ProducerMessage,
    private readonly callback: SendCallback,
  ) {
    super(message, size, given.sequenceId, alone, submittedAt);
  }

  cancel(): boolean {
    return this.owner !== undefined && this.owner.cancel(this);
  }

  /** Tells the sender; nothing of the send stays behind at its signal. */
  settle(error: TransportError | undefined, result: SendResult | undefined): void {
    this.signal?.remove(this);
    this.callback(error, result);
  }
}

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
 * @returns about the bytes that the message takes in a frame
 * @throws TransportError ERR_SERIALIZATION that names the field
 */
export function checkMessage(message: ProducerMessage): number {
  const { payload, key, keyBytes, orderingKey, properties, eventTime, deliverAt, sequenceId } = message;
  if (payload !== null && !(payload instanceof Uint8Array)) throw invalid('payload', 'a Uint8Array or null', payload);
  let size = ENTRY_BYTES + (payload === null ? 0 : payload.length);
  if (key !== undefined) {
    if (typeof key !== 'string') throw invalid('key', 'a string', key);
    size += Buffer.byteLength(key);
  }
  if (keyBytes !== undefined) {
    if (!(keyBytes instanceof Uint8Array)) throw invalid('keyBytes', 'a Uint8Array', keyBytes);
    size += keyBytes.length * 2;
  }
  if (orderingKey !== undefined) {
    if (!(orderingKey instanceof Uint8Array)) throw invalid('orderingKey', 'a Uint8Array', orderingKey);
    size += orderingKey.length;
  }
  if (properties !== undefined) {
    for (const name in properties) {
      const value = properties[name] as unknown;
      if (typeof value !== 'string') throw invalid(`properties.${name}`, 'a string', value);
      size += PROPERTY_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
    }
  }
  if (eventTime !== undefined && !isWhole(eventTime)) throw invalid('eventTime', 'whole milliseconds', eventTime);
  if (sequenceId !== undefined && !isWhole(sequenceId)) throw invalid('sequenceId', 'an integer from 0', sequenceId);
  if (deliverAt !== undefined && !isWhole(deliverAt)) throw invalid('deliverAt', 'whole milliseconds', deliverAt);
  return size;
}

/**
 * A message with `deliverAfter`, with the time that this means.
 *
 * @param wallTime milliseconds since 1970
 * @throws TransportError ERR_SERIALIZATION
 */
export function withDeliverAt(message: ProducerMessage, wallTime: number): ProducerMessage {
  const { deliverAfter } = message;
  if (!isWhole(deliverAfter)) throw invalid('deliverAfter', 'whole milliseconds', deliverAfter);
  return { ...message, deliverAt: Math.round(wallTime) + deliverAfter };
}

/** Whether a message must be an entry of its own. */
export function standsAlone(message: ProducerMessage): boolean {
  return (
    message.disableBatching === true || message.deliverAt !== undefined || message.replicationClusters !== undefined
  );
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

function invalid(name: string, expected: string, received: unknown): TransportError {
  const type = received === null ? 'null' : typeof received;
  return new TransportError('ERR_SERIALIZATION', `Message field '${name}': expected ${expected}, received ${type}`);
}
