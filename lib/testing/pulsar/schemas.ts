import { type SchemaData } from './commands.js';
import { type PulsarBrokerOptions } from './options.js';
import { type PulsarTopic } from './topic.js';

/** The version of the schema at this topic, new or old, as eight bytes; undefined if it is not compatible. */
export function registerSchema(
  topic: PulsarTopic,
  schema: SchemaData,
  options: PulsarBrokerOptions,
): Buffer | undefined {
  let version = topic.schemas.findIndex((one) => one.type === schema.type && one.schemaData.equals(schema.schemaData));
  if (version < 0) {
    if (options.schemaCompatible?.(topic.name, topic.schemas, schema) === false) return undefined;
    version = topic.schemas.push(schema) - 1;
  }
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(version));
  return bytes;
}
