import { PulsarWorld, sequenceIds, text } from '../support/world.js';

// Row 3 (apache/pulsar-client-go #1345): batches and single messages took two ways to the wire, and B overtook A.
// Measured on v0.19.0: sends 0 to 5, of which 3 is not batched, were stored as 3 0 1 2 4 5.
describe('messages that cannot join a batch', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each([
    ['disableBatching', { disableBatching: true }],
    ['deliverAfter', { deliverAfter: 1 }],
    ['replicationClusters', { replicationClusters: ['elsewhere'] }],
    ['more bytes than a batch holds', { properties: { large: 'x'.repeat(3000) } }],
  ])('keep their place (%s)', async (_name, special) => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', batching: { maxDelay: 1000, maxBytes: 2048 } });
    const sends = Array.from({ length: 12 }, (_, n) =>
      producer.send({ ...text(`${n}`), ...(n % 4 === 3 ? special : {}) }),
    );
    const results = await Promise.all(sends);
    expect(broker.topic('unit').texts).toEqual(Array.from({ length: 12 }, (_, n) => `${n}`));
    expect(results.map(({ sequenceId }) => sequenceId)).toEqual(Array.from({ length: 12 }, (_, n) => n));
    expect(broker.topic('unit').messages.map(({ batchSize }) => batchSize > 1)).toEqual(
      Array.from({ length: 12 }, (_, n) => n % 4 !== 3),
    );
  });

  it('keep it over a reconnect and between flushes', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: { maxDelay: 1000 } });
    const listen = broker.onReceive((type) => (type === 'send' ? 'ignore' : undefined));
    const sends = Array.from({ length: 12 }, (_, n) => {
      const send = producer.send({ ...text(`${n}`), disableBatching: n % 4 === 3 });
      if (n === 6) void producer.flush();
      return send;
    });
    await broker.waitFor(() => sequenceIds(broker, 1).at(-1) === 11);
    listen();
    broker.cut();
    await Promise.all(sends);
    expect(broker.topic('unit').texts).toEqual(Array.from({ length: 12 }, (_, n) => `${n}`));
    expect(sequenceIds(broker, 2)).toEqual(sequenceIds(broker, 1));
  });
});
