export { avroSchema, type AvroSchemaOptions } from './avro-schema.js';
export { bytesSchema, jsonSchema, type JsonSchemaOptions, stringSchema } from './primitive-schemas.js';
export { protobufSchema, type ProtobufSchemaOptions, type ProtobufType } from './protobuf-schema.js';
export { type Schema, type SchemaOptions } from './schema.js';
