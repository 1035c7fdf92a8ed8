import protobuf from 'protobufjs';
import {
  avroSchema,
  bytesSchema,
  jsonSchema,
  type ProducerEvents,
  protobufSchema,
  stringSchema,
} from '../../../lib/pulsar/index.js';
import { storedFrames } from './support/stored.js';
import { PulsarWorld, received } from './support/world.js';

interface Reading {
  readonly device: string;
  readonly value: number;
}

const definition = {
  type: 'record',
  name: 'Reading',
  fields: [
    { name: 'device', type: 'string' },
    { name: 'value', type: 'double' },
  ],
};
const reading: Reading = { device: 'd1', value: 21.5 };
const readingType = protobuf.parse('syntax = "proto3"; message Reading { string device = 1; double value = 2; }').root;

describe('schema of a producer', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each([
    ['string', 1, stringSchema(), 'text', Buffer.from('text')],
    ['JSON', 2, jsonSchema({ definition }), reading, Buffer.from(JSON.stringify(reading))],
    ['Avro', 4, avroSchema({ definition }), reading, Buffer.from('04643100000000008035' + '40', 'hex')],
    [
      'Protobuf',
      20,
      protobufSchema({ type: readingType.lookupType('Reading') }),
      reading,
      Buffer.from('0a02643111' + '0000000000803540', 'hex'),
    ],
  ])(
    '%s: goes with PRODUCER, encodes values, and its version is in every message',
    async (_name, type, schema, value, bytes) => {
      const broker = await world.broker();
      const producer = await world.client(broker).createProducer<unknown>({ topic: 'unit', schema });
      await Promise.all([producer.send({ value }), producer.send({ value, key: 'alone', disableBatching: true })]);
      expect(broker.topic('unit').schemas).toMatchObject([{ type, schemaData: Buffer.from(schema.info!.schemaData) }]);
      expect(broker.topic('unit').messages.map(({ payload }) => payload)).toEqual([bytes, bytes]);
      for (const { metadata } of storedFrames(broker, 'unit')) {
        expect(Buffer.from(metadata.schemaVersion as Uint8Array)).toEqual(Buffer.alloc(8));
      }
    },
  );

  it('registers nothing for bytes', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', schema: bytesSchema });
    await producer.send({ value: Buffer.of(1, 2) });
    expect(broker.topic('unit').schemas).toEqual([]);
    expect(storedFrames(broker, 'unit')[0].metadata.schemaVersion).toBeUndefined();
    expect(broker.topic('unit').messages[0].payload).toEqual(Buffer.of(1, 2));
  });

  it('takes bytes that are encoded already as a payload, and null as a tombstone', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', schema: jsonSchema({ definition }) });
    await Promise.all([
      producer.send({ payload: Buffer.from('{}') }),
      producer.send({ key: 'gone', value: null }),
      producer.send({ key: 'gone', payload: null }),
    ]);
    expect(broker.topic('unit').messages.map(({ payload }) => payload)).toEqual([Buffer.from('{}'), null, null]);
  });

  it('fails the message, and no other, whose value does not fit', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', schema: avroSchema<Reading>({ definition }) });
    const wrong = { device: 7 } as unknown as Reading;
    const results = await Promise.allSettled([
      producer.send({ value: reading }),
      producer.send({ value: wrong }),
      producer.send({ value: reading, payload: Buffer.alloc(1) }),
      producer.send({}),
      producer.send({ value: reading }),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: { code: 'ERR_SERIALIZATION', retriable: false } });
    expect(results[2]).toMatchObject({ reason: { message: expect.stringContaining('there is a payload too') } });
    expect(results[3]).toMatchObject({ reason: { message: expect.stringContaining("'payload'") } });
  });

  it('says so if there is a value and no schema', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await expect(producer.send({ value: 'text' })).rejects.toThrow(/'value': the producer has no schema/);
  });

  it('shows interceptors the value', async () => {
    const broker = await world.broker();
    const seen: unknown[] = [];
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      schema: stringSchema(),
      interceptors: [
        {
          beforeSend: (message) => ({ ...message, value: `${message.value as string}!` }),
          afterReceipt: (message) => seen.push(message.value),
        },
      ],
    });
    await producer.send({ value: 'hello' });
    expect([seen, broker.topic('unit').texts]).toEqual([['hello!'], ['hello!']]);
  });

  it('is refused at once, by topic and the reason that the broker gives, and does not ask again', async () => {
    const broker = await world.broker({ schemaCompatible: () => false });
    const creating = world.client(broker).createProducer({ topic: 'unit', schema: stringSchema() });
    await expect(creating).rejects.toMatchObject({
      code: 'ERR_SCHEMA',
      retriable: false,
      message: expect.stringMatching(/persistent:\/\/public\/default\/unit.*IncompatibleSchema: Incompatible schema/),
    });
    expect(received(broker, 'producer')).toBe(1);
  });

  it('ends a producer whose schema the topic no longer accepts after a reconnect, with all that is pending', async () => {
    let compatible = true;
    const broker = await world.broker({ schemaCompatible: () => compatible });
    const producer = await world.client(broker).createProducer({ topic: 'unit', schema: stringSchema() });
    const ended: ProducerEvents['terminated'][] = [];
    producer.on('terminated', (event) => ended.push(event));
    broker.holdReceipts();
    const pending = producer.send({ value: 'pending' });
    await broker.waitFor(() => received(broker, 'send') === 1);
    compatible = false;
    broker.topic('unit').schemas.length = 0;
    broker.connection!.cut();
    await expect(pending).rejects.toMatchObject({ code: 'ERR_SCHEMA', ambiguous: true });
    expect(ended).toMatchObject([{ cause: { code: 'ERR_SCHEMA' } }]);
    await expect(producer.send({ value: 'later' })).rejects.toMatchObject({ code: 'ERR_SCHEMA', ambiguous: false });
    expect(received(broker, 'producer')).toBe(2);
  });

  it('goes on with the version that the broker gives after a reconnect', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', schema: stringSchema() });
    await producer.send({ value: 'first' });
    const { schemas } = broker.topic('unit');
    schemas.unshift({ ...schemas[0], schemaData: Buffer.from('another') });
    broker.connection!.cut();
    await broker.waitFor(() => received(broker, 'producer') === 2);
    await producer.send({ value: 'second' });
    const versions = storedFrames(broker, 'unit').map(({ metadata }) => (metadata.schemaVersion as Uint8Array)[7]);
    expect(versions).toEqual([0, 1]);
  });
});
