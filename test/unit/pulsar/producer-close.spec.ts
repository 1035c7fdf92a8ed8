import { PulsarWorld, received, text } from './support/world.js';

/** close() sends what it has, bounded; every promise settles once, and nothing is left open. */
describe('producer close', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('drains ten sends of the same tick', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const sends = Array.from({ length: 10 }, (_, n) => producer.send(text(`m${n}`)));
    const closed = producer.close();
    expect(producer.close()).toBe(closed);
    await closed;
    expect((await Promise.all(sends)).length).toBe(10);
    expect(broker.topic('unit').texts).toEqual(Array.from({ length: 10 }, (_, n) => `m${n}`));
    expect(received(broker, 'closeProducer')).toBe(1);
    expect(producer.state).toBe('closed');
    await expect(producer.send(text('late'))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('fails the rest with ERR_CLOSED when the broker never answers', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.holdReceipts();
    const outcomes: unknown[] = [];
    const sends = Array.from({ length: 10 }, () =>
      producer.send(text('m')).catch((error: unknown) => outcomes.push(error)),
    );
    await broker.waitFor(() => received(broker, 'send') === 10);
    await producer.close({ timeout: 50 });
    await Promise.all(sends);
    expect(outcomes).toEqual(
      Array.from({ length: 10 }, () => expect.objectContaining({ code: 'ERR_CLOSED', ambiguous: true })),
    );
  });

  it('resolves while the broker is away, and what was never written is not ambiguous', async () => {
    const broker = await world.broker();
    const client = world.client(broker);
    const producer = await client.createProducer({ topic: 'unit' });
    await broker.stopListening();
    const gone = new Promise<unknown>((resolve) => producer.on('disconnected', resolve));
    broker.cut();
    await gone;
    const send = producer.send(text('never written'));
    const failed = expect(send).rejects.toMatchObject({ code: 'ERR_CLOSED', ambiguous: false });
    await producer.close({ timeout: 50 });
    await failed;
    await client.close();
    expect(client.status).toMatchObject({ state: 'closed', connected: false, producers: 0 });
  });

  it('may be called in the callback of a send', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await new Promise<void>((resolve) => {
      producer.submit(text('a'), () => void producer.close().then(resolve));
    });
    expect(producer.state).toBe('closed');
  });
});
