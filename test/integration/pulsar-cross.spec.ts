/** What we produce, read by clients that are not ours: Pulsar's Java client and its Go client. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import protobuf from 'protobufjs';
import {
  avroSchema,
  jsonSchema,
  pemFiles,
  protobufSchema,
  PulsarClient,
  type ProducerMessage,
  type ProducerOptions,
  type SendResult,
  stringSchema,
} from '../../lib/pulsar/index.js';
import { type CrossMessage, CrossReader, type ReadCommand } from '../cross/reader.js';
import { describeWithBrokers, integrationBrokers, unique } from './harness.js';

describeWithBrokers('what we produce, read by the Java and the Go client', () => {
  let client: PulsarClient;
  let readers: CrossReader[] = [];
  let folder: string;

  beforeAll(async () => {
    const { pulsarUrl } = integrationBrokers();
    folder = mkdtempSync(join(tmpdir(), 'cross-'));
    client = new PulsarClient({ url: pulsarUrl });
    readers = await Promise.all([CrossReader.java(pulsarUrl), CrossReader.go(pulsarUrl)]);
  }, 120_000);

  afterAll(async () => {
    await Promise.all([client.close(), ...readers.map((reader) => reader.close())]);
    rmSync(folder, { recursive: true, force: true });
  });

  interface Produced {
    readonly topic: string;
    readonly name: string;
    readonly results: readonly SendResult[];
  }

  async function produce(
    options: Omit<ProducerOptions, 'topic'>,
    messages: readonly ProducerMessage[],
  ): Promise<Produced> {
    const topic = `persistent://public/default/${unique('cross')}`;
    const producer = await client.createProducer({ topic, ...options });
    try {
      const results = await Promise.all(messages.map((message) => producer.send(message)));
      return { topic, name: producer.name, results };
    } finally {
      await producer.close();
    }
  }

  /** Reads with both clients and compares all that they tell with what was sent. */
  async function verify(
    produced: Produced,
    messages: readonly ProducerMessage[],
    command: Omit<ReadCommand, 'topic' | 'count'> = {},
  ): Promise<void> {
    for (const reader of readers) {
      const found = await reader.read({ topic: produced.topic, count: messages.length, ...command });
      found.forEach((message, index) => compare(reader, message, messages[index], produced, index));
    }
  }

  function compare(
    reader: CrossReader,
    found: CrossMessage,
    sent: ProducerMessage,
    { name, results }: Produced,
    index: number,
  ): void {
    const { messageId, sequenceId } = results[index];
    const java = reader.language === 'java';
    const keyBytes = sent.keyBytes && Buffer.from(sent.keyBytes).toString('base64');
    const orderingKey = sent.orderingKey && Buffer.from(sent.orderingKey);
    expect([reader.language, index, found.payload ?? '']).toEqual([
      reader.language,
      index,
      Buffer.from(sent.payload ?? []).toString('base64'),
    ]);
    expect(found.properties ?? {}).toEqual(sent.properties ?? {});
    expect(found.key ?? '').toBe(keyBytes ?? sent.key ?? '');
    expect(found.eventTime).toBe(sent.eventTime ?? 0);
    expect(found.producerName).toBe(name);
    expect(Math.abs(found.publishTime - Date.now())).toBeLessThan(600_000);
    expect([found.ledgerId, found.entryId, found.batchIndex]).toEqual([
      messageId.ledgerId,
      messageId.entryId,
      messageId.batchIndex,
    ]);
    if (java) {
      expect(found.payload === null).toBe(sent.payload === null);
      expect(found.keyBytes).toBe(keyBytes);
      expect(found.orderingKey).toBe(orderingKey?.toString('base64'));
      expect(found.sequenceId).toBe(sequenceId);
    } else {
      expect(found.orderingKey ?? '').toBe(orderingKey?.toString('latin1') ?? '');
    }
  }

  const various: readonly ProducerMessage[] = [
    { payload: Buffer.from('plain') },
    {
      payload: Buffer.from('with everything'),
      key: 'schlüssel',
      orderingKey: Buffer.from('order'),
      eventTime: 1_700_000_000_123,
      properties: { a: 'b', ключ: 'значение', empty: '' },
    },
    { payload: Buffer.alloc(0), key: 'empty payload' },
    { payload: null, key: 'tombstone' },
    { payload: randomBytes(3000), keyBytes: Buffer.from([0, 255, 1, 254]) },
    { payload: Buffer.from('long property'), properties: { ['k'.repeat(200)]: 'v'.repeat(20_000) } },
  ];

  it.each([
    ['single messages', { batching: false }],
    ['batches', {}],
    ['batches of one key each', { batching: { type: 'keyBased' as const } }],
  ])('keys, properties, times, tombstones and ids of %s', async (_what, options) => {
    const produced = await produce(options, various);
    if (options.batching === undefined) {
      expect(produced.results.some(({ messageId }) => messageId.batchSize > 1)).toBe(true);
    }
    const order = produced.results
      .map((_, index) => index)
      .sort((a, b) => byPlace(produced.results[a], produced.results[b]));
    await verify(
      { ...produced, results: order.map((index) => produced.results[index]) },
      order.map((index) => various[index]),
    );
  });

  it('sequence ids that the caller gives', async () => {
    const messages = [5, 7, 8, 1000, 2 ** 40].map((sequenceId) => ({
      payload: Buffer.from(`${sequenceId}`),
      sequenceId,
    }));
    const produced = await produce({}, messages);
    expect(produced.results.map(({ sequenceId }) => sequenceId)).toEqual([5, 7, 8, 1000, 2 ** 40]);
    await verify(produced, messages);
  });

  it('many messages in many batches, in order', async () => {
    const messages = Array.from({ length: 3000 }, (_, index) => ({ payload: Buffer.from(`message ${index}`) }));
    await verify(await produce({ batching: { maxMessages: 100 } }, messages), messages);
  });

  it.each(['lz4', 'zlib', 'zstd', 'snappy'] as const)('%s compression, in batches and alone', async (compression) => {
    const messages: ProducerMessage[] = [
      { payload: Buffer.from('repeated '.repeat(500)) },
      { payload: randomBytes(2000), key: 'does not compress' },
      { payload: Buffer.of(1), properties: { a: 'b' } },
      { payload: Buffer.alloc(0) },
      { payload: null, key: 'tombstone' },
    ];
    await verify(await produce({ compression }, messages), messages);
    await verify(await produce({ compression, batching: false }, messages), messages);
  });

  const large = (): ProducerMessage[] => [
    { payload: Buffer.from('before') },
    { payload: randomBytes(1_200_000), key: 'large', properties: { a: 'b' } },
    { payload: Buffer.from('after') },
  ];

  it.each([
    ['', {}],
    [' with compression', { compression: 'lz4' as const }],
  ])('messages in chunks%s', async (_what, options) => {
    const messages = large();
    const produced = await produce({ chunking: true, maxChunkBytes: 100_000, batching: false, ...options }, messages);
    expect(produced.results[1].messageId.entryId).toBeGreaterThan(11);
    await verify(produced, messages);
  });

  describe('end-to-end encryption', () => {
    const file = (name: string): string => join(folder, name);

    beforeAll(() => {
      const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
      writeFileSync(file('public.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
      writeFileSync(file('private.pem'), privateKey.export({ type: 'pkcs1', format: 'pem' }));
    });

    it.each([
      ['single messages', { batching: false }],
      ['batches', {}],
      ['compressed batches', { compression: 'zstd' as const }],
      ['compressed chunks', { chunking: true, maxChunkBytes: 100_000, batching: false, compression: 'zlib' as const }],
    ])('of %s', async (_what, options) => {
      const messages = [...large(), { payload: Buffer.from('key'), key: 'k' }, { payload: Buffer.alloc(0) }];
      const small =
        options.chunking === true ? messages : messages.filter(({ payload }) => (payload?.length ?? 0) < 1000);
      const encryption = { keys: ['ours'], keyReader: pemFiles({ ours: file('public.pem') }) };
      const produced = await produce({ encryption, ...options }, small);
      await verify(produced, small, { privateKeys: { ours: file('private.pem') } });
    });
  });

  describe('schemas', () => {
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
    const asMessages = (schemaValues: readonly unknown[]): ProducerMessage[] =>
      schemaValues.map((value) => ({ value }));

    async function readValues(language: 'java' | 'go', command: ReadCommand): Promise<unknown[]> {
      const reader = readers.find((one) => one.language === language);
      return (await reader!.read(command)).map((message) => message.value);
    }

    it('text', async () => {
      const texts = ['temperature', '21 °C', ''];
      const { topic } = await produce({ schema: stringSchema() }, asMessages(texts));
      expect(await readValues('java', { topic, count: 3, schema: 'string' })).toEqual(texts);
      expect(await readValues('java', { topic, count: 3, schema: 'auto' })).toEqual(texts);
    });

    it.each([
      ['JSON', jsonSchema({ definition }), 'json'],
      ['AVRO', avroSchema({ definition }), 'avro'],
    ] as const)('%s', async (schemaType, schema, name) => {
      const { topic } = await produce({ schema }, asMessages(values));
      const expected = values.map(({ device, value }) => ({
        schemaType,
        fields: { device, value: schemaType === 'JSON' ? String(value) : value.toFixed(1) },
      }));
      expect(await readValues('java', { topic, count: 2, schema: 'auto' })).toEqual(expected);
      const text = JSON.stringify(definition);
      expect(await readValues('go', { topic, count: 2, [name]: text })).toEqual(values);
    });

    it('Protobuf', async () => {
      const root = protobuf.parse(
        'syntax = "proto3"; package cross; message Reading { string device = 1; double value = 2; map<string, int32> more = 3; }',
      ).root;
      const schema = protobufSchema({ type: root.lookupType('cross.Reading') });
      const { topic } = await produce({ schema }, asMessages(values));
      expect(await readValues('java', { topic, count: 2, schema: 'auto' })).toMatchObject([
        { schemaType: 'PROTOBUF_NATIVE', fields: { device: 'd1', value: '21.5' } },
        { schemaType: 'PROTOBUF_NATIVE', fields: { device: 'gerät', value: '-1.0' } },
      ]);
    });
  });
});

const byPlace = ({ messageId: a }: SendResult, { messageId: b }: SendResult): number =>
  a.ledgerId - b.ledgerId || a.entryId - b.entryId || a.batchIndex - b.batchIndex;
