import { PulsarWorld, received, text, watch } from './support/world.js';

/** a full producer queue waits, in order; it neither fails at once nor queues without a bound on bytes. */
describe('producer queue full', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('has two messages on the wire, three waiting, and settles all in order', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', maxPendingMessages: 2, batching: false });
    broker.holdReceipts();
    const settled: number[] = [];
    const sends = [0, 1, 2, 3, 4].map((n) => producer.send(text(`m${n}`)).then(() => settled.push(n)));
    await broker.waitFor(() => received(broker, 'send') === 2);
    expect(producer.stats).toMatchObject({ pendingMessages: 2, waitingMessages: 3 });
    broker.releaseReceipts();
    await Promise.all(sends);
    expect(settled).toEqual([0, 1, 2, 3, 4]);
    expect(broker.topic('unit').texts).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
  });

  it('counts the send timeout from the call, also for those that wait', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', maxPendingMessages: 1, batching: false, sendTimeout: 100 });
    broker.holdReceipts();
    const results = await Promise.allSettled([producer.send(text('written')), producer.send(text('waiting'))]);
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: 'ERR_SEND_TIMEOUT', ambiguous: true } },
      { status: 'rejected', reason: { code: 'ERR_SEND_TIMEOUT', ambiguous: false } },
    ]);
    expect(received(broker, 'send')).toBe(1);
  });

  it('rejects at once what is larger than the whole budget, and counts small messages with their overhead', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { memoryLimit: 2000 });
    const producer = await client.createProducer({ topic: 'unit', batching: false });
    await expect(producer.send({ payload: Buffer.alloc(3000) })).rejects.toMatchObject({
      code: 'ERR_MESSAGE_TOO_LARGE',
      limit: 2000,
    });
    broker.holdReceipts();
    const sends = Array.from({ length: 100 }, () => producer.send({ payload: Buffer.alloc(1) }));
    await broker.waitFor(() => received(broker, 'send') > 0);
    expect(client.memory.used).toBeLessThanOrEqual(2000);
    expect(producer.stats.pendingMessages).toBeLessThan(20);
    broker.releaseReceipts();
    await Promise.all(sends);
    expect(client.memory.used).toBe(0);
  });

  it('shares the memory limit between producers, and whoever waits goes on when the other is done', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { memoryLimit: 5000 });
    const one = await client.createProducer({ topic: 'unit-one' });
    const two = await client.createProducer({ topic: 'unit-two' });
    broker.holdReceipts();
    const first = one.send({ payload: Buffer.alloc(4000) });
    await broker.waitFor(() => received(broker, 'send') === 1);
    const second = two.send({ payload: Buffer.alloc(4000) });
    const watched = watch(second);
    expect(watched.state).toBe('pending');
    broker.releaseReceipts();
    await Promise.all([first, second]);
    expect(client.memory.used).toBe(0);
  });

  it('gives memory in the order of asking: a large message is not starved by small ones of another producer', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { memoryLimit: 10_000 });
    const one = await client.createProducer({ topic: 'unit-one', batching: false });
    const two = await client.createProducer({ topic: 'unit-two', batching: false });
    broker.holdReceipts();
    const order: string[] = [];
    const send = (producer: typeof one, name: string, bytes: number): Promise<unknown> =>
      producer.send({ payload: Buffer.alloc(bytes) }).then(() => order.push(name));
    const sends = [send(one, 'first', 6000)];
    await broker.waitFor(() => received(broker, 'send') === 1);
    sends.push(send(two, 'large', 9000));
    await new Promise((resolve) => setImmediate(resolve));
    // There would be room for these.
    sends.push(...[1, 2, 3].map((n) => send(one, `small ${n}`, 900)));
    await new Promise((resolve) => setImmediate(resolve));
    expect(received(broker, 'send')).toBe(1);
    expect([one.stats.waitingMessages, two.stats.waitingMessages]).toEqual([3, 1]);
    broker.releaseReceipts({ count: 1 });
    await broker.waitFor(() => received(broker, 'send') === 2);
    expect(client.memory.used).toBeGreaterThan(9000);
    broker.releaseReceipts();
    await Promise.all(sends);
    expect(order).toEqual(['first', 'large', 'small 1', 'small 2', 'small 3']);
    expect(client.memory.used).toBe(0);
  });

  it('fails with ERR_QUEUE_FULL where that is asked for', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', maxPendingMessages: 1, whenFull: 'reject' });
    broker.holdReceipts();
    const first = producer.send(text('a'));
    await expect(producer.send(text('b'))).rejects.toMatchObject({ code: 'ERR_QUEUE_FULL', retriable: true });
    broker.releaseReceipts();
    await first;
  });

  it('gives the place of a cancelled sender to the next, and takes back nothing that was written', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', maxPendingMessages: 1, batching: false });
    broker.holdReceipts();
    const controller = new AbortController();
    const written = producer.send(text('written'), { signal: controller.signal });
    const waiting = producer.send(text('waiting'), { signal: controller.signal });
    const last = producer.send(text('last'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_ABORTED' });
    broker.releaseReceipts();
    await Promise.all([written, last]);
    expect(broker.topic('unit').texts).toEqual(['written', 'last']);
  });
});
