import { MqttBench } from './support/mqtt.js';

// paho.golang#57 keeps one list for both; MQTT 5, section 4.6 has two orders.
describe.each([4, 5] as const)('C04: a stuck QoS 1 message does not hold back QoS 2, MQTT %i', (version) => {
  it('sends PUBRECs in their own order', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'stuck', { qos: 1 });
    bench.broker.publish('t', 'first', { qos: 2 });
    bench.broker.publish('t', 'second', { qos: 2 });
    const [first, second] = [await bench.delivery('first'), await bench.delivery('second')];
    bench.client.acknowledge(second);
    await bench.settled();
    expect(bench.acknowledged('pubrec')).toEqual([]);
    bench.client.acknowledge(first);
    await bench.broker.log.waitForReceived('pubcomp', 2);
    expect(bench.acknowledged('pubrec')).toEqual([2, 3]);
    expect(bench.acknowledged('puback')).toEqual([]);
    bench.client.acknowledge(await bench.delivery('stuck'));
    await bench.broker.log.waitForReceived('puback');
    expect(bench.broker.session('device-gateway')?.inFlight.size).toBe(0);
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });
});
