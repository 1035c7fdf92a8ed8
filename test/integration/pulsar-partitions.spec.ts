import { type ProducerEvents, PulsarClient } from '../../lib/pulsar/index.js';
import { idOf, readTopic } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';
import { misplaced, NumberedRun } from './pulsar-run.js';

const KEYS = 12;

// A partitioned topic that grows, with parts of it unloaded, while messages are sent.
describeWithBrokers('Pulsar producer and partitions', () => {
  const { admin, pulsarUrl } = integrationBrokers();
  let topic: string;
  let client: PulsarClient;

  beforeEach(async () => {
    topic = `persistent://public/default/${unique('partitions')}`;
    await admin.createPartitionedTopic(topic, 3);
    client = new PulsarClient({ url: pulsarUrl, backoff: { initial: 50, max: 1_000 } });
  });
  afterEach(() => client.destroy());

  /** What each partition holds, in stored order. */
  const partitions = async (count: number): Promise<number[][]> =>
    Promise.all(
      Array.from({ length: count }, async (_, index) =>
        (await readTopic(pulsarUrl, `${topic}-partition-${index}`)).map(({ payload }) => idOf(payload)),
      ),
    );
  const firsts = (numbers: readonly number[]): number[] => [...new Set(numbers)];
  const ascending = (numbers: readonly number[]): number[] => [...numbers].sort((a, b) => a - b);

  it('grows from 3 to 5: the new partitions are used, the live ones are left alone, each keeps its order', async () => {
    const producer = await client.createProducer({
      topic,
      partitionsUpdateInterval: 100,
      batching: { maxMessages: 10 },
    });
    const run = new NumberedRun(producer);
    const disturbed: unknown[] = [];
    const grown: ProducerEvents['partitionsChanged'][] = [];
    producer.on('disconnected', (event) => disturbed.push(event));
    producer.on('partitionsChanged', (event) => grown.push(event));
    expect(producer.partitionCount).toBe(3);
    run.start(500);
    await run.resolvesMore(100);
    await admin.growPartitions(topic, 5);
    await until('five partitions', () => producer.partitionCount === 5, 60_000);
    await run.sendsMore(300);
    await run.settle();

    const held = await partitions(5);
    expect(ascending(held.flat())).toEqual(Array.from({ length: run.sent }, (_, index) => index));
    for (const numbers of held) {
      expect(numbers.length).toBeGreaterThan(0);
      expect(numbers).toEqual(ascending(numbers));
    }
    expect(grown).toEqual([{ before: 3, now: 5 }]);
    expect(disturbed).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(producer.stats).toMatchObject({ connects: 5, pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    for (const [number, { messageId }] of run.results) expect(held[messageId.partition]).toContain(number);
    expect(await misplaced(admin, topic, run.results)).toEqual([]);
  });

  it('unloads and growth at once: nothing is lost, and each key keeps its order within a partition', async () => {
    const producer = await client.createProducer({ topic, partitionsUpdateInterval: 100 });
    const run = new NumberedRun(producer);
    run.start(500, (number) => ({ key: `device-${number % KEYS}` }));
    for (let round = 0; round < 4; round++) {
      await run.resolvesMore(50);
      await admin.unload(`${topic}-partition-${round % 3}`);
      if (round === 1) await admin.growPartitions(topic, 4);
    }
    await until('four partitions', () => producer.partitionCount === 4, 60_000);
    await run.sendsMore(100);
    await run.settle();

    expect(run.errors.size).toBe(0);
    const held = await partitions(4);
    expect(ascending([...new Set(held.flat())])).toEqual(Array.from({ length: run.sent }, (_, index) => index));
    for (const numbers of held) expect(firsts(numbers)).toEqual(ascending(firsts(numbers)));
    // One partition a key, until the number of partitions changed; two at most then.
    for (let key = 0; key < KEYS; key++) {
      const places = held.filter((numbers) => numbers.some((number) => number % KEYS === key)).length;
      expect(places).toBeGreaterThanOrEqual(1);
      expect(places).toBeLessThanOrEqual(2);
    }
    expect(client.memory.used).toBe(0);
  });

  it('lazy partitions open with their first message', async () => {
    const producer = await client.createProducer({ topic, lazyPartitions: true, routing: (_m, count) => count - 1 });
    expect(producer.stats.connects).toBe(0);
    const run = new NumberedRun(producer);
    run.sendMany(10);
    await run.settle();
    expect(run.errors.size).toBe(0);
    expect(producer.stats.connects).toBe(1);
    expect((await partitions(3)).map((numbers) => numbers.length)).toEqual([0, 0, 10]);
  });
});
