import { PulsarWorld, received, text } from './support/world.js';

const TERMINATED = 15;
const PERSISTENCE = 2;

/**
 * Pulsar 4.0.7, when a topic is terminated with sends under way: CLOSE_PRODUCER first, then a SEND_ERROR for each of them,
 * and from then on PRODUCER is answered with ServiceNotReady ("Topic is temporarily unavailable"), for ever. The SEND_ERRORs
 * are all the broker ever says about the end (apache/pulsar#25317).
 */
describe('SEND_ERROR behind CLOSE_PRODUCER', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('ends the producer where it says that the topic is terminated, and knows which sends were refused', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.silenceNext('send', 3);
    const sends = ['a', 'b', 'c'].map((value) => producer.send(text(value)));
    await broker.waitFor(() => received(broker, 'send') === 3);
    broker.failNext('producer', 'ServiceNotReady', 'Topic is temporarily unavailable', 1000);
    const { producerId } = broker.log.received('producer')[0];
    broker.closeProducer('unit');
    for (const [sequenceId, error] of [TERMINATED, PERSISTENCE].entries()) {
      broker.connection!.send('sendError', { producerId, sequenceId, error, message: 'fenced' });
    }
    const outcomes = await Promise.allSettled(sends);
    expect(outcomes).toMatchObject([
      { reason: { code: 'ERR_TERMINATED', retriable: false, ambiguous: false } },
      { reason: { code: 'ERR_TERMINATED', retriable: false, ambiguous: false } },
      // Nothing was said about this one.
      { reason: { code: 'ERR_TERMINATED', retriable: false, ambiguous: true } },
    ]);
    expect(producer.state).toBe('terminated');
    await expect(producer.send(text('late'))).rejects.toMatchObject({ code: 'ERR_TERMINATED' });
    expect(producer.stats).toMatchObject({ pendingMessages: 0, waitingMessages: 0, possibleDuplicates: 1 });
  });

  it('also when the next try to open the producer is already at the broker', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.silenceNext('send');
    const send = producer.send(text('a'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    const { producerId } = broker.log.received('producer')[0];
    broker.silenceNext('lookupTopic');
    broker.closeProducer('unit');
    await broker.waitFor(() => received(broker, 'lookupTopic') >= 2);
    broker.connection!.send('sendError', { producerId, sequenceId: 0, error: TERMINATED, message: 'terminated' });
    await expect(send).rejects.toMatchObject({ code: 'ERR_TERMINATED', ambiguous: false });
  });

  it('sends again where it says what passes', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.silenceNext('send', 2);
    const sends = ['a', 'b'].map((value) => producer.send(text(value)));
    await broker.waitFor(() => received(broker, 'send') === 2);
    const { producerId } = broker.log.received('producer')[0];
    broker.closeProducer('unit');
    broker.connection!.send('sendError', { producerId, sequenceId: 0, error: PERSISTENCE, message: 'fenced' });
    await Promise.all(sends);
    expect(broker.topic('unit').texts).toEqual(['a', 'b']);
    expect(producer.stats).toMatchObject({ connects: 2, failed: 0, orderBroken: 0 });
  });
});
