import { MqttBench } from './support/mqtt.js';

// hivemq-mqtt-client#557, emqx#9188: AWS IoT, NATS and older EMQX resend while the handler still runs.
describe.each([4, 5] as const)('C11: a message comes again on the same connection, MQTT %i', (version) => {
  it.each([true, false])('starts nothing twice and sends one PUBACK (DUP %s)', async (dup) => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'slow', { qos: 1 });
    const delivery = await bench.delivery('slow');
    bench.client.start(delivery);
    bench.connection.resend(1, { dup });
    bench.connection.resend(1, { dup });
    await bench.settled();
    expect(bench.runs('slow')).toBe(1);
    bench.client.acknowledge(delivery);
    await bench.settled();
    expect(bench.acknowledged()).toEqual([1]);
    expect(bench.client.stats.bound).toBe(2);
    expect(bench.broker.allConnections).toHaveLength(1);
    await bench.stop();
  });

  it('takes the copy of a failed one for its redelivery', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'failed', { qos: 1 });
    const delivery = await bench.delivery('failed');
    bench.client.start(delivery);
    bench.client.fail(delivery);
    bench.connection.resend(1);
    expect(await bench.delivery('failed', 2)).toBe(delivery);
    bench.client.acknowledge(delivery);
    await bench.settled();
    expect(bench.acknowledged()).toEqual([1]);
    await bench.stop();
  });

  it('takes the same identifier after its PUBACK for a new message', async () => {
    const bench = await MqttBench.start({ protocolVersion: version });
    bench.broker.publish('t', 'same', { qos: 1 });
    bench.client.acknowledge(await bench.delivery('same'));
    await bench.broker.log.waitForReceived('puback');
    bench.connection.send({
      cmd: 'publish',
      topic: 't',
      payload: 'same',
      qos: 1,
      dup: true,
      retain: false,
      messageId: 1,
    });
    await bench.broker.waitFor(() => bench.runs('same') === 2);
    expect(bench.deliveries[1]).not.toBe(bench.deliveries[0]);
    await bench.stop();
  });
});

describe('C11: strictResends', () => {
  it('answers with DISCONNECT 0x82', async () => {
    const bench = await MqttBench.start({ protocolVersion: 5, strictResends: true });
    bench.broker.publish('t', 'slow', { qos: 1 });
    bench.client.start(await bench.delivery('slow'));
    bench.connection.resend(1, { dup: true });
    const [disconnect] = await bench.broker.log.waitForReceived('disconnect');
    expect(disconnect?.reasonCode).toBe(0x82);
    await bench.stop();
  });

  it('is a protocol error with other content in any case', async () => {
    const bench = await MqttBench.start({ protocolVersion: 5 });
    bench.broker.publish('t', 'slow', { qos: 1 });
    bench.client.start(await bench.delivery('slow'));
    bench.connection.send({
      cmd: 'publish',
      topic: 't',
      payload: 'else',
      qos: 1,
      dup: false,
      retain: false,
      messageId: 1,
    });
    const [disconnect] = await bench.broker.log.waitForReceived('disconnect');
    expect(disconnect?.reasonCode).toBe(0x82);
    expect(bench.runs('else')).toBe(0);
    await bench.stop();
  });
});
