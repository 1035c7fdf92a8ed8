import { InMemoryPulsarBroker, InMemoryPulsarCluster } from '../../lib/testing/index.js';
import { PulsarBench, texts, TOPIC } from './support/pulsar.js';

// pulsar-client-go#81, #349, #606, pulsar-rs#164, #129, emqx/pulsar-client-erl#47, apache/pulsar#8093, #5264, #9792.
describe('C40: the topic is unloaded, the broker restarts', () => {
  it('looks it up before each try, and resends on the broker that has it', async () => {
    const cluster = new InMemoryPulsarCluster();
    const second = await InMemoryPulsarBroker.start({ cluster });
    const bench = await PulsarBench.start({}, { broker: { cluster } });
    await bench.send('before');
    bench.broker.silenceNext('send', 3);
    const sent = bench.sendAll(texts(3));
    await bench.sends(4);
    const lookups = bench.broker.log.received('lookupTopic').length;
    bench.broker.failNext('lookupTopic', 'ServiceNotReady', 'bundle is being unloaded', 3);
    cluster.assign(TOPIC, second);
    bench.broker.unload(TOPIC);
    await sent;
    expect(bench.broker.log.received('lookupTopic').length - lookups).toBe(4);
    expect(second.log.received('send').map((body) => body.sequenceId)).toEqual([1, 2, 3]);
    expect(bench.topic.texts).toEqual(['before', ...texts(3)]);
    expect(bench.rejected).toEqual([]);
    await bench.send('after');
    expect(bench.topic.texts.at(-1)).toBe('after');
    await bench.stop();
    await second.close();
  });

  it('follows the broker that CLOSE_PRODUCER names', async () => {
    const cluster = new InMemoryPulsarCluster();
    const second = await InMemoryPulsarBroker.start({ cluster });
    const bench = await PulsarBench.start({}, { broker: { cluster } });
    cluster.assign(TOPIC, second);
    cluster.acquire(TOPIC, second);
    const lookups = bench.broker.log.received('lookupTopic').length;
    bench.broker.closeProducers(TOPIC, { brokerServiceUrl: second.url });
    await second.log.waitForReceived('producer');
    // It was named: nobody needed to be asked.
    expect(bench.broker.log.received('lookupTopic')).toHaveLength(lookups);
    expect(second.log.received('lookupTopic')).toEqual([]);
    await bench.send('moved');
    expect(second.figures.stored).toBe(1);
    await bench.stop();
    await second.close();
  });

  it('takes up again after a restart on the same port, in order, without an error', async () => {
    const bench = await PulsarBench.start();
    bench.broker.silenceNext('send', 5);
    const sent = bench.sendAll(texts(5));
    await bench.sends(5);
    await bench.broker.stopListening();
    bench.broker.cut();
    const more = bench.sendAll(texts(5, 5));
    await bench.broker.waitFor(() => bench.client.status.lastError !== undefined);
    await bench.broker.listen();
    await sent;
    await more;
    expect(bench.topic.texts).toEqual(texts(10));
    expect(bench.resolved).toEqual(texts(10));
    await bench.stop();
  });

  it('goes through the service URL where the lookup says so', async () => {
    const bench = await PulsarBench.start({}, { broker: { proxyThroughServiceUrl: true } });
    bench.broker.faults.scriptLookup({
      response: 1,
      brokerServiceUrl: 'pulsar://broker-7.internal:6650',
      proxyThroughServiceUrl: true,
    });
    bench.broker.closeProducers(TOPIC);
    await bench.broker.waitFor(() =>
      bench.broker.log
        .received('connect')
        .some((command) => command.proxyToBrokerUrl?.includes('broker-7.internal:6650') === true),
    );
    await bench.send('proxied');
    expect(bench.resolved).toEqual(['proxied']);
    await bench.stop();
  });

  it('goes to the other cluster after TOPIC_MIGRATED', async () => {
    const blue = await PulsarBench.start();
    const green = await InMemoryPulsarBroker.start();
    await blue.send('blue');
    blue.broker.migrate(TOPIC, green.url);
    blue.broker.closeProducers(TOPIC);
    await green.log.waitForReceived('producer');
    await blue.send('green');
    expect(blue.topic.texts).toEqual(['blue']);
    expect(green.topic(TOPIC).texts).toEqual(['green']);
    await blue.stop();
    await green.close();
  });
});
