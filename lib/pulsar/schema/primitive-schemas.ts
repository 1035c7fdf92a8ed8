import { TransportError } from '../../errors.js';
import { SchemaType } from '../codec/constants.js';
import { asBuffer, guarded, type Schema, schemaInfo, type SchemaOptions } from './schema.js';

/** Bytes as they are; the topic gets no schema. */
export const bytesSchema: Schema<Uint8Array> = {
  info: undefined,
  encode(value) {
    if (!(value instanceof Uint8Array)) throw wrongType('bytes', value);
    return asBuffer(value);
  },
  decode: asBuffer,
};

/** UTF-8 text. */
export function stringSchema({ name = 'String', properties }: SchemaOptions = {}): Schema<string> {
  return {
    info: schemaInfo(SchemaType.String, '', { name, properties }),
    encode(value) {
      if (typeof value !== 'string') throw wrongType('a string', value);
      return Buffer.from(value, 'utf8');
    },
    decode: (bytes) => guarded('The payload is not UTF-8', () => UTF8.decode(bytes)),
  };
}

/** JSON whose form an Avro definition describes: Pulsar compares definitions, it does not look at payloads. */
export interface JsonSchemaOptions extends SchemaOptions {
  /** An Avro schema, such as `{type: 'record', name: 'Reading', fields: [...]}`. */
  readonly definition: object | string;
}

export function jsonSchema<T = unknown>({ definition, ...options }: JsonSchemaOptions): Schema<T> {
  return {
    info: schemaInfo(SchemaType.Json, definitionText(definition), options),
    encode(value) {
      if (value instanceof Uint8Array) {
        throw new TransportError(
          'ERR_SERIALIZATION',
          'The schema takes a value, not bytes: what is JSON already goes as payload',
        );
      }
      const text = guarded('The value is not JSON', () => JSON.stringify(value) as string | undefined);
      if (text === undefined) throw wrongType('a value that JSON has', value);
      return Buffer.from(text, 'utf8');
    },
    decode: (bytes) => guarded('The payload is not JSON', () => JSON.parse(UTF8.decode(bytes)) as T),
  };
}

/** @throws TransportError ERR_SCHEMA if it is no JSON object */
export function definitionText(definition: object | string): string {
  const text = typeof definition === 'string' ? definition : JSON.stringify(definition);
  try {
    const parsed = JSON.parse(text) as unknown;
    if ((typeof parsed === 'object' && parsed !== null) || typeof parsed === 'string') return text;
  } catch (error) {
    throw new TransportError('ERR_SCHEMA', 'The Avro definition is not JSON', { cause: error });
  }
  throw new TransportError('ERR_SCHEMA', 'The Avro definition must be an object, such as {type: "record", ...}');
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function wrongType(expected: string, value: unknown): TransportError {
  return new TransportError('ERR_SERIALIZATION', `The schema takes ${expected}, not ${typeof value}`);
}
