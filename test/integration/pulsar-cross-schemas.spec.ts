/** What we encode by a schema, decoded by clients that are not ours with what the broker's registry has. */
import protobuf from 'protobufjs';
import { avroSchema, jsonSchema, protobufSchema, type Schema, stringSchema } from '../../lib/pulsar/index.js';
import { CrossWorld, describeWithReaders } from '../cross/world.js';
import { unique } from './harness.js';

const definition = {
  type: 'record',
  name: 'Reading',
  fields: [
    { name: 'device', type: 'string' },
    { name: 'value', type: 'double' },
  ],
};
const values = [
  { device: 'd1', value: 21.5 },
  { device: 'gerät', value: -1 },
];

describeWithReaders('schemas, read by the Java and the Go client', () => {
  let world: CrossWorld;
  beforeAll(async () => {
    world = await CrossWorld.open();
  });
  afterAll(() => world?.close());

  async function produce(schema: Schema<unknown>, all: readonly unknown[]): Promise<string> {
    const { topic } = await world.produce(
      { schema },
      all.map((value) => ({ value })),
    );
    return topic;
  }

  it('text', async () => {
    const texts = ['temperature', '21 °C', ''];
    const topic = await produce(stringSchema(), texts);
    const read = await world.read('java', { topic, count: 3, schema: 'string' });
    expect(read.map(({ value }) => value)).toEqual(texts);
    expect(read.map(({ schemaVersion }) => schemaVersion)).toEqual(texts.map(() => 'AAAAAAAAAAA='));
    const auto = await world.read('java', { topic, count: 3, schema: 'auto' });
    expect(auto.map(({ value }) => value)).toMatchObject(texts.map(() => ({ schemaType: 'STRING' })));
  });

  it.each([
    ['JSON', jsonSchema({ definition }), 'json'],
    ['AVRO', avroSchema({ definition }), 'avro'],
  ] as const)('%s', async (schemaType, schema, name) => {
    const topic = await produce(schema, values);
    const java = await world.read('java', { topic, count: 2, schema: 'auto' });
    expect(java.map(({ value }) => value)).toEqual(
      values.map(({ device, value }) => ({
        schemaType,
        fields: { device, value: schemaType === 'JSON' ? String(value) : value.toFixed(1) },
      })),
    );
    const go = await world.read('go', { topic, count: 2, [name]: JSON.stringify(definition) });
    expect(go.map(({ value }) => value)).toEqual(values);
  });

  it('Protobuf', async () => {
    const { root } = protobuf.parse(
      'syntax = "proto3"; package cross; message Reading { string device = 1; double value = 2; map<string, int32> more = 3; }',
    );
    const topic = await produce(protobufSchema({ type: root.lookupType('cross.Reading') }), values);
    const java = await world.read('java', { topic, count: 2, schema: 'auto' });
    expect(java.map(({ value }) => value)).toMatchObject([
      { schemaType: 'PROTOBUF_NATIVE', fields: { device: 'd1', value: '21.5' } },
      { schemaType: 'PROTOBUF_NATIVE', fields: { device: 'gerät', value: '-1.0' } },
    ]);
  });

  it('tombstones, and payloads that are encoded already', async () => {
    const payload = Buffer.from(JSON.stringify(values[0]));
    const messages = [
      { payload, key: 'a' },
      { value: null, key: 'a' },
    ];
    const { topic } = await world.produce({ schema: jsonSchema({ definition }) }, messages);
    const java = await world.read('java', { topic, count: 2, schema: 'auto' });
    expect(java.map(({ payload: bytes }) => bytes)).toEqual([payload.toString('base64'), null]);
  });

  it('a compatible change gets a new version, and both are read', async () => {
    const topic = `persistent://public/default/${unique('evolved')}`;
    const wider = {
      ...definition,
      fields: [...definition.fields, { name: 'unit', type: ['null', 'string'], default: null }],
    };
    await world.produce({ topic, schema: avroSchema({ definition }) }, [{ value: values[0] }]);
    await world.produce({ topic, schema: avroSchema({ definition: wider }) }, [{ value: { ...values[1], unit: 'C' } }]);
    const java = await world.read('java', { topic, count: 2, schema: 'auto' });
    expect(java.map(({ schemaVersion }) => schemaVersion)).toEqual(['AAAAAAAAAAA=', 'AAAAAAAAAAE=']);
    expect(java[1].value).toMatchObject({ fields: { device: 'gerät', unit: 'C' } });
  });

  it('an incompatible one is refused at once, with the topic and the reason of the broker', async () => {
    const topic = `persistent://public/default/${unique('refused')}`;
    await world.produce({ topic, schema: avroSchema({ definition }) }, [{ value: values[0] }]);
    const other = { ...definition, fields: [{ name: 'count', type: 'int' }] };
    const creating = world.client.createProducer({ topic, schema: avroSchema({ definition: other }) });
    await expect(creating).rejects.toMatchObject({ code: 'ERR_SCHEMA', retriable: false });
    await expect(creating).rejects.toThrow(topic);
    await expect(creating).rejects.toThrow(/IncompatibleSchema: .*Unable to read schema/s);
    const asText = world.client.createProducer({ topic, schema: stringSchema() });
    await expect(asText).rejects.toMatchObject({ code: 'ERR_SCHEMA', message: expect.stringContaining(topic) });
  });
});
