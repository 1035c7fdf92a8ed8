import { PulsarBench, texts } from './support/pulsar.js';

// apache/pulsar#26540, #395, #12510, #17446, #15724, streamnative/pulsar#4800, librdkafka#2247.
describe('C35: the queue of a producer is full', () => {
  it('has two on the wire, holds three, and settles all in order once receipts flow', async () => {
    const bench = await PulsarBench.start({ maxPendingMessages: 2 });
    bench.broker.holdReceipts();
    const sent = bench.sendAll(texts(5));
    await bench.sends(2);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(bench.sentOn(1)).toEqual([0, 1]);
    expect(bench.producer.stats).toMatchObject({ pendingMessages: 2, waitingMessages: 3 });
    bench.broker.releaseReceipts();
    await sent;
    expect(bench.resolved).toEqual(texts(5));
    expect(bench.topic.texts).toEqual(texts(5));
    expect(bench.producer.stats).toMatchObject({ pendingMessages: 0, waitingMessages: 0, pendingBytes: 0 });
    expect(bench.client.memory.used).toBe(0);
    await bench.stop();
  });

  it('counts the timeout of a waiting message from its submission', async () => {
    const bench = await PulsarBench.start({ maxPendingMessages: 1, sendTimeout: 60 });
    bench.broker.holdReceipts();
    await bench.sendAll(['written', 'waiting']);
    expect(bench.rejected.map(({ text, error }) => [text, error])).toEqual([
      ['written', expect.objectContaining({ code: 'ERR_SEND_TIMEOUT', ambiguous: true })],
      ['waiting', expect.objectContaining({ code: 'ERR_SEND_TIMEOUT', ambiguous: false })],
    ]);
    expect(bench.sentOn(1)).toEqual([0]);
    await bench.stop();
  });

  it('refuses at once what needs more room than there will ever be', async () => {
    const bench = await PulsarBench.start({}, { client: { memoryLimit: 1000 } });
    await bench.send('x'.repeat(2000));
    expect(bench.rejected[0]?.error).toMatchObject({ retriable: false });
    await bench.send('small');
    expect(bench.resolved).toEqual(['small']);
    await bench.stop();
  });

  it('counts more than the payload, so that empty messages are bounded too', async () => {
    const bench = await PulsarBench.start({ maxPendingMessages: 100_000 }, { client: { memoryLimit: 10_000 } });
    bench.broker.holdReceipts();
    const sent = bench.sendAll(Array.from({ length: 500 }, () => ''));
    await new Promise((resolve) => setTimeout(resolve, 20));
    // A pending message costs some 200 bytes beside its own.
    const { pendingMessages, waitingMessages } = bench.producer.stats;
    expect(pendingMessages).toBeGreaterThan(0);
    expect(pendingMessages).toBeLessThanOrEqual(10_000 / 200);
    expect(pendingMessages + waitingMessages).toBe(500);
    expect(bench.client.memory.used).toBeLessThanOrEqual(10_000);
    bench.broker.releaseReceipts();
    await sent;
    expect(bench.topic.messages).toHaveLength(500);
    expect(bench.client.memory.used).toBe(0);
    await bench.stop();
  });

  it('gives the place of a cancelled waiting message back', async () => {
    const bench = await PulsarBench.start({ maxPendingMessages: 1 });
    bench.broker.holdReceipts();
    const first = bench.send('first');
    const abort = new AbortController();
    const cancelled = bench.producer.send({ payload: Buffer.from('cancelled') }, { signal: abort.signal });
    const third = bench.send('third');
    abort.abort();
    await expect(cancelled).rejects.toMatchObject({ code: 'ERR_ABORTED' });
    bench.broker.releaseReceipts();
    await Promise.all([first, third]);
    expect(bench.topic.texts).toEqual(['first', 'third']);
    expect(bench.producer.stats).toMatchObject({ pendingMessages: 0, waitingMessages: 0, pendingBytes: 0 });
    await bench.stop();
  });
});
