import { PulsarWorld, received } from '../support/world.js';

// Row 7 (apache/pulsar-client-go #550, #1371, apache/pulsar #26456): a buffer went back to its pool while a socket or a
// resend still needed it, and other bytes were sent. Also P8 of test/model/producer.model.spec.ts, on the core alone.
describe('the bytes of a frame', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each([
    ['batches', { maxMessages: 8, maxDelay: 1000 }],
    ['single messages', false],
  ])('are the same on every connection, whatever is encoded meanwhile (%s)', async (_name, batching) => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching });
    broker.holdReceipts();
    const payload = (n: number): Buffer => Buffer.alloc(n % 5 === 0 ? 20_000 : 50 + n, n);
    const sends = Array.from({ length: 40 }, (_, n) => producer.send({ payload: payload(n) }));
    await broker.waitFor(() => broker.topic('unit').messages.length === 40);
    const frames = (connection: number): string[] =>
      broker.log.of('send', { direction: 'in', connection }).map(({ bytes }) => bytes.toString('hex'));
    const first = frames(1);
    for (let round = 2; round <= 4; round++) {
      const before = received(broker, 'send');
      broker.cut();
      sends.push(producer.send({ payload: payload(40 + round) }));
      await broker.waitFor(() => received(broker, 'send') >= before + first.length);
      expect(frames(round).slice(0, first.length)).toEqual(first);
    }
    broker.releaseReceipts();
    await Promise.all(sends);
    expect(broker.violations).toEqual([]);
  });
});
