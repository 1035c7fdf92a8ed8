import { type ProducerInterceptor, type SendResult } from '../../../lib/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** Code of the user that the producer calls may throw or answer nonsense: every send still settles, exactly once. */
describe('faults in interceptors and routers', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('settles a send whose afterReceipt throws, runs the other interceptors, and tells', async () => {
    const broker = await world.broker();
    const after: (SendResult | undefined)[] = [];
    const interceptors: ProducerInterceptor[] = [
      {
        afterReceipt: () => {
          throw new Error('afterReceipt is broken');
        },
      },
      { afterReceipt: (_message, _error, result) => after.push(result) },
    ];
    const producer = await world.client(broker).createProducer({ topic: 'unit', interceptors });
    const told: unknown[] = [];
    producer.on('interceptorFailed', ({ cause }) => told.push((cause as Error).message));
    const outcomes: unknown[] = [];
    const submitted = new Promise<void>((resolve) => {
      producer.submit(text('submitted'), (error, result) => {
        outcomes.push(error ?? result);
        resolve();
      });
    });
    const results = await Promise.all([producer.send(text('a')), producer.send(text('b'))]);
    await submitted;
    await producer.flush();
    expect(outcomes).toHaveLength(1);
    expect(after).toHaveLength(3);
    expect(after).toEqual(expect.arrayContaining(results));
    expect(told).toEqual(Array(3).fill('afterReceipt is broken'));
    expect(broker.topic('unit').texts).toEqual(['submitted', 'a', 'b']);
    expect(producer.stats).toMatchObject({ submitted: 3, succeeded: 3, failed: 0, pendingMessages: 0 });
  });

  it('gives afterReceipt the message as the interceptors made it, with the outcome', async () => {
    const broker = await world.broker();
    const seen: unknown[] = [];
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      interceptors: [
        { beforeSend: (message) => ({ ...message, properties: { stamped: 'yes' } }) },
        { afterReceipt: (message, error) => seen.push([message.properties, error?.code]) },
      ],
    });
    await producer.send(text('a'));
    await expect(producer.send({ payload: 7 as never })).rejects.toMatchObject({ code: 'ERR_SERIALIZATION' });
    expect(seen).toEqual([
      [{ stamped: 'yes' }, undefined],
      [{ stamped: 'yes' }, 'ERR_SERIALIZATION'],
    ]);
    expect(broker.topic('unit').messages.map(({ properties }) => properties)).toEqual([{ stamped: 'yes' }]);
  });

  it('rejects a message whose beforeSend throws, and only that one', async () => {
    const broker = await world.broker();
    let calls = 0;
    const beforeSend: ProducerInterceptor['beforeSend'] = (message) => {
      if (++calls === 2) throw new Error('beforeSend is broken');
      return message;
    };
    const producer = await world.client(broker).createProducer({ topic: 'unit', interceptors: [{ beforeSend }] });
    const results = await Promise.allSettled(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    expect(results).toMatchObject([
      { status: 'fulfilled' },
      { status: 'rejected', reason: { code: 'ERR_SERIALIZATION', cause: { message: 'beforeSend is broken' } } },
      { status: 'fulfilled' },
    ]);
    expect(broker.topic('unit').texts).toEqual(['a', 'c']);
  });

  it.each([
    ['an index beyond the partitions', () => 3, /3 is not a partition from 0 to 2/],
    ['a negative index', () => -1, /-1 is not a partition from 0 to 2/],
    ['a fraction', () => 0.5, /0.5 is not a partition from 0 to 2/],
    ['nothing', () => undefined as never, /undefined is not a partition from 0 to 2/],
    [
      'an exception',
      () => {
        throw new Error('router is broken');
      },
      /producer.routing threw/,
    ],
  ])('rejects a message for which the router gives %s, and sends the next one', async (_name, route, message) => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 3);
    let calls = 0;
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      lazyPartitions: true,
      routing: () => (++calls === 1 ? route() : 2),
    });
    const bad = producer.send(text('bad'));
    await expect(bad).rejects.toMatchObject({ code: 'ERR_OPTIONS', ambiguous: false });
    await expect(bad).rejects.toThrow(message);
    // Nothing was opened for it.
    expect(received(broker, 'producer')).toBe(0);
    await producer.send(text('good'));
    expect(broker.topic('unit-partition-2').texts).toEqual(['good']);
    expect(producer.stats).toMatchObject({ submitted: 2, succeeded: 1, failed: 1, pendingMessages: 0 });
  });
});
