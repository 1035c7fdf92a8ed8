import { MqttBench } from './support/mqtt.js';

// bytebeamio/rumqtt#849, paho.mqtt.golang#400, #504, #726, #729, paho.golang#160, #185, MQTT.js: the old one's PUBACK settles the new one.
describe.each([4, 5] as const)('C09: the session is lost while a handler runs, MQTT %i', (version) => {
  it('acknowledges the new message with the same identifier only for its own success', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'old', { qos: 1 });
    const old = await bench.delivery('old');
    bench.client.start(old);
    const lost: number[] = [];
    bench.client.on('sessionLost', ({ orphaned }) => lost.push(orphaned));
    await bench.reconnected(() => {
      bench.broker.dropSession('device-gateway');
      bench.broker.cut();
    });
    await bench.broker.log.waitForReceived('subscribe', 1, { connection: 2 });
    await bench.settled();
    bench.broker.publish('t', 'new', { qos: 1 });
    const fresh = await bench.delivery('new');
    expect(bench.broker.log.sent('publish', { connection: 2 }).map((one) => one.messageId)).toEqual([1]);
    expect([old.orphaned, fresh.orphaned]).toEqual([true, false]);
    bench.client.start(fresh);
    bench.client.acknowledge(old);
    await bench.settled();
    expect(bench.acknowledged()).toEqual([]);
    expect(bench.client.stats.staleAcknowledgements).toBe(1);
    expect(lost).toEqual([1]);
    bench.client.acknowledge(fresh);
    await bench.broker.log.waitForReceived('puback');
    expect(bench.acknowledged()).toEqual([1]);
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });

  it('does not throw when it is acknowledged without a connection or after close()', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'a', { qos: 1 });
    bench.broker.publish('t', 'b', { qos: 1 });
    await bench.delivery('b');
    bench.broker.refuse();
    bench.broker.cut();
    await bench.broker.waitFor(() => bench.client.status.state !== 'connected');
    expect(bench.client.acknowledge(bench.deliveries[0])).toBe(true);
    bench.broker.refuse(false);
    // On the resumed session the copy of a success is acknowledged without another run.
    await bench.broker.log.waitForReceived('puback');
    expect(bench.acknowledged()).toEqual([1]);
    await bench.client.close();
    bench.client.acknowledge(bench.deliveries[1]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(bench.acknowledged()).toEqual([1]);
    expect(bench.runs('a')).toBe(1);
    await bench.stop();
  });
});
