import { PulsarBench, texts } from './support/pulsar.js';

// apache/pulsar-client-go#1027 (PR #1029), #697: reconnecting, sending and flushing race each other.
describe.each([
  ['single messages', false],
  ['batches', { maxMessages: 7, maxDelay: 1 }],
] as const)('C36: reconnect beside send() and flush(), %s', (_name, batching) => {
  it('sends again in order from the oldest without a receipt, then what is new, over one reconnect', async () => {
    const bench = await PulsarBench.start({ batching, maxPendingMessages: 1000 });
    bench.broker.holdReceipts();
    const settled = [bench.sendAll(texts(100))];
    await bench.broker.waitFor(() => bench.topic.messages.length === 100);
    const before = bench.sentOn(1);
    bench.broker.faults.dropReceipts();
    const settledAtFlush: number[] = [];
    let flushed: Promise<void> | undefined;
    // In the middle of the re-creation, when PRODUCER is at the broker and its answer is not back.
    const remove = bench.broker.onReceive((type) => {
      if (type !== 'producer') return undefined;
      settled.push(bench.sendAll(texts(50, 100)));
      flushed = bench.producer.flush().then(() => void settledAtFlush.push(bench.resolved.length));
      return undefined;
    });
    bench.broker.cut();
    await bench.broker.log.waitForReceived('producer', 2);
    remove();
    bench.broker.releaseReceipts();
    await Promise.all(settled.flat());
    await flushed;

    const again = bench.sentOn(2);
    expect(again.slice(0, before.length)).toEqual(before);
    expect(again).toEqual([...again].sort((a, b) => a - b));
    const numbers = bench.broker.log
      .received('send', { connection: 2 })
      .flatMap((body) => body.messages?.map((message) => message.sequenceId) ?? []);
    expect(numbers).toEqual(Array.from({ length: 150 }, (_, index) => index));
    expect(bench.resolved).toEqual(texts(150));
    expect(bench.rejected).toEqual([]);
    expect(settledAtFlush).toEqual([150]);
    expect(bench.broker.allConnections).toHaveLength(2);
    expect(bench.producer.stats).toMatchObject({ connects: 2, pendingMessages: 0, resentFrames: before.length });
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });

  it('closes once at a receipt larger than expected, and ignores a smaller one', async () => {
    const bench = await PulsarBench.start({ batching });
    await bench.send('done');
    bench.broker.holdReceipts();
    const open = bench.sendAll(texts(3));
    await bench.broker.waitFor(() => bench.topic.messages.length === 4);
    const { producerId } = bench.broker.log.received('send')[0];
    const receipt = (sequenceId: number): void =>
      bench.broker.connection!.send('sendReceipt', {
        producerId,
        sequenceId,
        messageId: { ledgerId: 1, entryId: 0 },
      });
    receipt(0);
    await bench.broker.waitFor(() => bench.producer.stats.lateReceipts === 1);
    expect(bench.broker.connections).toHaveLength(1);
    bench.broker.faults.dropReceipts();
    bench.broker.releaseReceipts();
    receipt(3000);
    await open;
    expect(bench.resolved).toEqual(['done', ...texts(3)]);
    expect(bench.broker.allConnections).toHaveLength(2);
    await bench.stop();
  });
});
