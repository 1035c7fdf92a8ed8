import { PulsarBench } from './support/pulsar.js';

// pulsar-client-go#1057, #1258, #1042, apache/pulsar#5666, pulsar-client-cpp#98, #303.
describe.each([
  ['single messages', false],
  ['batches', { maxDelay: 60_000 }],
] as const)('C37: flush(), %s', (_name, batching) => {
  it('resolves after the sends before it, not after those behind it', async () => {
    const bench = await PulsarBench.start({ batching });
    bench.broker.holdReceipts();
    const order: string[] = [];
    const first = bench.send('first').then(() => order.push('first'));
    const flush = bench.producer.flush().then(() => order.push('flush'));
    // A flush does not hold up what is sent in the same turn, which may share a batch; what comes later cannot.
    await bench.sends(1);
    const later = bench.send('later').then(() => order.push('later'));
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(order).toEqual([]);
    bench.broker.releaseReceipts({ count: 1 });
    await Promise.all([first, flush]);
    expect(order).toEqual(['first', 'flush']);
    const last = bench.producer.flush();
    await bench.sends(2);
    bench.broker.releaseReceipts();
    await Promise.all([later, last]);
    expect(order).toEqual(['first', 'flush', 'later']);
    await bench.stop();
  });

  it('sends in order and covers its part when send, flush and send come in one turn', async () => {
    const bench = await PulsarBench.start({ batching });
    bench.broker.holdReceipts();
    const order: string[] = [];
    const first = bench.send('first').then(() => order.push('first'));
    const flush = bench.producer.flush().then(() => order.push('flush'));
    const later = bench.send('later').then(() => order.push('later'));
    await bench.broker.waitFor(() => bench.topic.texts.includes('first'));
    expect(order).toEqual([]);
    bench.broker.releaseReceipts({ count: 1 });
    await Promise.all([first, flush]);
    expect(order.indexOf('flush')).toBeGreaterThan(order.indexOf('first'));
    bench.broker.releaseReceipts();
    await Promise.all([later, bench.producer.flush()]);
    expect(bench.topic.texts).toEqual(['first', 'later']);
    await bench.stop();
  });

  it('waits for what is under way when there is nothing to write', async () => {
    const bench = await PulsarBench.start({ batching });
    bench.broker.holdReceipts();
    const sent = bench.send('under way');
    const flushes = [bench.producer.flush(), bench.producer.flush(), bench.producer.flush()];
    let settled = 0;
    for (const flush of flushes) void flush.then(() => settled++);
    await bench.broker.waitFor(() => bench.broker.faults.heldReceipts === 1);
    expect(settled).toBe(0);
    bench.broker.releaseReceipts();
    await Promise.all(flushes);
    await sent;
    await bench.producer.flush();
    await bench.stop();
  });

  it('rejects if something before it failed', async () => {
    const bench = await PulsarBench.start({ batching });
    bench.broker.failNext('send', 'NotAllowedError', 'no');
    const sent = bench.send('refused');
    await expect(bench.producer.flush()).rejects.toMatchObject({ code: 'ERR_BROKER' });
    await sent;
    await expect(bench.producer.flush()).resolves.toBeUndefined();
    await bench.stop();
  });
});
