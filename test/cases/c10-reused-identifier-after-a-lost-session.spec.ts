import { MqttBench } from './support/mqtt.js';

// LabOverWire/mqtt-lib#118: the duplicate guard of a session that is gone swallows a new message.
describe.each([4, 5] as const)('C10: a QoS 2 identifier comes again after the session was lost, MQTT %i', (version) => {
  it('hands the new message out', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.withhold('pubrel');
    bench.broker.publish('t', 'before', { qos: 2 });
    bench.client.acknowledge(await bench.delivery('before'));
    await bench.broker.log.waitForReceived('pubrec');
    await bench.reconnected(() => {
      bench.broker.dropSession('device-gateway');
      bench.broker.cut();
    });
    await bench.settled();
    bench.broker.publish('t', 'after', { qos: 2 });
    const after = await bench.delivery('after');
    const [packet] = bench.broker.log.sent('publish', { connection: 2 });
    expect([packet?.messageId, packet?.dup]).toEqual([1, false]);
    bench.client.acknowledge(after);
    await bench.broker.log.waitForReceived('pubrec', 1, { connection: 2 });
    expect(bench.broker.violations).toEqual([]);
    await bench.stop();
  });

  it('hands out a copy of the new session that looks like the old message', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.withhold('pubrel');
    bench.broker.publish('t', 'on', { qos: 2 });
    bench.client.acknowledge(await bench.delivery('on'));
    await bench.broker.log.waitForReceived('pubrec');
    await bench.reconnected(() => {
      bench.broker.dropSession('device-gateway');
      bench.broker.cut();
    });
    await bench.settled();
    // The same words under the same identifier, and the first copy of them was lost with a connection.
    const withheld = bench.broker.withhold('publish');
    bench.broker.publish('t', 'on', { qos: 2 });
    withheld();
    await bench.reconnected();
    await bench.broker.log.waitFor(() => bench.runs('on') === 2 || undefined);
    const [packet] = bench.broker.log.sent('publish', { connection: 3 });
    expect([packet?.messageId, packet?.dup]).toEqual([1, true]);
    await bench.stop();
  });

  it('does not hand out again what it had answered with PUBREC in the same session', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'once', { qos: 2 });
    // The PUBREC gets lost with the connection: the broker sends the PUBLISH again.
    const drop = bench.broker.onReceive((packet, connection) => {
      if (packet.cmd !== 'pubrec') return undefined;
      connection.cut();
      return 'ignore';
    });
    const { number } = bench.connection;
    bench.client.acknowledge(await bench.delivery('once'));
    await bench.broker.log.waitForReceived('pubrec', 1, { connection: number });
    drop();
    await bench.broker.log.waitForReceived('pubcomp');
    expect(bench.broker.log.sent('publish').filter((packet) => packet.dup)).toHaveLength(1);
    expect(bench.runs('once')).toBe(1);
    await bench.stop();
  });
});
