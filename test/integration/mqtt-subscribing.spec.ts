import { type Subscription } from '../../lib/index.js';
import { unique, until } from './harness.js';
import { describeEachBroker, type LiveBroker, type LiveClient, mqttBrokers, type Peer } from './mqtt-live.js';

/** After it nothing that was published to these topics before can still be missing. */
async function mark(peer: Peer, clients: readonly LiveClient[], topic: string): Promise<void> {
  const text = unique('mark');
  await peer.client.publishAsync(topic, text, { qos: 1 });
  for (const client of clients) await until('the mark', () => client.payloads.includes(text));
}

const withoutMarks = (client: LiveClient): string[] =>
  client.payloads.filter((payload) => !payload.startsWith('mark-'));

/** How often one message comes to a client with these filters. */
async function copies(live: LiveBroker, filters: readonly string[], topic: string): Promise<LiveClient> {
  const client = await live.connected();
  await client.subscribe(
    filters.map((filter, index): Subscription => {
      return { filter, qos: 1, ...(live.version === 5 && { subscriptionIdentifier: index + 1 }) };
    }),
  );
  const peer = await live.peer();
  await peer.client.publishAsync(topic, 'once', { qos: 1 });
  await mark(peer, [client], topic);
  return client;
}

describeEachBroker('subscribing', (live) => {
  it('tells what each filter was granted, and gets exactly what matches', async () => {
    const root = unique('filters');
    const client = await live().connected();
    const filters = [`${root}/+/temperature`, `${root}/exact`, `${root}/deep/#`];
    const grants = await client.subscribe(filters.map((filter, index) => ({ filter, qos: index as 0 | 1 | 2 })));
    expect(grants).toEqual(
      filters.map((filter, index) => expect.objectContaining({ filter, requestedQos: index, reasonCode: index })),
    );
    const peer = await live().peer();
    const topics = ['a/temperature', 'exact', 'deep', 'deep/er/still', 'a/humidity', 'exact/ly', 'a/b/temperature'];
    for (const topic of topics) await peer.client.publishAsync(`${root}/${topic}`, topic, { qos: 1 });
    await mark(peer, [client], `${root}/exact`);
    expect(withoutMarks(client).sort()).toEqual(['a/temperature', 'deep', 'deep/er/still', 'exact']);
  });

  it('gets retained messages with the flag, and later ones without', async () => {
    const root = unique('retained');
    const publisher = await live().connected();
    for (const name of ['a', 'b', 'gone']) {
      await publisher.publish({ topic: `${root}/${name}`, payload: name, qos: 1, retain: true });
    }
    await publisher.publish({ topic: `${root}/gone`, payload: '', qos: 1, retain: true });
    const client = await live().connected();
    await client.subscribe([{ filter: `${root}/+`, qos: 1 }]);
    await client.received(2);
    await publisher.publish({ topic: `${root}/a`, payload: 'live', qos: 1, retain: true });
    await client.received(3);
    expect(client.deliveries.map(({ message }) => [message.payload.toString(), message.retain]).sort()).toEqual([
      ['a', true],
      ['b', true],
      ['live', false],
    ]);
    for (const name of ['a', 'b'])
      await publisher.publish({ topic: `${root}/${name}`, payload: '', qos: 1, retain: true });
  });

  it('takes in a storm of retained messages', async () => {
    const root = unique('storm');
    const count = 1000;
    const publisher = await live().connected();
    const all = Array.from({ length: count }, (_, id) => `${root}/${id}`);
    await Promise.all(all.map((topic) => publisher.publish({ topic, payload: topic, qos: 1, retain: true })));
    // A broker that breaks at a full window is given one that never fills.
    const receiveMaximum = live().differs('forgets what waited for Receive Maximum') ? 65_535 : 128;
    const client = await live().connected({ receiveMaximum });
    await client.subscribe([{ filter: `${root}/+`, qos: 1 }]);
    await until('all of them', () => new Set(client.payloads).size === count);
    await until('nothing under way', () => client.window.used === 0);
    expect(client.deliveries).toHaveLength(count);
    expect(client.stats.connects).toBe(1);
    await Promise.all(all.map((topic) => publisher.publish({ topic, payload: '', qos: 1, retain: true })));
  });

  it('subscribes 500 filters in a few packets', async () => {
    const root = unique('batch');
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url, subscribeBatchSize: 100 });
    const filters = Array.from({ length: 500 }, (_, id) => `${root}/${id}`);
    const grants = await client.subscribe(filters.map((filter) => ({ filter, qos: 1 })));
    expect(grants.map(({ filter, reasonCode }) => `${filter} ${reasonCode}`)).toEqual(filters.map((f) => `${f} 1`));
    expect(wire.of('client', 'subscribe')).toHaveLength(5);
    const peer = await live().peer();
    for (const filter of [filters[0], filters[250], filters[499]]) {
      await peer.client.publishAsync(filter ?? '', filter ?? '', { qos: 1 });
    }
    await client.received(3);
    client.reconnect('nothing is subscribed again where the session is there');
    await until('the second connection', () => client.stats.connects === 2);
    await mark(peer, [client], `${root}/7`);
    expect(wire.of('client', 'subscribe')).toHaveLength(5);
  });

  it('gets nothing more after unsubscribe, and says what was not subscribed', async () => {
    const root = unique('unsubscribe');
    const client = await live().connected();
    await client.subscribe([
      { filter: `${root}/a`, qos: 1 },
      { filter: `${root}/b`, qos: 1 },
    ]);
    const results = await client.unsubscribe([`${root}/a`, `${root}/never`]);
    const never = live().version === 5 ? 0x11 : 0;
    expect(results.map(({ reasonCode }) => reasonCode)).toEqual([0, never]);
    const peer = await live().peer();
    await peer.client.publishAsync(`${root}/a`, 'a', { qos: 1 });
    await mark(peer, [client], `${root}/b`);
    expect(withoutMarks(client)).toEqual([]);
    client.reconnect('the filter stays gone');
    await until('the second connection', () => client.stats.connects === 2);
    await peer.client.publishAsync(`${root}/a`, 'a', { qos: 1 });
    await mark(peer, [client], `${root}/b`);
    expect(withoutMarks(client)).toEqual([]);
  });

  it('gets a message once per overlapping filter or once for all, as the broker does it', async () => {
    const root = unique('overlap');
    const client = await copies(live(), [`${root}/#`, `${root}/+`, `${root}/a`], `${root}/a`);
    expect(withoutMarks(client)).toHaveLength(live().differs('one copy per matching filter') ? 3 : 1);
  });

  it('one of a shared group gets each message', async () => {
    const topic = unique('shared');
    const members = [await live().connected(), await live().connected(), await live().connected()];
    const filter = `$share/group/${topic}`;
    const granted = await Promise.all(members.map((member) => member.subscribe([{ filter, qos: 1 }])));
    expect(granted.flat().map(({ reasonCode }) => reasonCode)).toEqual([1, 1, 1]);
    const outsider = await live().connected();
    await outsider.subscribe([{ filter: topic, qos: 1 }]);
    const peer = await live().peer();
    const expected = Array.from({ length: 60 }, (_, id) => `${id}`);
    for (const payload of expected) await peer.client.publishAsync(topic, payload, { qos: 1 });
    await outsider.received(60);
    if (live().differs('has no shared subscriptions')) {
      expect(members.flatMap(({ payloads }) => payloads)).toEqual([]);
      return;
    }
    await until('all of them', () => members.reduce((sum, { deliveries }) => sum + deliveries.length, 0) === 60);
    expect(members.flatMap(({ payloads }) => payloads).sort()).toEqual([...expected].sort());
    expect(members.filter(({ deliveries }) => deliveries.length > 0).length).toBeGreaterThan(1);
  });
});

describeEachBroker(
  'subscribing with MQTT 5',
  (live) => {
    it('brings the subscription identifiers of every filter that matched', async () => {
      const root = unique('identifiers');
      const client = await copies(live(), [`${root}/#`, `${root}/other`, `${root}/a`], `${root}/a`);
      const once = client.deliveries.filter(({ message }) => message.payload.toString() === 'once');
      const identifiers = once.map(({ message }) => [...(message.properties?.subscriptionIdentifiers ?? [])].sort());
      if (live().differs('one copy per matching filter')) expect(identifiers.sort()).toEqual([[1], [3]]);
      else expect(identifiers).toEqual([[1, 3]]);
    });

    it('does not get its own messages with No Local', async () => {
      const root = unique('local');
      const client = await live().connected();
      await client.subscribe([
        { filter: `${root}/not`, qos: 1, noLocal: true },
        { filter: `${root}/too`, qos: 1 },
      ]);
      await client.publish({ topic: `${root}/not`, payload: 'mine', qos: 1 });
      await client.publish({ topic: `${root}/too`, payload: 'mine too', qos: 1 });
      const peer = await live().peer();
      await peer.client.publishAsync(`${root}/not`, 'theirs', { qos: 1 });
      await client.received(2);
      await mark(peer, [client], `${root}/not`);
      expect(withoutMarks(client).sort()).toEqual(['mine too', 'theirs']);
    });

    it('keeps the retain flag with Retain As Published', async () => {
      const topic = unique('published');
      const client = await live().connected();
      await client.subscribe([{ filter: topic, qos: 1, retainAsPublished: true }]);
      const peer = await live().peer();
      await peer.client.publishAsync(topic, 'kept', { qos: 1, retain: true });
      await peer.client.publishAsync(topic, 'plain', { qos: 1 });
      await client.received(2);
      expect(client.deliveries.map(({ message }) => message.retain)).toEqual([true, false]);
      await peer.client.publishAsync(topic, '', { qos: 1, retain: true });
    });

    it('gets retained messages as Retain Handling says', async () => {
      const root = unique('handling');
      const peer = await live().peer();
      for (const handling of [0, 1, 2]) {
        await peer.client.publishAsync(`${root}/${handling}`, `${handling}`, { qos: 1, retain: true });
      }
      const client = await live().connected();
      const subscribe = async (): Promise<void> => {
        const handlings = [0, 1, 2] as const;
        await client.subscribe(
          handlings.map((retainHandling) => ({ filter: `${root}/${retainHandling}`, qos: 1, retainHandling })),
        );
        await mark(peer, [client], `${root}/2`);
      };
      await subscribe();
      expect(withoutMarks(client).sort()).toEqual(['0', '1']);
      await subscribe();
      expect(withoutMarks(client).sort()).toEqual(['0', '0', '1']);
      for (const handling of [0, 1, 2])
        await peer.client.publishAsync(`${root}/${handling}`, '', { qos: 1, retain: true });
    });
  },
  mqttBrokers.filter(({ version }) => version === 5),
);
