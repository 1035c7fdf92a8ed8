import { PulsarWorld, received, sequenceIds, text } from './support/world.js';

/** sends and a flush during a reconnect: one order, one reconnect, every promise settles once. */
describe('reconnect beside send and flush', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('resends from the oldest frame without a receipt, then the new ones, and flushes last', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.holdReceipts();
    const order: string[] = [];
    const send = (n: number): Promise<unknown> => producer.send(text(`m${n}`)).then(() => order.push(`m${n}`));
    const sends = Array.from({ length: 100 }, (_, n) => send(n));
    await broker.waitFor(() => received(broker, 'send') === 100);
    broker.releaseReceipts({ count: 30 });
    await Promise.all(sends.slice(0, 30));

    const open = broker.withhold('producerSuccess');
    broker.cut();
    await broker.waitFor(() => received(broker, 'producer') === 2);
    for (let n = 100; n < 150; n++) sends.push(send(n));
    const flushed = producer.flush().then(() => order.push('flush'));
    open();
    // The answer that was withheld never comes: the next try has to be made by the client itself.
    broker.cut();
    await broker.waitFor(() => received(broker, 'producer') === 3);
    broker.releaseReceipts();
    await Promise.all([...sends, flushed]);

    expect(sequenceIds(broker, 3)).toEqual(Array.from({ length: 120 }, (_, index) => 30 + index));
    expect(order.slice(-1)).toEqual(['flush']);
    expect(order.length).toBe(151);
    expect(producer.stats).toMatchObject({ connects: 2, resentFrames: 70, succeeded: 150, failed: 0 });
    expect(broker.violations).toEqual([]);
    const stored = broker.topic('unit').texts;
    expect([...new Set(stored)]).toEqual(Array.from({ length: 150 }, (_, n) => `m${n}`));
  });
});
