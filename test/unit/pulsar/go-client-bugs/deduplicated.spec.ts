import { PulsarWorld, received, text } from '../support/world.js';

// Row 19 (apache/pulsar-client-go #1395, #1407, apache/pulsar #5476, #6273): batches without their highest id, batches of old
// and new ids of which the broker dropped the new ones too, and -1:-1 taken for a success.
describe('deduplication', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('SEND and metadata of a batch name the highest id', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await Promise.all(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    const [send] = broker.log.received('send');
    expect(send).toMatchObject({ sequenceId: 0, highestSequenceId: 2, numMessages: 3 });
    // The broker checks that the metadata say the same.
    expect(broker.violations).toEqual([]);
  });

  it('a batch holds old ids or new ones, never both, so that nothing new is dropped with the old', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    const numbered = (n: number) => ({ ...text(`m${n}`), sequenceId: n });
    const first = await world.client(broker).createProducer({ topic: 'unit', name: 'gateway' });
    await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((n) => first.send(numbered(n))));
    await first.close();

    const second = await world.client(broker).createProducer({ topic: 'unit', name: 'gateway' });
    const results = await Promise.all([5, 6, 7, 8, 9, 10].map((n) => second.send(numbered(n))));
    expect(broker.topic('unit').texts).toEqual(Array.from({ length: 11 }, (_, n) => `m${n}`));
    expect(results.map(({ deduplicated }) => deduplicated)).toEqual([true, true, true, false, false, false]);
    expect(results[0].messageId.toString()).toBe('-1:-1:-1');
  });

  it('own ids go on behind what the broker has', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    for (const round of [0, 1, 2]) {
      const producer = await world.client(broker).createProducer({ topic: 'unit', name: 'gateway' });
      const results = await Promise.all([0, 1, 2].map((n) => producer.send(text(`${round}.${n}`))));
      expect(results.map(({ sequenceId }) => sequenceId)).toEqual([0, 1, 2].map((n) => round * 3 + n));
      expect(results.every(({ deduplicated }) => !deduplicated)).toBe(true);
      await producer.close();
    }
    expect(broker.topic('unit').messages).toHaveLength(9);
  });

  it('-1:-1 for what was never sent before is a failure, for a resend it is none', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    const producer = await world.client(broker).createProducer({ topic: 'unit', name: 'gateway', batching: false });
    broker.holdReceipts();
    const resent = producer.send(text('stored, its receipt lost'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.cut();
    await broker.waitFor(() => received(broker, 'send') === 2);
    broker.releaseReceipts();
    expect(await resent).toMatchObject({ deduplicated: true });
    expect(broker.topic('unit').texts).toEqual(['stored, its receipt lost']);

    // Somebody else with our name was faster.
    broker.topic('unit').lastSequenceIds.set('gateway', 50);
    await expect(producer.send(text('lost'))).rejects.toMatchObject({ code: 'ERR_DEDUPLICATED', ambiguous: false });
    expect(broker.topic('unit').texts).toEqual(['stored, its receipt lost']);
  });
});
