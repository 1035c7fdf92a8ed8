import { MqttBench } from './support/mqtt.js';

// hivemq-mqtt-client#796, #526, #481: what was abandoned once can never be acknowledged again.
describe.each([4, 5] as const)('C08: failed, redelivered after a reconnect, acknowledged then, MQTT %i', (version) => {
  it('sends the PUBACK on the new link, and the flow goes on', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'one', { qos: 1 });
    const first = await bench.delivery('one');
    bench.client.start(first);
    bench.client.fail(first);
    await bench.reconnected();
    const again = await bench.delivery('one', 2);
    expect(again).toBe(first);
    bench.client.start(again);
    bench.client.acknowledge(again);
    await bench.broker.log.waitForReceived('puback', 1, { connection: 2 });
    bench.broker.publish('t', 'two', { qos: 1 });
    bench.client.acknowledge(await bench.delivery('two'));
    await bench.broker.log.waitForReceived('puback', 2, { connection: 2 });
    expect(bench.acknowledged('puback', 2)).toEqual([1, 2]);
    expect(bench.client.window.used).toBe(0);
    expect(bench.broker.session('device-gateway')?.inFlight.size).toBe(0);
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });

  it('runs one handler again and sends ten PUBACKs in order when the head failed and nine behind it succeeded', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    for (let id = 1; id <= 10; id++) bench.broker.publish('t', String(id), { qos: 1 });
    const last = await bench.delivery('10');
    for (const delivery of bench.deliveries.slice(1)) {
      bench.client.start(delivery);
      bench.client.acknowledge(delivery);
    }
    expect(last.state).toBe('succeeded');
    bench.client.start(bench.deliveries[0]);
    bench.client.fail(bench.deliveries[0]);
    await bench.reconnected();
    const head = await bench.delivery('1', 2);
    await bench.settled();
    expect(bench.acknowledged()).toEqual([]);
    expect(bench.deliveries).toHaveLength(11);
    bench.client.start(head);
    bench.client.acknowledge(head);
    await bench.broker.log.waitForReceived('puback', 10);
    expect(bench.acknowledged('puback', 2)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });
});
