import { PulsarBench, texts } from './support/pulsar.js';

// apache/pulsar#12197, #11780, pulsar-client-go#1059, pulsar-client-node#78; measured on the Go client: 1,974 of 5,000
// callbacks are never called.
describe.each([
  ['single messages', false],
  ['batches', { maxDelay: 60_000 }],
] as const)('C38: close() with messages under way, %s', (_name, batching) => {
  it('sends what it has, then closes', async () => {
    const bench = await PulsarBench.start({ batching, maxPendingMessages: 4 });
    const sent = bench.sendAll(texts(10));
    const closed = bench.producer.close();
    expect(bench.producer.close()).toBe(closed);
    await closed;
    await sent;
    expect(bench.resolved).toEqual(texts(10));
    expect(bench.topic.texts).toEqual(texts(10));
    expect(bench.broker.log.received('closeProducer')).toHaveLength(1);
    await bench.send('late');
    expect(bench.rejected).toEqual([{ text: 'late', error: expect.objectContaining({ code: 'ERR_CLOSED' }) }]);
    await bench.stop();
  });

  it('fails the rest once each when the broker never answers', async () => {
    const bench = await PulsarBench.start({ batching, maxPendingMessages: 4 });
    bench.broker.silenceNext('send', 1000);
    bench.broker.silenceNext('closeProducer', 1000);
    const sent = bench.sendAll(texts(10));
    await bench.producer.close({ timeout: 50 });
    await sent;
    expect(bench.resolved).toEqual([]);
    expect(bench.rejected.map(({ text }) => text)).toEqual(texts(10));
    for (const { error } of bench.rejected) expect(error).toMatchObject({ code: 'ERR_CLOSED' });
    expect(bench.client.memory.used).toBe(0);
    await bench.stop();
  });

  it('resolves while there is no broker', async () => {
    const bench = await PulsarBench.start({ batching });
    await bench.broker.stopListening();
    bench.broker.cut();
    await bench.broker.waitFor(() => bench.producer.state !== 'ready');
    const sent = bench.sendAll(texts(3));
    await bench.producer.close({ timeout: 50 });
    await sent;
    expect(bench.rejected.map(({ text }) => text)).toEqual(texts(3));
    for (const { error } of bench.rejected) expect(error).toMatchObject({ code: 'ERR_CLOSED', ambiguous: false });
    await bench.stop();
  });
});
