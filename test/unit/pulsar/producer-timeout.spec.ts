import { PulsarWorld, received, text } from './support/world.js';

/** a receipt after the local timeout is ignored and counted; the connection and what follows live on. */
describe('late receipt', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('keeps the connection, and later receipts still match', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false, sendTimeout: 60 });
    broker.holdReceipts();
    await expect(producer.send(text('slow'))).rejects.toMatchObject({
      name: 'TimeoutError',
      code: 'ERR_SEND_TIMEOUT',
      ambiguous: true,
      retriable: true,
    });
    const next = producer.send(text('next'));
    await broker.waitFor(() => received(broker, 'send') === 2);
    broker.releaseReceipts();
    expect((await next).sequenceId).toBe(1);
    expect(producer.stats).toMatchObject({ lateReceipts: 1, connects: 1, possibleDuplicates: 1, pendingMessages: 0 });
    expect(broker.allConnections.length).toBe(1);
  });
});
