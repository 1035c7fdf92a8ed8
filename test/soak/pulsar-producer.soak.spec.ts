import { PulsarClient, type PulsarProducer } from '../../lib/pulsar/index.js';
import { InMemoryPulsarBroker, InMemoryPulsarCluster, type PulsarTopic } from '../../lib/testing/index.js';
import { seededRandom } from '../wire/random.js';
import { type Fault, FaultSchedule, pause } from './schedule.js';

const MESSAGES = 1500;
const TOPICS = ['batched', 'single', 'keyed'] as const;
const DEVICES = 5;

function faults(brokers: readonly InMemoryPulsarBroker[], cluster: InMemoryPulsarCluster): Fault[] {
  const any = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)];
  const each = (act: (broker: InMemoryPulsarBroker) => void): void => brokers.forEach(act);
  return [
    { name: 'cut', weight: 3, run: () => each((broker) => broker.cut()) },
    { name: 'reset', weight: 2, run: () => each((broker) => broker.cut({ reset: true })) },
    { name: 'truncate', weight: 1, run: (random) => each((broker) => broker.truncate(1 + Math.floor(random() * 20))) },
    {
      name: 'stall',
      weight: 2,
      run: async (random) => {
        each((broker) => broker.stall());
        await pause(random() * 15);
        each((broker) => broker.unstall());
      },
    },
    {
      name: 'receipts lost with the connection',
      weight: 3,
      run: async (random) => {
        each((broker) => broker.holdReceipts());
        await pause(random() * 10);
        each((broker) => broker.cut());
        each((broker) => broker.releaseReceipts());
      },
    },
    {
      name: 'receipts late',
      weight: 2,
      run: async (random) => {
        each((broker) => broker.holdReceipts());
        await pause(random() * 10);
        each((broker) => broker.releaseReceipts());
      },
    },
    { name: 'unload', weight: 3, run: (random) => brokers[0].unload(any(TOPICS, random)) },
    {
      name: 'moved to another broker',
      weight: 2,
      run: (random) => {
        const topic = any(TOPICS, random);
        const target = any(brokers, random);
        cluster.assign(topic, target);
        brokers[0].unload(topic, random() < 0.5 ? { brokerServiceUrl: target.url } : {});
      },
    },
    { name: 'closed in place', weight: 2, run: (random) => brokers[0].closeProducers(any(TOPICS, random)) },
    {
      name: 'refusals',
      weight: 2,
      run: (random) => {
        each((broker) => {
          broker.failNext(
            'producer',
            any(['ServiceNotReady', 'PersistenceError', 'TooManyRequests'], random),
            'soak',
            2,
          );
          broker.failNext('lookupTopic', 'ServiceNotReady', 'soak', 1);
        });
        brokers[0].unload(any(TOPICS, random));
      },
    },
    {
      name: 'gone and back',
      weight: 1,
      run: async (random) => {
        const broker = any(brokers.slice(1), random);
        await broker.stopListening();
        broker.cut();
        await pause(random() * 20);
        await broker.listen();
      },
    },
  ];
}

/** The stored texts of each device, repetitions removed. */
function firstsByDevice(topic: PulsarTopic): Map<string, number[]> {
  const seen = new Set<string>();
  const numbers = new Map<string, number[]>();
  for (const { payload } of topic.messages) {
    const text = payload?.toString() ?? '';
    if (seen.has(text)) continue;
    seen.add(text);
    const [device, number] = text.split(':') as [string, string];
    numbers.set(device, [...(numbers.get(device) ?? []), Number(number)]);
  }
  return numbers;
}

describe.each([
  [21, false],
  [22, true],
] as const)('PulsarProducer under faults, seed %i, deduplication %s', (seed, deduplication) => {
  it('resolves every send, loses none, keeps the order, and writes frames in order on each connection', async () => {
    const cluster = new InMemoryPulsarCluster();
    cluster.deduplication = deduplication;
    const brokers = [await InMemoryPulsarBroker.start({ cluster }), await InMemoryPulsarBroker.start({ cluster })];
    const random = seededRandom(seed);
    const client = new PulsarClient({
      url: brokers.map(({ url }) => url),
      backoff: { initial: 2, max: 10 },
      operationTimeout: 1_000,
      memoryLimit: 40_000,
    });
    const options = { maxPendingMessages: 64, hashing: 'murmur3' } as const;
    const producers: PulsarProducer[] = [
      await client.createProducer({ ...options, topic: TOPICS[0], name: 'batched', batching: { maxMessages: 10 } }),
      await client.createProducer({ ...options, topic: TOPICS[1], name: 'single', batching: false }),
      await client.createProducer({
        ...options,
        topic: TOPICS[2],
        name: 'keyed',
        // With deduplication, key based batches of interleaved ids would be taken for duplicates.
        batching: deduplication ? { maxMessages: 10 } : { type: 'keyBased', maxMessages: 20 },
      }),
    ];
    const orderBroken: unknown[] = [];
    for (const producer of producers) producer.on('orderBroken', (event) => orderBroken.push(event));
    const schedule = new FaultSchedule(faults(brokers, cluster), { seed, min: 2, max: 20 });
    schedule.start();

    const outcomes: Promise<string>[] = [];
    const flushes: Promise<void>[] = [];
    const next = TOPICS.map(() => Array.from({ length: DEVICES }, () => 0));
    for (let index = 0; index < MESSAGES; index++) {
      const which = Math.floor(random() * producers.length);
      const device = Math.floor(random() * DEVICES);
      const text = `d${device}:${next[which][device]++}`;
      const message = { payload: Buffer.from(text), key: `d${device}`, disableBatching: random() < 0.05 };
      outcomes.push(producers[which].send(message).then(({ messageId }) => `${which} ${text} ${messageId.toString()}`));
      if (index % 97 === 0) flushes.push(producers[which].flush());
      if (index % 10 === 0) await pause(5);
    }
    const resolved = await Promise.all(outcomes);
    await Promise.all(flushes);
    await schedule.stop();
    for (const broker of brokers) broker.unstall();

    expect(brokers.flatMap(({ violations }) => violations)).toEqual([]);
    expect(resolved).toHaveLength(MESSAGES);
    for (const [which, name] of TOPICS.entries()) {
      const topic = cluster.topic(name);
      const firsts = firstsByDevice(topic);
      for (let device = 0; device < DEVICES; device++) {
        const expected = Array.from({ length: next[which][device] }, (_, index) => index);
        expect(firsts.get(`d${device}`)).toEqual(expected);
      }
      // The faults did hit: frames were repeated, and stored twice or dropped as duplicates.
      expect(deduplication ? topic.deduplicated : topic.repeated).toBeGreaterThan(0);
      if (deduplication) expect(topic.messages).toHaveLength(next[which].reduce((sum, count) => sum + count, 0));
    }
    expect(orderBroken).toEqual([]);
    for (const broker of brokers) expectAscending(broker);
    expect([...schedule.counts.keys()].length).toBeGreaterThan(7);
    for (const { stats } of producers) {
      expect(stats).toMatchObject({ failed: 0, pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    }
    expect(client.memory.used).toBe(0);
    await client.close();
    for (const broker of brokers) await broker.close();
  }, 90_000);
});

/** P2 and P3, on every connection: nothing before PRODUCER_SUCCESS, then frames in ascending order of their ids. */
function expectAscending(broker: InMemoryPulsarBroker): void {
  const last = new Map<string, number>();
  for (const { type, direction, connection, packet } of broker.log.entries) {
    const key = (id: unknown): string => `${connection}:${String(id)}`;
    if (type === 'producer') last.delete(key((packet as { producerId: number }).producerId));
    if (type !== 'send' || direction !== 'in') continue;
    const { producerId, sequenceId } = packet as { producerId: number; sequenceId: number };
    expect(sequenceId).toBeGreaterThan(last.get(key(producerId)) ?? -1);
    last.set(key(producerId), sequenceId);
  }
}
