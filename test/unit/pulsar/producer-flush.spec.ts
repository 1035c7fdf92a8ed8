import { PulsarWorld, received, text, watch } from './support/world.js';

/** a flush covers what was submitted before it, sent or not, and nothing after it. */
describe('flush', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('waits for the send of the same tick before it, not for the one after it', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.holdReceipts();
    const first = producer.send(text('before'));
    const flushed = producer.flush();
    const second = producer.send(text('after'));
    const watchedFlush = watch(flushed);
    const watchedSecond = watch(second);
    await broker.waitFor(() => received(broker, 'send') === 2);
    expect(watchedFlush.state).toBe('pending');
    broker.releaseReceipts({ count: 1 });
    await flushed;
    await first;
    expect(watchedSecond.state).toBe('pending');
    broker.releaseReceipts();
    await second;
  });

  it('with an empty batch waits for what is in flight', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    broker.holdReceipts();
    const send = producer.send(text('in flight'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    const flushes = [producer.flush(), producer.flush(), producer.flush()];
    const watched = flushes.map(watch);
    await producer.send({ payload: undefined }).catch(() => undefined);
    expect(watched.map(({ state }) => state)).toEqual(['pending', 'pending', 'pending']);
    broker.releaseReceipts();
    await Promise.all([...flushes, send]);
  });

  it('sends an open batch at once, whatever the batch delay', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: { maxDelay: 3_600_000 } });
    broker.holdReceipts();
    const sends = [producer.send(text('a'))];
    await broker.waitFor(() => received(broker, 'send') === 1);
    sends.push(producer.send(text('b')), producer.send(text('c')));
    const flushed = producer.flush();
    await broker.waitFor(() => received(broker, 'send') === 2);
    broker.releaseReceipts();
    await flushed;
    await Promise.all(sends);
  });

  it('rejects with the failure of a send that it covers, and with nothing else', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const bad = expect(producer.send({ payload: 'text' } as never)).rejects.toMatchObject({
      code: 'ERR_SERIALIZATION',
    });
    const good = producer.send(text('good'));
    await expect(producer.flush()).rejects.toMatchObject({ code: 'ERR_SERIALIZATION' });
    await bad;
    await good;
    await producer.flush();
  });
});
