import { PulsarBench } from './support/pulsar.js';

// pulsar-client-go#756, #731: a late receipt closes the connection, and the resend makes duplicates.
describe('C39: the receipt comes after the send timeout', () => {
  it('ignores and counts it, keeps the connection, and matches the later ones', async () => {
    const bench = await PulsarBench.start({ sendTimeout: 60 });
    bench.broker.holdReceipts();
    await bench.send('slow');
    expect(bench.rejected).toEqual([
      { text: 'slow', error: expect.objectContaining({ code: 'ERR_SEND_TIMEOUT', ambiguous: true, retriable: true }) },
    ]);
    const next = bench.send('next');
    await bench.broker.waitFor(() => bench.broker.faults.heldReceipts === 2);
    bench.broker.releaseReceipts();
    await next;
    await bench.send('after');
    expect(bench.resolved).toEqual(['next', 'after']);
    expect(bench.topic.texts).toEqual(['slow', 'next', 'after']);
    expect(bench.producer.stats).toMatchObject({ lateReceipts: 1, possibleDuplicates: 1, connects: 1 });
    expect(bench.broker.allConnections).toHaveLength(1);
    await bench.stop();
  });

  it('is not ambiguous if nothing was written', async () => {
    const bench = await PulsarBench.start({ sendTimeout: 60 });
    await bench.broker.stopListening();
    bench.broker.cut();
    await bench.broker.waitFor(() => bench.producer.state !== 'ready');
    await bench.send('never written');
    expect(bench.rejected[0]?.error).toMatchObject({ code: 'ERR_SEND_TIMEOUT', ambiguous: false });
    await bench.broker.listen();
    await bench.broker.log.waitForReceived('producer', 2);
    await bench.send('written');
    expect(bench.topic.texts).toEqual(['written']);
    await bench.stop();
  });
});
