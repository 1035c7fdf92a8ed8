import { MqttBench } from './support/mqtt.js';

// MQTT.js#895, #749, PR#1650, paho.mqtt.cpp#171, emqtt#10: connected, and nothing comes any more.
describe.each([4, 5] as const)('C52: what a reconnect subscribes to, MQTT %i', (version) => {
  it('everything once if the broker has lost the session', async () => {
    const bench = await MqttBench.start({ protocolVersion: version }, { filters: ['a/#', 'b/+', '$share/g/c'] });
    await bench.reconnected(() => {
      bench.broker.dropSession('device-gateway');
      bench.broker.cut();
    });
    await bench.settled();
    const again = bench.broker.log.received('subscribe', { connection: 2 });
    expect(again.flatMap((packet) => packet.subscriptions.map(({ topic, qos }) => [topic, qos])).sort()).toEqual([
      ['$share/g/c', 2],
      ['a/#', 2],
      ['b/+', 2],
    ]);
    bench.broker.publish('a/x', 'here');
    await bench.delivery('here');
    await bench.stop();
  });

  it('nothing if the session is there', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'kept', { qos: 1 });
    bench.client.fail(await bench.delivery('kept'));
    await bench.reconnected();
    await bench.delivery('kept', 2);
    await bench.settled();
    expect(bench.broker.log.received('subscribe', { connection: 2 })).toEqual([]);
    await bench.stop();
  });

  it('a filter that was given up meanwhile is not subscribed again', async () => {
    const bench = await MqttBench.start({ protocolVersion: version }, { filters: ['a', 'b'] });
    await bench.client.unsubscribe(['a']);
    await bench.reconnected(() => {
      bench.broker.dropSession('device-gateway');
      bench.broker.cut();
    });
    await bench.settled();
    expect([...bench.broker.session('device-gateway')!.subscriptions.keys()]).toEqual(['b']);
    await bench.stop();
  });
});
