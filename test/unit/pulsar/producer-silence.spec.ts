import { SkippingClock } from './support/skipping-clock.js';
import { PulsarWorld, received, text, watch } from './support/world.js';

/**
 * For its keep alive (30 s) after CLOSE_PRODUCER a 4.0.7 broker drops sends for that producer id without a word. Fenced in
 * that time, a reopened producer hears nothing at all: no receipt, no SEND_ERROR, no end of the connection.
 */
describe('a reopened producer to which the broker says nothing', () => {
  const world = new PulsarWorld();
  let clock = new SkippingClock();
  beforeEach(() => (clock = new SkippingClock()));
  afterEach(() => world.close());

  async function start() {
    const broker = await world.broker();
    const client = world.client(broker, { clock, keepAlive: 600_000, operationTimeout: 600_000 });
    const producer = await client.createProducer({
      topic: 'unit',
      accessMode: 'exclusiveWithFencing',
      batching: false,
    });
    return { broker, producer };
  }

  async function reopen({ broker, producer }: Awaited<ReturnType<typeof start>>): Promise<void> {
    broker.closeProducer('unit');
    await broker.waitFor(() => received(broker, 'producer') === 2 && producer.state === 'ready');
  }

  it('asks again on a new connection, and ends where another producer has fenced it', async () => {
    const { broker, producer } = await start();
    await reopen({ broker, producer });
    broker.silenceNext('send', 100);
    const lost = producer.send(text('a'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.failNext('producer', 'ProducerFenced', 'Fenced by: another', 1);
    clock.skip(41_000);
    await expect(lost).rejects.toMatchObject({ code: 'ERR_FENCED', ambiguous: true });
    await expect(producer.send(text('b'))).rejects.toMatchObject({ code: 'ERR_FENCED', ambiguous: false });
    expect(producer.state).toBe('terminated');
  });

  it('sends once more what had no answer, where it was not fenced', async () => {
    const { broker, producer } = await start();
    await reopen({ broker, producer });
    broker.silenceNext('send', 1);
    const sends = [producer.send(text('a'))];
    await broker.waitFor(() => received(broker, 'send') === 1);
    clock.skip(41_000);
    sends.push(producer.send(text('b')));
    await Promise.all(sends);
    expect(broker.topic('unit').texts).toEqual(['a', 'b']);
    expect(received(broker, 'producer')).toBe(3);
  });

  it('only once for a link, and not where receipts came a short time ago', async () => {
    const { broker, producer } = await start();
    await reopen({ broker, producer });
    clock.skip(35_000);
    await producer.send(text('a'));
    broker.holdReceipts();
    clock.skip(6_000);
    const held = watch(producer.send(text('b')));
    await broker.waitFor(() => received(broker, 'send') === 2);
    clock.skip(200_000);
    const more = producer.send(text('c'));
    await broker.waitFor(() => received(broker, 'send') === 3);
    expect(held.state).toBe('pending');
    expect(received(broker, 'producer')).toBe(2);
    broker.releaseReceipts();
    await more;
  });

  it('a producer that the broker has never closed waits for its receipts however long they take', async () => {
    const { broker, producer } = await start();
    broker.holdReceipts();
    const held = watch(producer.send(text('a')));
    await broker.waitFor(() => received(broker, 'send') === 1);
    clock.skip(200_000);
    const more = producer.send(text('b'));
    await broker.waitFor(() => received(broker, 'send') === 2);
    expect(held.state).toBe('pending');
    expect(received(broker, 'producer')).toBe(1);
    broker.releaseReceipts();
    await more;
  });
});
