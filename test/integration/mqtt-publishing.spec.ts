import { type Properties, type PublishRequest, type Qos } from '../../lib/index.js';
import { Mochi } from '../brokers/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { describeEachBroker, LiveClient, mqttBrokers } from './mqtt-live.js';

const QOS: readonly Qos[] = [0, 1, 2];

describeEachBroker('publishing', (live) => {
  it('hands QoS 0, 1 and 2 over, byte for byte', async () => {
    const topic = unique('out');
    const peer = await live().peer(`${topic}/#`);
    const client = await live().connected();
    const payload = Buffer.from([0, 0xff, 0xc3, 0x28, 0x0a]);
    for (const qos of QOS) {
      await expect(client.publish({ topic: `${topic}/${qos}`, payload, qos })).resolves.toMatchObject({
        reasonCode: 0,
      });
    }
    await client.publish({ topic: `${topic}/empty`, payload: '', qos: 1 });
    await peer.received(4);
    expect(peer.messages.map(({ topic: of, qos, payload: bytes }) => [of, qos, bytes.toString('hex')]).sort()).toEqual([
      [`${topic}/0`, 0, payload.toString('hex')],
      [`${topic}/1`, 1, payload.toString('hex')],
      [`${topic}/2`, 2, payload.toString('hex')],
      [`${topic}/empty`, 1, ''],
    ]);
  });

  it("keeps the order of the calls and the server's Receive Maximum with hundreds at once", async () => {
    const topic = unique('many');
    const count = 400;
    const peer = await live().peer(topic);
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url });
    const publish = (id: number): Promise<unknown> =>
      client.publish({ topic, payload: `${id}`, qos: id % 2 === 0 ? 1 : 2 });
    await Promise.all(Array.from({ length: count }, (_, id) => publish(id)));
    await peer.received(count);
    expect(new Set(peer.payloads).size).toBe(count);
    expect(peer.messages).toHaveLength(count);
    const sent = wire.of('client', 'publish').map(({ payload }) => Number(payload.toString()));
    expect(sent).toEqual(Array.from({ length: count }, (_, id) => id));
    expect(wire.mostPublishesUnderWay).toBeLessThanOrEqual(client.connection?.limits.receiveMaximum ?? 0);
    expect(client.stats).toMatchObject({ connects: 1, published: count, republished: 0, pendingPublishes: 0 });
    expect(wire.malformed).toBe(0);
  });

  it('sends again after a cut what had no answer: QoS 2 arrives once, QoS 1 at least once', async () => {
    const topic = unique('again');
    const peer = await live().peer(topic);
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url, keepAlive: 0 });
    if (live().differs('keeps sessions of subscribers only'))
      await client.subscribe([{ filter: unique('any'), qos: 0 }]);
    const published: Promise<unknown>[] = [];
    for (let round = 0; round < 5; round++) {
      // Written, then cut with whatever the broker had answered by then.
      for (let id = 0; id < 8; id++) {
        const request: PublishRequest = { topic, payload: `${round}.${id}`, qos: id % 2 === 0 ? 1 : 2 };
        published.push(client.publish(request));
      }
      const written = wire.of('client', 'publish').length;
      await until('something written', () => wire.of('client', 'publish').length > written);
      wire.proxy.cut();
      await until('a new connection', () => client.stats.connects === round + 2);
    }
    await Promise.all(published);
    await until('all of it', () => new Set(peer.payloads).size === 40);
    const last = await client.publish({ topic, payload: 'last', qos: 2 }).then(() => 'last');
    await until('the last', () => peer.payloads.includes(last));
    const twice = peer.payloads.filter((payload, index) => peer.payloads.indexOf(payload) !== index);
    // QoS 2 has an odd number at its end.
    expect(twice.filter((payload) => /[13579]$/.test(payload))).toEqual([]);
    expect(client.stats.sessionsLost).toBe(0);
  });

  it('queues while there is no connection, and sends in order when there is one', async () => {
    const topic = unique('queue');
    const peer = await live().peer(topic);
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url });
    wire.proxy.refuse(true);
    wire.proxy.cut();
    await until('the loss', () => client.status.state === 'reconnecting');
    const results = Array.from({ length: 30 }, (_, id) =>
      client.publish({ topic, payload: `${id}`, qos: QOS[id % 3] ?? 0 }),
    );
    await until('a refused attempt', () => wire.proxy.figures.refused > 1);
    expect(client.stats.pendingPublishes).toBe(30);
    wire.proxy.refuse(false);
    await Promise.all(results);
    await peer.received(30);
    const numbers = peer.messages.map(({ qos, payload }) => ({ qos, id: Number(payload.toString()) }));
    for (const qos of QOS) {
      const ids = numbers.filter((message) => message.qos === qos).map(({ id }) => id);
      expect(ids).toEqual(Array.from({ length: 10 }, (_, index) => index * 3 + qos));
    }
  });

  it('a full queue rejects the next one and keeps the others', async () => {
    const topic = unique('full');
    const peer = await live().peer(topic);
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url, publishQueue: { maxMessages: 3 } });
    wire.proxy.refuse(true);
    wire.proxy.cut();
    await until('the loss', () => client.status.state === 'reconnecting');
    const results = [0, 1, 2, 3].map((id) => client.publish({ topic, payload: `${id}`, qos: 1 }));
    await expect(results[3]).rejects.toMatchObject({ code: 'ERR_QUEUE_FULL', retriable: true });
    wire.proxy.refuse(false);
    await Promise.all(results.slice(0, 3));
    await peer.received(3);
    expect(peer.payloads).toEqual(['0', '1', '2']);
  });

  it('is back after a restart of the broker, with its subscriptions and what was published meanwhile', async () => {
    const topic = unique('restart');
    const client = await live().connected();
    await client.subscribe([{ filter: topic, qos: 1 }]);
    const lost: number[] = [];
    client.on('sessionLost', ({ orphaned }) => lost.push(orphaned));
    const published = new Promise((resolve, reject) => {
      client.on('disconnect', () => {
        client.publish({ topic, payload: 'while it was down', qos: 1 }).then(resolve, reject);
      });
    });
    await live().broker.restart();
    await published;
    expect(client.stats.connects).toBe(2);
    expect(lost).toEqual(live().differs('forgets sessions at a restart') ? [0] : []);
    await until('its subscription', async () => {
      await client.publish({ topic, payload: 'after it', qos: 1 });
      return client.payloads.includes('after it');
    });
    if (!live().differs('forgets sessions at a restart')) expect(client.payloads).toContain('while it was down');
  });

  it('hands a payload of 5 MB over', async () => {
    const topic = unique('large');
    const payload = Buffer.alloc(5_000_000, 'the same again, ');
    const peer = await live().peer(topic);
    const client = await live().connected();
    for (const qos of [1, 2] as const) await client.publish({ topic, payload, qos });
    await peer.received(2);
    for (const message of peer.messages) expect(message.payload.equals(payload)).toBe(true);
  });
});

const brokersOfMqtt5 = mqttBrokers.filter(({ version }) => version === 5);

describeEachBroker(
  'publishing with MQTT 5',
  (live) => {
    it('carries every property, user properties in their order', async () => {
      const topic = unique('properties');
      const receiver = await live().connected();
      await receiver.subscribe([{ filter: topic, qos: 1 }]);
      const client = await live().connected();
      const properties: Properties = {
        payloadFormatIndicator: 1,
        messageExpiryInterval: 3600,
        contentType: 'text/plain; charset=utf-8',
        responseTopic: `${topic}/answers`,
        correlationData: Buffer.from([0, 1, 0xff]),
        userProperties: [
          ['b', '1'],
          ['a', '2'],
          ['b', '3'],
          ['', 'no name'],
          ['unit', '°C'],
          ['a', '2'],
        ],
      };
      await client.publish({ topic, payload: 'ü', qos: 1, properties });
      await receiver.received(1);
      const { messageExpiryInterval, ...others } = receiver.deliveries[0]?.message.properties ?? {};
      const { messageExpiryInterval: _, ...sent } = properties;
      expect(others).toEqual(sent);
      // The broker takes off what the message spent with it.
      expect(messageExpiryInterval).toBeGreaterThan(3000);
      expect(messageExpiryInterval).toBeLessThanOrEqual(3600);
    });

    it('says when nobody has subscribed', async () => {
      const client = await live().connected();
      const { reasonCode } = await client.publish({ topic: unique('nobody'), payload: 'x', qos: 1 });
      expect(reasonCode).toBe(live().differs('does not say that nobody has subscribed') ? 0 : 0x10);
    });

    it('uses topic aliases where the server takes them, and the messages keep their topics', async () => {
      const topic = unique('alias');
      const peer = await live().peer(`${topic}/#`);
      const wire = await live().wire();
      const client = await live().connected({ url: wire.url });
      const topics = Array.from({ length: 30 }, (_, id) => `${topic}/${id % 3}`);
      for (const of of topics) await client.publish({ topic: of, payload: of, qos: 1 });
      await peer.received(30);
      for (const message of peer.messages) expect(message.topic).toBe(message.payload.toString());
      const without = wire.of('client', 'publish').filter((packet) => packet.topic === '').length;
      expect(without).toBe(live().differs('takes no topic aliases') ? 0 : 27);
    });

    it('resolves the topic aliases of a server that uses them', async () => {
      const topic = unique('alias');
      const wire = await live().wire();
      const client = await live().connected({ url: wire.url, topicAliasMaximum: 2 });
      await client.subscribe([{ filter: `${topic}/#`, qos: 0 }]);
      const peer = await live().peer();
      for (let id = 0; id < 12; id++) await peer.client.publishAsync(`${topic}/${id % 3}`, `${topic}/${id % 3}`);
      await client.received(12);
      for (const { message } of client.deliveries) expect(message.topic).toBe(message.payload.toString());
      const without = wire.of('server', 'publish').filter((packet) => packet.topic === '').length;
      expect(without > 0).toBe(!live().differs('sends no topic aliases'));
    });

    it('gets no message over its Maximum Packet Size, and every other one', async () => {
      const topic = unique('size');
      const client = await live().connected({ maximumPacketSize: 2000 });
      await client.subscribe([{ filter: topic, qos: 1 }]);
      const peer = await live().peer();
      for (const size of [100, 5000, 1000]) await peer.client.publishAsync(topic, 'x'.repeat(size), { qos: 1 });
      await client.received(2);
      expect(client.payloads.map((payload) => payload.length)).toEqual([100, 1000]);
      expect(client.stats.connects).toBe(1);
    });

    it('a message that expired at the broker does not come', async () => {
      const topic = unique('expiry');
      const clientId = unique('away');
      const away = await live().connected({ clientId });
      await away.subscribe([{ filter: topic, qos: 1 }]);
      await away.close();
      const client = await live().connected();
      const publish = (payload: string, messageExpiryInterval: number): Promise<unknown> =>
        client.publish({ topic, payload, qos: 1, properties: { messageExpiryInterval } });
      await publish('short', 1);
      await publish('long', 3600);
      // Brokers look once a second.
      await new Promise((resolve) => setTimeout(resolve, 3000));
      const back = await live().connected({ clientId });
      await back.received(1);
      await publish('last', 3600);
      await until('the last', () => back.payloads.includes('last'));
      expect(back.payloads).toEqual(['long', 'last']);
    });
  },
  brokersOfMqtt5,
);

describeWithMqttBrokers('mochi with its own settings', () => {
  it('answers a publish that has user properties with a reason code that no PUBACK has: refused, with the reason', async () => {
    const broker = await Mochi.start({ inheritProperties: true });
    const client = new LiveClient({ url: broker.url, clientId: unique('client') });
    await client.connect();
    await client.publish({ topic: 't', payload: 'plain', qos: 1 });
    const properties: Properties = { userProperties: [['name', 'value']] };
    const refused = expect(client.publish({ topic: 't', payload: 'x', qos: 1, properties })).rejects.toMatchObject({
      code: 'ERR_CLOSED',
      ambiguous: true,
    });
    await until('the loss', () => client.stats.connects > 1);
    expect(client.status.lastError?.message).toMatch(/puback with .*0x01/);
    client.destroy();
    await refused;
    await broker.kill();
  });
});
