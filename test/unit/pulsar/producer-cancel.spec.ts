import { getEventListeners } from 'node:events';
import { PulsarWorld, received, text, watch } from './support/world.js';

/** A cancelled send gives back its place and its memory; a settled one leaves nothing at the caller's signal. */
describe('cancelled sends', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('takes its listener off the signal when the send settles, however it settles', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const { signal } = new AbortController();
    const sends = [
      producer.send(text('stored'), { signal }),
      producer.send({ payload: 1 as never }, { signal }),
      producer.send({ ...text('descending'), sequenceId: 5 }, { signal }),
      producer.send({ ...text('descending'), sequenceId: 4 }, { signal }),
    ];
    // One for all: Node takes more than ten for a leak.
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.allSettled(sends);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await producer.close();
    await expect(producer.send(text('late'), { signal })).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('gives permits and memory back, and the next in line goes on', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { memoryLimit: 10_000 });
    const producer = await client.createProducer({ topic: 'unit', maxPendingMessages: 2, batching: false });
    broker.holdReceipts();
    const written = [producer.send(text('a')), producer.send(text('b'))];
    await broker.waitFor(() => received(broker, 'send') === 2);
    const controller = new AbortController();
    const cancelled = producer.send({ payload: Buffer.alloc(9000) }, { signal: controller.signal });
    const next = producer.send(text('c'));
    const watched = watch(next);
    await new Promise((resolve) => setImmediate(resolve));
    expect(producer.stats).toMatchObject({ pendingMessages: 2, waitingMessages: 2 });
    controller.abort();
    await expect(cancelled).rejects.toMatchObject({ code: 'ERR_ABORTED', ambiguous: false });
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    expect(watched.state).toBe('pending');
    broker.releaseReceipts();
    await Promise.all([...written, next]);
    expect(broker.topic('unit').texts).toEqual(['a', 'b', 'c']);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    expect(client.memory.used).toBe(0);
  });

  it('lets another producer of the client have the memory that a cancelled send waited for', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { memoryLimit: 10_000 });
    const one = await client.createProducer({ topic: 'unit-one', batching: false });
    const two = await client.createProducer({ topic: 'unit-two', batching: false });
    broker.holdReceipts('unit-one');
    const written = one.send({ payload: Buffer.alloc(5000) });
    await broker.waitFor(() => received(broker, 'send') === 1);
    const controller = new AbortController();
    const large = one.send({ payload: Buffer.alloc(9000) }, { signal: controller.signal });
    const small = two.send({ payload: Buffer.alloc(100) });
    await new Promise((resolve) => setImmediate(resolve));
    expect(two.stats.waitingMessages).toBe(1);
    controller.abort();
    await expect(large).rejects.toMatchObject({ code: 'ERR_ABORTED' });
    await small;
    broker.releaseReceipts();
    await written;
    expect(client.memory.used).toBe(0);
  });

  it('takes a message out of an open batch before a link is up, and keeps the order of the others', async () => {
    const broker = await world.broker();
    broker.topic('unit');
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    broker.closeProducers('unit');
    broker.failNext('producer', 'ServiceNotReady', 'not yet', 3);
    const controller = new AbortController();
    const outcomes = ['a', 'b', 'c'].map((value) =>
      producer.send(text(value), value === 'b' ? { signal: controller.signal } : {}),
    );
    controller.abort();
    const results = await Promise.allSettled(outcomes);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(broker.topic('unit').texts).toEqual(['a', 'c']);
  });

  it('rejects at once with a signal that has aborted, and cannot take back what was written', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    await expect(producer.send(text('never'), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'ERR_ABORTED',
    });
    broker.holdReceipts();
    const controller = new AbortController();
    const written = producer.send(text('written'), { signal: controller.signal });
    await broker.waitFor(() => received(broker, 'send') === 1);
    controller.abort();
    broker.releaseReceipts();
    await expect(written).resolves.toMatchObject({ deduplicated: false });
    expect(broker.topic('unit').texts).toEqual(['written']);
  });
});
