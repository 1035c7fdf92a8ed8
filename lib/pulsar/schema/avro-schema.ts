import { errorText } from '../../error-text.js';
import { TransportError } from '../../errors.js';
import { SchemaType } from '../codec/constants.js';
import { requireAvsc } from './avsc.cjs';
import { definitionText } from './primitive-schemas.js';
import { asBuffer, guarded, type Schema, schemaInfo, type SchemaOptions } from './schema.js';

export interface AvroSchemaOptions extends SchemaOptions {
  /** An Avro schema, such as `{type: 'record', name: 'Reading', fields: [...]}`. */
  readonly definition: object | string;
  /** For `avsc.Type.forSchema`: logical types, how unions are represented. */
  readonly avsc?: object;
  /** The library, if it is not to be found by its name: `import avsc from 'avsc'`. */
  readonly library?: unknown;
}

/**
 * Avro's binary encoding without a header, by the optional peer dependency `avsc`.
 *
 * @throws TransportError ERR_DEPENDENCY if `avsc` is not installed, ERR_SCHEMA if the definition is not Avro
 */
export function avroSchema<T = unknown>(options: AvroSchemaOptions): Schema<T> {
  const { definition, avsc, library = load(), ...registry } = options;
  const text = definitionText(definition);
  const type = parse(library as Avsc, JSON.parse(text), avsc);
  return {
    info: schemaInfo(SchemaType.Avro, text, registry),
    encode: (value) => guarded('The value does not fit the Avro schema', () => asBuffer(type.toBuffer(value))),
    decode: (bytes) => guarded('The payload is not of the Avro schema', () => type.fromBuffer(asBuffer(bytes)) as T),
  };
}

/** What is used of `avsc`. */
interface Avsc {
  readonly Type: { forSchema(schema: unknown, options?: object): AvscType };
}
interface AvscType {
  toBuffer(value: unknown): Uint8Array;
  fromBuffer(bytes: Buffer): unknown;
}

function load(): unknown {
  try {
    return requireAvsc();
  } catch (error) {
    throw new TransportError(
      'ERR_DEPENDENCY',
      "The Avro schema needs a package that is not installed: npm install 'avsc'",
      {
        cause: error,
      },
    );
  }
}

function parse(library: Avsc, definition: unknown, options: object | undefined): AvscType {
  try {
    return library.Type.forSchema(definition, options);
  } catch (error) {
    throw new TransportError('ERR_SCHEMA', `The Avro definition is not valid: ${errorText(error)}`, { cause: error });
  }
}
