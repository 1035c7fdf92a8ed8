/** What we produce, read by clients that are not ours: everything but encryption and schemas. */
import { randomBytes } from 'node:crypto';
import { type ProducerMessage, type ProducerOptions } from '../../lib/pulsar/index.js';
import { CrossWorld, describeWithReaders } from '../cross/world.js';
import { unique } from './harness.js';

describeWithReaders('messages, read by the Java and the Go client', () => {
  let world: CrossWorld;
  beforeAll(async () => {
    world = await CrossWorld.open();
  });
  afterAll(() => world?.close());

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
    { payload: Buffer.from('same key'), key: 'schlüssel' },
  ];

  it.each<[string, Partial<ProducerOptions>]>([
    ['single messages', { batching: false }],
    ['batches', {}],
    ['batches of one key each', { batching: { type: 'keyBased' } }],
  ])('keys, properties, times, tombstones and ids of %s', async (_what, options) => {
    const produced = await world.produce(options, various);
    const sizes = produced.results.map(({ messageId }) => messageId.batchSize);
    expect(sizes.some((size) => size > 1)).toBe(options.batching !== false);
    await world.verify(produced, various);
  });

  it('sequence ids that the caller gives, in batches and alone, on a topic with deduplication', async () => {
    const namespace = `public/${unique('dedup')}`;
    await world.admin.createNamespace(namespace);
    await world.admin.setNamespaceDeduplication(namespace, true);
    const ids = [5, 7, 8, 1000, 2 ** 40];
    const messages = ids.map((sequenceId, index) => ({
      payload: Buffer.from(`${sequenceId}`),
      sequenceId,
      disableBatching: index === 3,
    }));
    const produced = await world.produce({ topic: `persistent://${namespace}/ids`, name: 'ours' }, messages);
    expect(produced.results.map(({ sequenceId, deduplicated }) => [sequenceId, deduplicated])).toEqual(
      ids.map((id) => [id, false]),
    );
    await world.verify(produced, messages);
    // The broker has the highest id of the last batch, not its first: a producer of the same name goes on after it.
    const next = await world.produce({ topic: produced.topic, name: 'ours' }, [{ payload: Buffer.from('next') }]);
    expect(next.results[0].sequenceId).toBe(2 ** 40 + 1);
  });

  it('many messages in many batches, in order', async () => {
    const messages = Array.from({ length: 3000 }, (_, index) => ({ payload: Buffer.from(`message ${index}`) }));
    await world.verify(await world.produce({ batching: { maxMessages: 100 } }, messages), messages);
  });

  it.each(['lz4', 'zlib', 'zstd', 'snappy'] as const)('%s compression, in batches and alone', async (compression) => {
    const messages: ProducerMessage[] = [
      { payload: Buffer.from('repeated '.repeat(500)) },
      { payload: randomBytes(2000), key: 'does not compress' },
      { payload: Buffer.of(1), properties: { a: 'b' } },
      { payload: Buffer.alloc(0) },
      { payload: null, key: 'tombstone' },
    ];
    await world.verify(await world.produce({ compression }, messages), messages);
    await world.verify(await world.produce({ compression, batching: false }, messages), messages);
  });

  it.each<[string, Partial<ProducerOptions>]>([
    ['', {}],
    [' with compression', { compression: 'lz4' }],
  ])('messages in chunks%s', async (_what, options) => {
    const messages: ProducerMessage[] = [
      { payload: Buffer.from('before') },
      { payload: randomBytes(1_200_000), key: 'large', properties: { a: 'b' }, eventTime: 1_700_000_000_000 },
      { payload: Buffer.from('after') },
    ];
    const produced = await world.produce({ chunking: true, maxChunkBytes: 100_000, ...options }, messages);
    expect(produced.results[1].messageId.entryId).toBeGreaterThan(11);
    await world.verify(produced, messages);
  });

  it('delayed messages, not before their time, and those after them at once', async () => {
    const due = Date.now() + 4000;
    const messages: ProducerMessage[] = [
      { payload: Buffer.from('at'), deliverAt: due },
      { payload: Buffer.from('after'), deliverAfter: 3500 },
      { payload: Buffer.from('at once') },
    ];
    const { topic, results } = await world.produce({}, messages);
    // Entries of their own: a batch has no time.
    expect(results.map(({ messageId }) => messageId.batchIndex)).toEqual([-1, -1, 0]);
    const both = (['java', 'go'] as const).map((language) => world.read(language, { topic, count: 3, shared: true }));
    const [java, go] = await Promise.all(both);
    for (const found of [java, go]) {
      expect(found.map(({ payload }) => Buffer.from(payload ?? '', 'base64').toString()).sort()).toEqual([
        'after',
        'at',
        'at once',
      ]);
      expect(found[0].payload).toBe(Buffer.from('at once').toString('base64'));
      for (const { receivedAt, entryId } of found.slice(1)) {
        // The broker looks once a second and hands out what is due by then.
        expect(receivedAt).toBeGreaterThan((entryId === results[0].messageId.entryId ? due : due - 1000) - 1500);
      }
    }
    const at = java.find(({ entryId }) => entryId === results[0].messageId.entryId);
    expect(at?.deliverAt).toBe(due);
  });

  it('replication to chosen clusters, and to none', async () => {
    const messages: ProducerMessage[] = [
      { payload: Buffer.from('chosen'), replicationClusters: ['standalone', 'elsewhere'] },
      { payload: Buffer.from('nowhere'), replicationClusters: [] },
      { payload: Buffer.from('everywhere') },
    ];
    const found = await world.verify(await world.produce({}, messages), messages);
    expect(found.map(({ replicateTo }) => replicateTo)).toEqual([['standalone', 'elsewhere'], ['__local__'], []]);
  });
});
