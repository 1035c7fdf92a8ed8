import { PulsarWorld, received, text } from './support/world.js';

/** terminated and fenced end the producer at once; an exceeded quota fails what is pending and heals by itself. */
describe('terminal errors and quota', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('rejects everything and dials no more when the topic is terminated', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    const terminated: unknown[] = [];
    producer.on('terminated', ({ cause }) => terminated.push(cause.code));
    broker.holdReceipts();
    const sends = [producer.send(text('a')), producer.send(text('b'))];
    await broker.waitFor(() => received(broker, 'send') === 2);
    broker.terminate('unit');
    const results = await Promise.allSettled(sends);
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: 'ERR_TERMINATED', retriable: false, ambiguous: true } },
      { status: 'rejected', reason: { code: 'ERR_TERMINATED', retriable: false, ambiguous: true } },
    ]);
    expect(producer.state).toBe('terminated');
    expect(terminated).toEqual(['ERR_TERMINATED']);
    const tries = received(broker, 'producer');
    await expect(producer.send(text('late'))).rejects.toMatchObject({ code: 'ERR_TERMINATED', ambiguous: false });
    expect(received(broker, 'producer')).toBe(tries);
  });

  it('ends with ERR_FENCED when another producer has taken over', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.failNext('producer', 'ProducerFenced');
    broker.closeProducers('unit');
    await broker.waitFor(() => received(broker, 'producer') === 2);
    await expect(producer.send(text('a'))).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    expect(producer.state).toBe('terminated');
  });

  it('fails what is pending with a retriable error while the quota is exceeded, and works again without a restart', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.holdReceipts();
    const pending = producer.send(text('pending'));
    const failed = expect(pending).rejects.toMatchObject({ code: 'ERR_BROKER', retriable: true, ambiguous: true });
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.exceedQuota('unit', 'exception');
    await failed;
    broker.releaseReceipts();
    broker.exceedQuota('unit', undefined);
    await expect(producer.send(text('later'))).resolves.toMatchObject({ deduplicated: false });
  });

  it('holds what is pending while the quota is exceeded and the broker asks to wait', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    broker.exceedQuota('unit', 'hold');
    await broker.waitFor(() => received(broker, 'producer') >= 3);
    const send = producer.send(text('held'));
    broker.exceedQuota('unit', undefined);
    await send;
    expect(broker.topic('unit').texts).toEqual(['held']);
  });
});
