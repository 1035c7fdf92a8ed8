import { PulsarClient } from '../../lib/pulsar/index.js';
import { PulsarBench, texts, TOPIC } from './support/pulsar.js';

// pulsar-client-go#1134, milvus#41179, apache/pulsar#25317.
describe('C42: terminated, fenced, over quota', () => {
  it('a terminated topic rejects everything for good and dials no more', async () => {
    const bench = await PulsarBench.start();
    const ended: unknown[] = [];
    bench.producer.on('terminated', (event) => ended.push(event));
    bench.broker.silenceNext('send', 3);
    const sent = bench.sendAll(texts(3));
    await bench.sends(3);
    bench.broker.terminate(TOPIC);
    await sent;
    for (const { error } of bench.rejected) expect(error).toMatchObject({ code: 'ERR_TERMINATED', retriable: false });
    expect(bench.rejected.map(({ text }) => text)).toEqual(texts(3));
    const producers = bench.broker.log.received('producer').length;
    await bench.send('late');
    expect(bench.rejected.at(-1)?.error).toMatchObject({ code: 'ERR_TERMINATED', retriable: false });
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(bench.broker.log.received('producer')).toHaveLength(producers);
    expect(ended).toHaveLength(1);
    expect(bench.producer.state).toBe('terminated');
    await bench.stop();
  });

  it('a SEND_ERROR that says terminated ends it too', async () => {
    const bench = await PulsarBench.start();
    bench.topic.terminated = true;
    await bench.sendAll(texts(2));
    for (const { error } of bench.rejected) expect(error).toMatchObject({ code: 'ERR_TERMINATED' });
    expect(bench.rejected).toHaveLength(2);
    await bench.stop();
  });

  it('a fenced producer is over, whoever took its place', async () => {
    const bench = await PulsarBench.start({ accessMode: 'exclusive' });
    await bench.send('mine');
    const rival = new PulsarClient({ url: bench.broker.url });
    const other = await rival.createProducer({ topic: TOPIC, accessMode: 'exclusiveWithFencing', batching: false });
    // Nothing tells the fenced one until it sends: the broker closes its connection, and PRODUCER is refused.
    await bench.send('theirs now');
    expect(bench.rejected[0]?.error).toMatchObject({ code: 'ERR_FENCED', retriable: false });
    expect(bench.producer.state).toBe('terminated');
    await other.send({ payload: Buffer.from('new owner') });
    expect(bench.topic.texts).toEqual(['mine', 'new owner']);
    await rival.close();
    await bench.stop();
  });

  it('an exceeded quota with producer_exception fails what is pending and works again later', async () => {
    const bench = await PulsarBench.start();
    bench.broker.silenceNext('send', 2);
    const sent = bench.sendAll(texts(2));
    await bench.sends(2);
    bench.broker.exceedQuota(TOPIC, 'exception');
    await sent;
    for (const { error } of bench.rejected) expect(error).toMatchObject({ retriable: true, ambiguous: true });
    expect(bench.rejected).toHaveLength(2);
    bench.broker.exceedQuota(TOPIC, undefined);
    await bench.broker.waitFor(() => bench.producer.state === 'ready');
    await bench.send('again');
    expect(bench.topic.texts).toEqual(['again']);
    await bench.stop();
  });

  it('an exceeded quota with producer_request_hold holds what is pending', async () => {
    const bench = await PulsarBench.start();
    bench.broker.silenceNext('send', 2);
    const sent = bench.sendAll(texts(2));
    await bench.sends(2);
    bench.broker.exceedQuota(TOPIC, 'hold');
    await bench.broker.log.waitForReceived('producer', 4);
    expect(bench.rejected).toEqual([]);
    bench.broker.exceedQuota(TOPIC, undefined);
    await sent;
    expect(bench.topic.texts).toEqual(texts(2));
    await bench.stop();
  });
});
