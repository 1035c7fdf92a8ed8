import { MqttBench } from './support/mqtt.js';

// MQTT.js#425: PUBREC on arrival, the handler's failure changes nothing.
describe.each([4, 5] as const)('C55: a QoS 2 handler fails, MQTT %i', (version) => {
  it('sends no PUBREC, and runs again after the reconnect', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'exact', { qos: 2 });
    const delivery = await bench.delivery('exact');
    bench.client.start(delivery);
    await bench.settled();
    expect(bench.acknowledged('pubrec')).toEqual([]);
    bench.client.fail(delivery);
    await bench.settled();
    expect(bench.acknowledged('pubrec')).toEqual([]);
    await bench.reconnected();
    expect(await bench.delivery('exact', 2)).toBe(delivery);
    bench.client.start(delivery);
    bench.client.acknowledge(delivery);
    await bench.broker.log.waitForReceived('pubcomp');
    expect(bench.acknowledged('pubrec')).toEqual([1]);
    expect(bench.runs('exact')).toBe(2);
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });

  it('holds a place in the window until PUBCOMP', async () => {
    const bench = await MqttBench.start({ protocolVersion: version, receiveMaximum: 1 });
    if (version === 4) bench.broker.options.maxInFlight = 1;
    const release = bench.broker.withhold('pubrel');
    bench.broker.publish('t', 'one', { qos: 2 });
    bench.broker.publish('t', 'two', { qos: 2 });
    bench.client.acknowledge(await bench.delivery('one'));
    await bench.broker.log.waitForReceived('pubrec');
    await bench.settled();
    expect(bench.runs('two')).toBe(0);
    expect(bench.client.window.used).toBe(1);
    release();
    bench.connection.resend(1);
    await bench.delivery('two');
    await bench.stop();
  });
});
