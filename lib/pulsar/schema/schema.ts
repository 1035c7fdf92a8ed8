import { errorText } from '../../error-text.js';
import { TransportError } from '../../errors.js';
import { type SchemaInfo } from '../codec/command-types.js';

/** How values of one type become payloads, and what the broker's schema registry is told about it. */
export interface Schema<T> {
  /** Sent with PRODUCER; undefined: the topic has no schema (bytes). */
  readonly info: SchemaInfo | undefined;
  /** @throws TransportError ERR_SERIALIZATION if the value is not of the type */
  encode(value: T): Buffer;
  /** @throws TransportError ERR_SERIALIZATION if the bytes are not those of such a value */
  decode(bytes: Uint8Array): T;
}

export interface SchemaOptions {
  /** In the registry. Default empty, as other clients leave it. */
  readonly name?: string;
  readonly properties?: Readonly<Record<string, string>>;
}

export function schemaInfo(type: number, data: string, { name = '', properties = {} }: SchemaOptions): SchemaInfo {
  return {
    name,
    type,
    schemaData: Buffer.from(data, 'utf8'),
    properties: Object.entries(properties).map(([key, value]) => ({ key, value })),
  };
}

/** Runs a library's encoder or decoder, and says whose fault it is if that fails. */
export function guarded<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new TransportError('ERR_SERIALIZATION', `${what}: ${errorText(error)}`, { cause: error });
  }
}

export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
