import { PulsarWorld, received, text } from '../support/world.js';

// Row 9 (apache/pulsar-client-go #1357, #1409): of several flushes that waited for the same message only one returned.
// Row 10 (#229): the last receipt came between "is something pending" and "tell me when it is done", and flush hung.
// Row 8 is test/cases/c37.
describe('flushes', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('that wait for the same message all resolve, however many and from where', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    broker.holdReceipts();
    const send = producer.send(text('a'));
    const flushes = Array.from({ length: 20 }, () => producer.flush());
    await broker.waitFor(() => received(broker, 'send') === 1);
    flushes.push(producer.flush(), producer.flush());
    const later = producer.send(text('b'));
    const last = producer.flush();
    broker.releaseReceipts({ count: 1 });
    await Promise.all(flushes);
    await send;
    broker.releaseReceipts();
    await later;
    await last;
  });

  it('resolve when they are called in the very callback of the last receipt, or right behind it', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      producer.submit(text('a'), () => {
        order.push('receipt');
        void producer.flush().then(() => {
          order.push('flushed');
          resolve();
        });
      });
    });
    await producer.flush();
    await producer.send(text('b')).then(() => producer.flush());
    expect(order).toEqual(['receipt', 'flushed']);
  });

  it('resolve in every turn around a receipt', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    for (let round = 0; round < 50; round++) {
      const send = producer.send(text(`m${round}`));
      const flushes: Promise<void>[] = [];
      let done = false;
      void send.then(() => (done = true));
      for (let turn = 0; !done; turn++) {
        if (turn % 2 === 0) flushes.push(producer.flush());
        await new Promise((resolve) => setImmediate(resolve));
      }
      flushes.push(producer.flush());
      await Promise.all(flushes);
    }
    expect(producer.stats).toMatchObject({ succeeded: 50, pendingMessages: 0 });
  });
});
