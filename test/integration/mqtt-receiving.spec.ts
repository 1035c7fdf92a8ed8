import { MqttWire } from '../wire/index.js';
import { unique, until } from './harness.js';
import { describeEachBroker, type LiveClient, mqttBrokers } from './mqtt-live.js';

/** After this message nothing that was published before it can still be missing. */
async function everythingBefore(client: LiveClient, publish: (payload: string) => Promise<unknown>): Promise<void> {
  const mark = unique('mark');
  await publish(mark);
  await until('the mark', () => client.payloads.includes(mark));
}

describeEachBroker('receiving', (live) => {
  /** QoS 1 and 2 in turn; where the broker cannot have several QoS 2 messages under way, one of them. */
  const mixedQos = (id: number): 1 | 2 => ((live().differs('mixes up PUBRELs') ? id === 1 : id % 2 === 1) ? 2 : 1);

  it('takes in QoS 0, 1 and 2 once each, and the broker forgets what is acknowledged', async () => {
    const topic = unique('in');
    const client = await live().connected();
    await client.subscribe([{ filter: topic, qos: 2 }]);
    const peer = await live().peer();
    for (const qos of [0, 1, 2] as const) await peer.client.publishAsync(topic, `qos ${qos}`, { qos });
    await client.received(3);
    expect(client.deliveries.map(({ message }) => [message.payload.toString(), message.qos])).toEqual(
      expect.arrayContaining([
        ['qos 0', 0],
        ['qos 1', 1],
        ['qos 2', 2],
      ]),
    );
    await until('nothing under way', () => client.window.used === 0);

    client.reconnect('to see what the broker still has');
    await until('the second connection', () => client.stats.connects === 2);
    await everythingBefore(client, (mark) => peer.client.publishAsync(topic, mark, { qos: 1 }));
    expect(client.deliveries).toHaveLength(4);
    expect(client.stats).toMatchObject({ received: 4, sessionsLost: 0 });
  });

  it('sends acknowledgements in received order, whatever the order of acknowledge()', async () => {
    const topic = unique('order');
    const wire = await MqttWire.start({ targetPort: live().broker.port });
    const client = await live().connected({ url: wire.url });
    client.hold = true;
    await client.subscribe([{ filter: topic, qos: 2 }]);
    const peer = await live().peer();
    for (let id = 0; id < 12; id++) await peer.client.publishAsync(topic, `${id}`, { qos: mixedQos(id) });
    await client.received(12);
    for (const index of [7, 3, 11, 0, 4, 1, 10, 2, 9, 6, 5, 8]) client.acknowledge(client.deliveries[index]);
    await until('nothing under way', () => client.window.used === 0 && wire.unacknowledged === 0);
    expect(wire.figures).toMatchObject({ acknowledged: 12, outOfOrder: 0, unknown: 0, malformed: 0 });
    await wire.proxy.close();
  });

  it('binds what comes again to the deliveries it holds: no second run, and one acknowledgement each', async () => {
    const topic = unique('bind');
    const client = await live().connected();
    client.hold = true;
    await client.subscribe([{ filter: topic, qos: 2 }]);
    const peer = await live().peer();
    for (let id = 0; id < 8; id++) await peer.client.publishAsync(topic, `${id}`, { qos: mixedQos(id) });
    await client.received(8);
    // All but the two heads are done: on the wire nothing has left.
    for (const delivery of client.deliveries.slice(2)) client.acknowledge(delivery);
    client.reconnect('so that the broker sends all of it again');
    await until('all eight copies', () => client.stats.bound === 8);
    expect(client.stats.connects).toBe(2);
    expect(client.connection?.sessionPresent).toBe(true);
    for (const delivery of client.deliveries.slice(0, 2)) client.acknowledge(delivery);
    await until('all settled', () => client.deliveries.every(({ state }) => state === 'settled'));
    await until('nothing under way', () => client.window.used === 0);

    client.reconnect('to see what the broker still has');
    await until('the third connection', () => client.stats.connects === 3);
    await everythingBefore(client, (mark) => peer.client.publishAsync(topic, mark, { qos: 1 }));
    expect(client.deliveries).toHaveLength(9);
  });

  it('runs a failed delivery again after a reconnect, and it alone', async () => {
    const topic = unique('fail');
    const client = await live().connected();
    client.hold = true;
    await client.subscribe([{ filter: topic, qos: 1 }]);
    const peer = await live().peer();
    for (let id = 0; id < 4; id++) await peer.client.publishAsync(topic, `${id}`, { qos: 1 });
    await client.received(4);
    const [first, failing, ...others] = client.deliveries;
    for (const delivery of [first, ...others]) client.acknowledge(delivery);
    client.fail(failing);
    client.reconnect('redelivery');
    await client.received(5);
    expect(client.deliveries[4]).toBe(failing);
    expect(failing.attempt).toBe(2);
    client.acknowledge(failing);
    await until('all settled', () => client.deliveries.every(({ state }) => state === 'settled'));
  });

  it('another process with the same client id gets what this one left un-acknowledged, in order', async () => {
    const topic = unique('resume');
    const clientId = unique('app');
    const first = await live().connected({ clientId });
    first.hold = true;
    await first.subscribe([{ filter: topic, qos: 2 }]);
    const peer = await live().peer();
    for (let id = 0; id < 6; id++) await peer.client.publishAsync(topic, `${id}`, { qos: 1 });
    await first.received(6);
    for (const delivery of first.deliveries.slice(0, 2)) first.acknowledge(delivery);
    await until('two settled', () => first.deliveries.slice(0, 2).every(({ state }) => state === 'settled'));
    await first.close();
    await peer.client.publishAsync(topic, 'while away', { qos: 2 });

    const second = live().client({ clientId });
    const { sessionPresent } = await second.connect();
    expect(sessionPresent).toBe(true);
    await second.received(5);
    const expected = ['2', '3', '4', '5', 'while away'];
    if (live().differs('resumes out of order')) expect([...second.payloads].sort()).toEqual(expected);
    else expect(second.payloads).toEqual(expected);
    const again = second.deliveries.filter(({ message }) => message.payload.length === 1);
    expect(again.map(({ message }) => message.dup)).toEqual(again.map(() => !live().differs('redelivers without DUP')));
    // The session is still subscribed: nothing was subscribed by this process.
    await everythingBefore(second, (mark) => peer.client.publishAsync(topic, mark, { qos: 1 }));
    expect(second.deliveries).toHaveLength(6);
  });

  it('holds no more than Receive Maximum, and gets everything as it acknowledges', async () => {
    const topic = unique('window');
    const count = 60;
    const wire = await MqttWire.start({ targetPort: live().broker.port });
    const client = await live().connected({ url: wire.url, receiveMaximum: 5 });
    client.hold = true;
    const held = (): number => client.deliveries.filter(({ message }) => message.qos > 0).length;
    await client.subscribe([{ filter: topic, qos: 1 }]);
    const peer = await live().peer();
    for (let id = 0; id < count; id++) await peer.client.publishAsync(topic, `${id}`, { qos: 1 });
    const mark = (): Promise<void> => everythingBefore(client, (text) => peer.client.publishAsync(topic, text));
    if (live().version === 5) {
      await mark();
      expect(held()).toBe(5);
      // MQTT 3.1.1 has no Receive Maximum: there it is kept by not reading.
    } else await until('reading pauses', () => client.status.readingPaused);

    const stops = live().differs('forgets what waited for Receive Maximum');
    const coming = stops ? 10 : count;
    let acknowledged = 0;
    await until(`${coming} acknowledged`, () => {
      for (; acknowledged < client.deliveries.length; acknowledged++) {
        client.acknowledge(client.deliveries[acknowledged]);
      }
      return held() >= coming && client.window.used === 0;
    });
    await mark();
    expect(held()).toBe(coming);
    if (!stops) {
      const payloads = client.deliveries
        .filter(({ message }) => message.qos > 0)
        .map(({ message }) => message.payload.toString());
      expect(payloads).toEqual(Array.from({ length: count }, (_, id) => `${id}`));
    }
    if (live().version === 5) {
      const overruns = live().differs('overruns Receive Maximum');
      expect(client.stats.overruns > 0).toBe(overruns);
      expect(wire.figures.maxUnacknowledged > 5).toBe(overruns);
    }
    expect(client.stats.connects).toBe(1);
    await wire.proxy.close();
  });

  it('takes in a payload of 5 MB', async () => {
    const topic = unique('large');
    const payload = Buffer.alloc(5_000_000, 'the same again, ');
    const client = await live().connected();
    await client.subscribe([{ filter: topic, qos: 2 }]);
    const peer = await live().peer();
    for (const qos of [1, 2] as const) await peer.client.publishAsync(topic, payload, { qos });
    await client.received(2);
    for (const { message } of client.deliveries) expect(message.payload.equals(payload)).toBe(true);
  });
});

describeEachBroker(
  'receiving with MQTT 5',
  (live) => {
    it('resumes where the server may use topic aliases', async () => {
      const topic = unique('alias');
      const client = await live().connected({ topicAliasMaximum: 16 });
      client.hold = true;
      await client.subscribe([{ filter: topic, qos: 1 }]);
      const peer = await live().peer();
      for (let id = 0; id < 3; id++) await peer.client.publishAsync(topic, `${id}`, { qos: 1 });
      await client.received(3);
      client.reconnect('so that the broker sends all of it again');
      if (live().differs('resends with a dead topic alias')) {
        // Nobody can tell any more where these messages belong: better no session than a wrong one.
        // It comes in any order: where the one with the topic happens to be the first, try again.
        await until('the refusal', () => {
          if (client.status.state === 'connected') client.reconnect('another order');
          return /topic alias/.test(client.status.lastError?.message ?? '');
        });
      } else await until('all three copies', () => client.stats.bound === 3);
      expect(client.deliveries).toHaveLength(3);
    });

    it('a reason code of 0x80 and above ends the message: it does not come again', async () => {
      const topic = unique('reject');
      const client = await live().connected();
      client.hold = true;
      await client.subscribe([{ filter: topic, qos: 2 }]);
      const peer = await live().peer();
      for (const qos of [1, 2] as const) await peer.client.publishAsync(topic, `qos ${qos}`, { qos });
      await client.received(2);
      for (const delivery of client.deliveries) client.acknowledge(delivery, 0x99);
      await until('both settled', () => client.deliveries.every(({ state }) => state === 'settled'));
      expect(client.window.used).toBe(0);
      client.hold = false;
      client.reconnect('to see what the broker still has');
      await until('the second connection', () => client.stats.connects === 2);
      await everythingBefore(client, (mark) => peer.client.publishAsync(topic, mark, { qos: 1 }));
      expect(client.deliveries).toHaveLength(3);
    });
  },
  mqttBrokers.filter(({ version }) => version === 5),
);
