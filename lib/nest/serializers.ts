import { type ReadPacket } from '@nestjs/microservices';
import { errorText } from '../error-text.js';
import { TransportError } from '../errors.js';
import { type Schema } from '../pulsar/index.js';

/** What a serializer made: the payload, or the payload with properties for it. `null` is a message without a value. */
export type SerializedPayload =
  | Uint8Array
  | string
  | null
  | { readonly payload: Uint8Array | string | null; readonly properties?: Readonly<Record<string, string>> };

/**
 * Makes bytes of what was given to `emit()` or `send()`; Nest's `Serializer` with a narrower result. `packet.data` is the
 * data alone, without its record. It runs inside `emit()`, which fixes the order, so it cannot be asynchronous.
 */
export interface PayloadSerializer {
  serialize(packet: ReadPacket, options?: Record<string, unknown>): SerializedPayload;
}

/**
 * The default: `Buffer`, `Uint8Array`, `ArrayBuffer` and other views as they are, strings as UTF-8, `null` and `undefined`
 * as no value, everything else as JSON. There is no envelope around the data.
 */
export class RawOrJsonSerializer implements PayloadSerializer {
  serialize(packet: ReadPacket): Uint8Array | null {
    return toPayload(packet.data);
  }
}

/** Bytes by the rules of {@link RawOrJsonSerializer}. @throws TransportError ERR_SERIALIZATION */
export function toPayload(data: unknown): Uint8Array | null {
  if (data instanceof Uint8Array) return data;
  if (typeof data === 'string') return Buffer.from(data);
  if (data === null || data === undefined) return null;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (cause) {
    throw new TransportError('ERR_SERIALIZATION', `The data cannot be written as JSON: ${errorText(cause)}`, { cause });
  }
  if (text === undefined) {
    throw new TransportError('ERR_SERIALIZATION', `A value of type ${typeof data} cannot be written as JSON`);
  }
  return Buffer.from(text);
}

/**
 * Bytes for a topic with a schema, or without: bytes are encoded already, nothing is a tombstone, and everything else is a
 * value of the schema.
 *
 * @throws TransportError ERR_SERIALIZATION
 */
export function encodedPayload(data: unknown, schema: Schema<unknown> | undefined): Uint8Array | null {
  if (schema === undefined || data === null || data === undefined || data instanceof Uint8Array) return toPayload(data);
  return schema.encode(data);
}

/** The result of any serializer in one form. @throws TransportError ERR_SERIALIZATION for what is neither bytes nor text */
export function serializedPayload(result: unknown): {
  payload: Uint8Array | null;
  properties: Readonly<Record<string, string>> | undefined;
} {
  if (result instanceof Uint8Array) return { payload: result, properties: undefined };
  if (typeof result === 'string') return { payload: Buffer.from(result), properties: undefined };
  if (result === null) return { payload: null, properties: undefined };
  if (typeof result === 'object' && 'payload' in result) {
    const { payload, properties } = result as { payload: unknown; properties?: Readonly<Record<string, string>> };
    if (payload instanceof Uint8Array || payload === null) return { payload, properties };
    if (typeof payload === 'string') return { payload: Buffer.from(payload), properties };
  }
  const isPromise = typeof result === 'object' && 'then' in result;
  const what = isPromise ? 'a promise' : typeof result;
  throw new TransportError(
    'ERR_SERIALIZATION',
    `A serializer must return bytes, a string, null, or { payload, properties }; received ${what}`,
  );
}

/** Metadata that a dispatch hook put on the packet, as string properties. `undefined` values are left out. */
export function metadataProperties(metadata: unknown): Record<string, string> | undefined {
  if (typeof metadata !== 'object' || metadata === null) return undefined;
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(metadata as Record<string, unknown>)) {
    if (value === undefined || value === null) continue;
    const text = typeof value === 'string' ? value : (JSON.stringify(value) as string | undefined);
    if (text !== undefined) result[name] = text;
  }
  return result;
}
