import { PulsarWorld, received, text } from '../support/world.js';

// Row 21 (apache/pulsar-client-go #1437): a failed look at the number of partitions closed the producers that worked.
describe('growth of partitions', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('a failed look, or a partition that cannot be opened, leaves the others alone; the next look finds it', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 2);
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', partitionsUpdateInterval: 20, batching: { maxMessages: 1 } });
    const disturbed: unknown[] = [];
    producer.on('disconnected', (event) => disturbed.push(event));
    producer.on('terminated', (event) => disturbed.push(event));
    const looks = received(broker, 'partitionMetadata');
    broker.failNext('partitionMetadata', 'MetadataError', 'scripted', 2);
    broker.failNext('partitionMetadata', 'AuthorizationError', 'scripted', 1);
    broker.failNext('partitionMetadata', 'TopicNotFound', 'scripted', 1);
    await broker.waitFor(() => received(broker, 'partitionMetadata') >= looks + 5);
    await Promise.all(['a', 'b', 'c', 'd'].map((value) => producer.send(text(value))));

    broker.failNext('lookupTopic', 'ServiceNotReady', 'scripted', 3);
    broker.cluster.setPartitions('unit', 3);
    await broker.waitFor(() => producer.partitionCount === 3);
    const values = Array.from({ length: 30 }, (_, n) => `m${n}`);
    await Promise.all(values.map((value) => producer.send(text(value))));
    const counts = [0, 1, 2].map((index) => broker.topic(`unit-partition-${index}`).messages.length);
    expect(counts.reduce((sum, count) => sum + count)).toBe(34);
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(disturbed).toEqual([]);
    expect(broker.allConnections).toHaveLength(1);
    expect(producer.stats).toMatchObject({ connects: 3, failed: 0 });
  });

  it('fewer partitions than before change nothing', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 3);
    const producer = await world.client(broker).createProducer({ topic: 'unit', partitionsUpdateInterval: 20 });
    const looks = received(broker, 'partitionMetadata');
    broker.cluster.setPartitions('unit', 1);
    await broker.waitFor(() => received(broker, 'partitionMetadata') >= looks + 2);
    expect(producer.partitionCount).toBe(3);
    await producer.send(text('a'));
  });
});
