import { systemClock } from '../../../lib/net/clock.js';
import { type PulsarProducer } from '../../../lib/pulsar/index.js';
import { javaStringHash, murmur3Hash } from '../../../lib/pulsar/protocol/hashes.js';
import { type InMemoryPulsarBroker } from '../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** Topics with partitions, through the whole client. */
describe('partitioned topics', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  const stored = (broker: InMemoryPulsarBroker, count: number): string[][] =>
    Array.from({ length: count }, (_, index) => broker.topic(`unit-partition-${index}`).texts);

  it('turns round robin with each batch time, not with each message and not after 1,000 of them', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 3);
    let shift = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + shift };
    const producer = await world
      .client(broker, { clock })
      .createProducer({ topic: 'unit', batching: { maxDelay: 60_000 } });
    for (let round = 0; round < 4; round++) {
      await Promise.all([0, 1, 2, 3, 4].map((n) => producer.send(text(`${round}.${n}`))));
      shift += 60_000;
    }
    const groups = stored(broker, 3);
    const round = (n: number): string[] => [0, 1, 2, 3, 4].map((m) => `${n}.${m}`);
    const first = groups.findIndex((texts) => texts.includes('0.0'));
    const turned = [0, 1, 2].map((n) => groups[(first + n) % 3]);
    expect(turned).toEqual([[...round(0), ...round(3)], round(1), round(2)]);
  });

  it('turns round robin when the batch is full, by messages and by bytes', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 2);
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', batching: { maxDelay: 60_000, maxMessages: 4, maxBytes: 1000 } });
    await Promise.all(Array.from({ length: 8 }, (_, n) => producer.send(text(`${n}`))));
    const bySize = stored(broker, 2).sort((a, b) => Number(a[0]) - Number(b[0]));
    expect(bySize).toEqual([
      ['0', '1', '2', '3'],
      ['4', '5', '6', '7'],
    ]);
    await Promise.all([0, 1, 2, 3].map(() => producer.send({ payload: Buffer.alloc(600, 'x') })));
    expect(stored(broker, 2).map((texts) => texts.length)).toEqual([6, 6]);
  });

  it.each([
    ['javaString', javaStringHash],
    ['murmur3', murmur3Hash],
  ] as const)('sends a key to its partition by %s, whatever the routing of the others', async (hashing, hash) => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 5);
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', hashing, routing: 'single', lazyPartitions: true });
    const keys = ['a', 'device-1', 'device-2', 'ключ', ''];
    await Promise.all(keys.map((key) => producer.send({ ...text(key), key })));
    for (const key of keys) {
      expect(broker.topic(`unit-partition-${hash(Buffer.from(key)) % 5}`).texts).toContain(key);
    }
    await Promise.all([1, 2, 3].map((n) => producer.send(text(`keyless ${n}`))));
    expect(stored(broker, 5).filter((texts) => texts.some((value) => value.startsWith('keyless')))).toHaveLength(1);
  });

  it('opens a lazy partition with its first message, and keeps the order of what waits for it', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 4);
    let choice = 2;
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', lazyPartitions: true, routing: () => choice, batching: false });
    expect(received(broker, 'producer')).toBe(0);
    expect(producer).toMatchObject({ state: 'ready', partitionCount: 4 });
    const results = await Promise.all(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    expect(results.map(({ messageId }) => messageId.partition)).toEqual([2, 2, 2]);
    expect(received(broker, 'producer')).toBe(1);
    choice = 0;
    await producer.send(text('d'));
    expect(received(broker, 'producer')).toBe(2);
    expect(stored(broker, 4)).toEqual([['d'], [], ['a', 'b', 'c'], []]);
    await producer.close();
    expect(producer.state).toBe('closed');
  });

  describe('that grow', () => {
    const grown = (producer: PulsarProducer): Promise<{ before: number; now: number }> =>
      new Promise((resolve) => producer.on('partitionsChanged', resolve));

    it('takes new partitions into use while what is under way in the old ones goes on', async () => {
      const broker = await world.broker();
      broker.cluster.setPartitions('unit', 2);
      let choice = 0;
      const producer = await world
        .client(broker)
        .createProducer({ topic: 'unit', partitionsUpdateInterval: 20, routing: () => choice, batching: false });
      const lost: unknown[] = [];
      producer.on('disconnected', (event) => lost.push(event));
      broker.holdReceipts();
      const held = producer.send(text('held'));
      const change = grown(producer);
      broker.cluster.setPartitions('unit', 4);
      await expect(change).resolves.toEqual({ before: 2, now: 4 });
      choice = 3;
      const later = producer.send(text('later'));
      await broker.waitFor(() => received(broker, 'send') === 2);
      broker.releaseReceipts();
      await expect(held).resolves.toMatchObject({ messageId: { partition: 0 } });
      await expect(later).resolves.toMatchObject({ messageId: { partition: 3 } });
      expect(producer.partitionCount).toBe(4);
      expect(producer.stats).toMatchObject({ resentFrames: 0, connects: 4 });
      expect(lost).toEqual([]);
    });

    it('leaves the old partitions alone when the look fails, and when a new one cannot be opened', async () => {
      const broker = await world.broker();
      broker.cluster.setPartitions('unit', 2);
      let choice = 1;
      const producer = await world
        .client(broker)
        .createProducer({ topic: 'unit', partitionsUpdateInterval: 20, routing: () => choice });
      broker.failNext('partitionMetadata', 'ServiceNotReady', 'not now', 2);
      const change = grown(producer);
      broker.cluster.setPartitions('unit', 3);
      // The third partition's producer is refused until the end.
      broker.failNext('producer', 'ServiceNotReady', 'not now', 3);
      await change;
      await producer.send(text('old'));
      choice = 2;
      const late = producer.send(text('new'));
      choice = 0;
      await producer.send(text('old'));
      await late;
      expect(stored(broker, 3)).toEqual([['old'], ['old'], ['new']]);
    });

    it('opens a new partition of a lazy producer with its first message only', async () => {
      const broker = await world.broker();
      broker.cluster.setPartitions('unit', 1);
      let choice = 0;
      const producer = await world.client(broker).createProducer({
        topic: 'unit',
        lazyPartitions: true,
        partitionsUpdateInterval: 20,
        routing: () => choice,
      });
      await producer.send(text('a'));
      const change = grown(producer);
      broker.cluster.setPartitions('unit', 2);
      await change;
      expect(received(broker, 'producer')).toBe(1);
      choice = 1;
      await producer.send(text('b'));
      expect(stored(broker, 2)).toEqual([['a'], ['b']]);
    });
  });
});
