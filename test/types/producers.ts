/** Compile-only checks of producers with a schema: part of `npm run typecheck`, never run. See `handlers.ts`. */
import {
  avroSchema,
  jsonSchema,
  pemFiles,
  type ProducerMessage,
  PulsarClient,
  PulsarClientProxy,
  type PulsarProducer,
  stringSchema,
} from '../../lib/index.js';

interface Reading {
  readonly celsius: number;
}

const client = new PulsarClient({ url: 'pulsar://localhost' });
const definition = { type: 'record', name: 'Reading', fields: [{ name: 'celsius', type: 'double' }] };

export async function typedByItsSchema(): Promise<void> {
  const producer: PulsarProducer<Reading> = await client.createProducer({
    topic: 't',
    schema: jsonSchema<Reading>({ definition }),
    encryption: { keys: ['k'], keyReader: pemFiles({ k: '/keys/k.pem' }), failureAction: 'fail' },
    compression: 'zstd',
  });
  await producer.send({ value: { celsius: 1 }, key: 'k' });
  await producer.send({ value: null });
  await producer.send({ payload: Buffer.from('{}') });
  // @ts-expect-error -- not a Reading
  await producer.send({ value: { fahrenheit: 1 } });
  const text = await client.createProducer({ topic: 't', schema: stringSchema() });
  // @ts-expect-error -- not a string
  await text.send({ value: 1 });
}

export async function untyped(): Promise<void> {
  const producer = await client.createProducer({ topic: 't' });
  const message: ProducerMessage = { value: 1 };
  await producer.send(message);
  const any: PulsarProducer = await client.createProducer({ topic: 't', schema: avroSchema({ definition }) });
  await any.send({ value: { celsius: 1 } });
}

export const byTopic = new PulsarClientProxy({
  url: 'pulsar://localhost',
  producer: (topic) => (topic.endsWith('/text') ? { schema: stringSchema() } : { compression: 'lz4' }),
});
// @ts-expect-error -- no such compression
export const misspelt = new PulsarClientProxy({ url: 'pulsar://localhost', producer: { compression: 'gzip' } });
