import { PulsarWorld, received, text } from './support/world.js';
import { InMemoryPulsarCluster } from '../../../lib/testing/pulsar/index.js';

/** after an unload each try looks the topic up again, with growing delays, and what is pending goes to the new owner. */
describe('unload', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('asks for the owner before every try and resends in order', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    const delays: number[] = [];
    producer.on('reconnecting', ({ attempt }) => delays.push(attempt));
    broker.holdReceipts();
    const sends = Array.from({ length: 20 }, (_, n) => producer.send(text(`m${n}`)));
    await broker.waitFor(() => received(broker, 'send') === 20);
    const lookups = received(broker, 'lookupTopic');
    broker.failNext('lookupTopic', 'ServiceNotReady', 'not yet', 3);
    broker.closeProducer('unit');
    broker.releaseReceipts();
    await Promise.all(sends);
    expect(received(broker, 'lookupTopic') - lookups).toBe(4);
    expect(delays).toEqual([1, 2, 3, 4]);
    expect(producer.stats).toMatchObject({ connects: 2, succeeded: 20, failed: 0 });
    expect([...new Set(broker.topic('unit').texts)]).toEqual(Array.from({ length: 20 }, (_, n) => `m${n}`));
    // The same connection all the time: an error of a lookup is no error of the connection.
    expect(broker.allConnections.length).toBe(1);
  });

  it('follows the topic to another broker', async () => {
    const cluster = new InMemoryPulsarCluster();
    const one = await world.broker({ cluster });
    const two = await world.broker({ cluster });
    const producer = await world.client(one).createProducer({ topic: 'unit', batching: false });
    await producer.send(text('first'));
    const owner = received(one, 'producer') === 1 ? one : two;
    const other = owner === one ? two : one;
    cluster.assign('unit', other);
    owner.closeProducer('unit');
    cluster.assign('unit', other);
    await producer.send(text('second'));
    expect(received(other, 'producer')).toBeGreaterThan(0);
    expect(other.topic('unit').texts).toEqual(['first', 'second']);
  });
});
