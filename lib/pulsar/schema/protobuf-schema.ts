import { SchemaType } from '../codec/constants.js';
import { describeMessage } from './protobuf-descriptor.js';
import { definitionText } from './primitive-schemas.js';
import { asBuffer, guarded, type Schema, schemaInfo, type SchemaOptions } from './schema.js';

/** A message type of protobufjs, of any copy of it: `root.lookupType('my.package.Message')`. */
export interface ProtobufType {
  readonly fullName: string;
  readonly root: { toJSON(): object };
  verify(message: Record<string, unknown>): string | null;
  encode(message: Record<string, unknown>): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
}

export interface ProtobufSchemaOptions extends SchemaOptions {
  readonly type: ProtobufType;
  /**
   * The Avro definition that Java's `Schema.PROTOBUF` registers, for topics that have one. Without it the topic gets
   * Pulsar's "protobuf native" schema: the descriptors of the message and what it uses.
   */
  readonly definition?: object | string;
}

/** @throws TransportError ERR_SCHEMA if packages refer to each other in a circle */
export function protobufSchema<T extends object = object>(options: ProtobufSchemaOptions): Schema<T> {
  const { type, definition, ...registry } = options;
  return {
    info:
      definition === undefined
        ? schemaInfo(SchemaType.ProtobufNative, describeMessage(type.root.toJSON(), type.fullName), registry)
        : schemaInfo(SchemaType.Protobuf, definitionText(definition), registry),
    encode: (value) =>
      guarded(`The value is not a ${type.fullName}`, () => {
        const message = value as Record<string, unknown>;
        const problem = type.verify(message);
        if (problem !== null) throw new TypeError(problem);
        return asBuffer(type.encode(message).finish());
      }),
    decode: (bytes) => guarded(`The payload is not a ${type.fullName}`, () => type.decode(bytes) as T),
  };
}
