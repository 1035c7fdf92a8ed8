import { MqttBench } from './support/mqtt.js';

// eclipse-paho/paho.golang#327: acknowledgements wait for a ticker, a disconnect right after loses them.
describe.each([4, 5] as const)('C05: acknowledged, then closed in the same tick, MQTT %i', (version) => {
  it('writes the PUBACKs before DISCONNECT, and nothing comes again', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    for (const text of ['a', 'b', 'c']) bench.broker.publish('t', text, { qos: 1 });
    await bench.delivery('c');
    const since = bench.broker.log.position;
    for (const delivery of bench.deliveries) bench.client.acknowledge(delivery);
    const closed = bench.client.close();
    await closed;
    await bench.broker.waitFor(() => bench.broker.connections.length === 0);
    expect(bench.broker.log.summary({ since })).toEqual(['>puback', '>puback', '>puback', '>disconnect', '>close']);
    expect(bench.broker.session('device-gateway')?.inFlight.size).toBe(0);
    // No UNSUBSCRIBE: the broker goes on queueing for us.
    expect(bench.broker.session('device-gateway')?.subscriptions.has('t/#')).toBe(true);
    await bench.stop();
  });

  it('leaves un-acknowledged what was not finished', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    for (const text of ['a', 'b', 'c']) bench.broker.publish('t', text, { qos: 1 });
    await bench.delivery('c');
    bench.client.acknowledge(bench.deliveries[0]);
    bench.client.acknowledge(bench.deliveries[2]);
    await bench.client.close();
    await bench.broker.waitFor(() => bench.broker.connections.length === 0);
    expect(bench.acknowledged()).toEqual([1]);
    expect([...bench.broker.session('device-gateway')!.inFlight.keys()]).toEqual([2, 3]);
    await bench.stop();
  });
});
