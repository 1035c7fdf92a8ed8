import { type InMemoryPulsarBroker, InMemoryPulsarCluster } from '../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** Where a producer goes: service addresses in turn, redirects, addresses that brokers name, another cluster. */
describe('the way to a broker', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  const two = async (): Promise<[InMemoryPulsarBroker, InMemoryPulsarBroker, InMemoryPulsarCluster]> => {
    const cluster = new InMemoryPulsarCluster();
    return [await world.broker({ cluster }), await world.broker({ cluster }), cluster];
  };

  describe('several service addresses', () => {
    it('takes the next one when nobody listens at the first', async () => {
      const [one, other] = await two();
      await one.stopListening();
      const client = world.client(one, { url: [one.url, other.url] });
      const producer = await client.createProducer({ topic: 'unit' });
      await producer.send(text('in'));
      expect(client.status.connections).toEqual([{ broker: other.url, state: 'ready' }]);
    });

    it('asks the next one when lookups fail at the first, and stays with the one that answers', async () => {
      const [one, other] = await two();
      one.failNext('partitionMetadata', 'ServiceNotReady', 'starting', 1000);
      one.failNext('lookupTopic', 'ServiceNotReady', 'starting', 1000);
      const client = world.client(one, { url: `${one.url},${other.url.slice('pulsar://'.length)}` });
      for (const topic of ['a', 'b', 'c']) await client.createProducer({ topic });
      expect(received(one, 'partitionMetadata')).toBe(1);
      expect(received(one, 'lookupTopic')).toBe(0);
    });

    it('asks the next one when the first does not answer', async () => {
      const [one, other] = await two();
      one.silenceNext('partitionMetadata', 1000);
      const client = world.client(one, { url: [one.url, other.url], operationTimeout: 100 });
      await client.createProducer({ topic: 'unit' });
      expect(received(one, 'partitionMetadata')).toBe(1);
    });

    it('moves over and back as brokers come and go, and loses nothing', async () => {
      const [one, other] = await two();
      const client = world.client(one, { url: [one.url, other.url] });
      const producer = await client.createProducer({ topic: 'unit', batching: false });
      const texts: string[] = [];
      for (const [away, back] of [
        [one, other],
        [other, one],
        [one, other],
      ] as const) {
        const down = away.stopListening();
        away.cut();
        for (let n = 0; n < 10; n++) texts.push(`m${texts.length}`);
        await Promise.all(texts.slice(-10).map((value) => producer.send(text(value))));
        await down;
        expect(back.connections.length).toBeGreaterThan(0);
        await away.listen();
      }
      expect(one.topic('unit').texts).toEqual(texts);
    });

    it('reports the failure of the last one when none can be reached', async () => {
      const [one, other] = await two();
      await one.stopListening();
      await other.stopListening();
      const client = world.client(one, { url: [one.url, other.url], createTimeout: 100 });
      const failed: string[] = [];
      client.on('connectFailed', ({ broker }) => failed.push(broker));
      await expect(client.createProducer({ topic: 'unit' })).rejects.toMatchObject({ code: 'ERR_CONNECTION' });
      expect(new Set(failed)).toEqual(new Set([one.url, other.url]));
    });

    it('is not tried elsewhere when a credential is refused that stays the same', async () => {
      const [one, other] = await two();
      one.options.authenticate = () => false;
      const auth = { method: 'token', renewable: false, getAuthData: () => 'fixed' };
      const client = world.client(one, { url: [one.url, other.url], auth });
      await expect(client.createProducer({ topic: 'unit' })).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION' });
      expect(other.allConnections).toHaveLength(0);
    });
  });

  describe('redirects', () => {
    it('asks the broker it was sent to, with the flag that came with the redirect', async () => {
      const [one, other] = await two();
      one.redirectLookup(other.url, { authoritative: true });
      other.redirectLookup(one.url, { authoritative: false });
      await world.client(one).createProducer({ topic: 'unit' });
      expect(one.log.received('lookupTopic').map(({ authoritative }) => authoritative ?? false)).toEqual([
        false,
        false,
      ]);
      expect(other.log.received('lookupTopic').map(({ authoritative }) => authoritative ?? false)).toEqual([true]);
    });

    it('gives up a lookup after 20 redirects, and begins anew later', async () => {
      const broker = await world.broker();
      broker.redirectLookup(broker.url, { times: 21 });
      const client = world.client(broker);
      const producer = await client.createProducer({ topic: 'unit' });
      await producer.send(text('at last'));
      // 21 that lead in a circle, then a fresh one that is answered.
      expect(received(broker, 'lookupTopic')).toBe(22);
    });

    it.each([
      ['without an address', { response: 0, authoritative: true }, 'a redirect without a broker URL'],
      ['to an empty address', { response: 0, brokerServiceUrl: '' }, 'a redirect without a broker URL'],
      ['connect without an address', { response: 1 }, 'an answer without a broker URL'],
      ['to something that is no URL', { response: 1, brokerServiceUrl: 'broker:6650' }, "no URL: 'broker:6650'"],
      ['with another scheme', { response: 1, brokerServiceUrl: 'http://b:80' }, "no URL: 'http://b:80'"],
    ])('takes an answer %s for a failed try, not for the end', async (_name, response, message) => {
      const broker = await world.broker();
      const producer = await world.client(broker).createProducer({ topic: 'unit' });
      const causes: string[] = [];
      producer.on('reconnecting', ({ cause }) => causes.push(cause.message));
      broker.faults.scriptLookup(response);
      broker.unload('unit');
      await producer.send(text('after'));
      expect(causes.at(-1)).toContain(message);
    });
  });

  describe('CLOSE_PRODUCER with an address', () => {
    it('goes there at once, without a lookup', async () => {
      const [one, other, cluster] = await two();
      cluster.assign('unit', one);
      const producer = await world.client(one).createProducer({ topic: 'unit', batching: false });
      one.holdReceipts();
      const sends = ['a', 'b', 'c'].map((value) => producer.send(text(value)));
      await one.waitFor(() => received(one, 'send') === 3);
      const lookups = received(one, 'lookupTopic');
      cluster.assign('unit', other);
      one.unload('unit', { brokerServiceUrl: other.url });
      cluster.acquire('unit', other);
      await Promise.all(sends);
      expect(received(one, 'lookupTopic')).toBe(lookups);
      expect(received(other, 'lookupTopic')).toBe(0);
      expect([...new Set(other.topic('unit').texts)]).toEqual(['a', 'b', 'c']);
    });

    it('looks up after all when the address leads nowhere or is none', async () => {
      for (const brokerServiceUrl of ['pulsar://127.0.0.1:1', 'nonsense', '']) {
        const broker = await world.broker();
        const producer = await world.client(broker).createProducer({ topic: 'unit' });
        broker.unload('unit', { brokerServiceUrl });
        await producer.send(text('found'));
        expect(received(broker, 'lookupTopic')).toBe(2);
      }
    });

    it('goes through the proxy where the last broker was reached through it', async () => {
      const proxy = await world.broker();
      const lookup = { response: 1, authoritative: true, proxyThroughServiceUrl: true };
      proxy.faults.scriptLookup({ ...lookup, brokerServiceUrl: 'pulsar://broker-1.internal:6650' });
      proxy.cluster.acquire('unit', proxy);
      const producer = await world.client(proxy).createProducer({ topic: 'unit' });
      proxy.unload('unit', { brokerServiceUrl: 'pulsar://broker-2.internal:6650' });
      proxy.cluster.acquire('unit', proxy);
      await producer.send(text('through'));
      const connects = proxy.log.received('connect').map(({ proxyToBrokerUrl }) => proxyToBrokerUrl ?? '');
      expect(connects).toEqual(['', 'broker-1.internal:6650', 'broker-2.internal:6650']);
    });
  });

  describe('TOPIC_MIGRATED', () => {
    it('takes the topic to the other cluster with everything that is pending, and stays there', async () => {
      const before = await world.broker();
      const after = await world.broker();
      const producer = await world.client(before).createProducer({ topic: 'unit', batching: false });
      before.silenceNext('send', 2);
      const sends = ['a', 'b'].map((value) => producer.send(text(value)));
      await before.waitFor(() => received(before, 'send') === 2);
      const lookups = received(before, 'lookupTopic');
      before.migrate('unit', after.url);
      await Promise.all(sends);
      after.unload('unit');
      await producer.send(text('c'));
      expect(after.topic('unit').texts).toEqual(['a', 'b', 'c']);
      expect(received(before, 'lookupTopic')).toBe(lookups);
      expect(received(after, 'lookupTopic')).toBe(2);
    });

    it('moves only the topic it names', async () => {
      const before = await world.broker();
      const after = await world.broker();
      const client = world.client(before);
      const moved = await client.createProducer({ topic: 'moved' });
      const stays = await client.createProducer({ topic: 'stays' });
      before.migrate('moved', after.url);
      await moved.send(text('m'));
      await stays.send(text('s'));
      expect([after.topic('moved').texts, before.topic('stays').texts]).toEqual([['m'], ['s']]);
      expect(stays.stats.connects).toBe(1);
    });
  });

  describe('connections', () => {
    it('are one to a broker by default, however many producers there are', async () => {
      const broker = await world.broker();
      const client = world.client(broker);
      const names = Array.from({ length: 8 }, (_, index) => `t${index}`);
      const producers = await Promise.all(names.map((topic) => client.createProducer({ topic })));
      await Promise.all(producers.map((producer) => producer.send(text('x'))));
      expect(broker.allConnections).toHaveLength(1);
    });

    it('are at most connectionsPerBroker, with the producers spread over them, also after a cut', async () => {
      const broker = await world.broker();
      const client = world.client(broker, { connectionsPerBroker: 3 });
      const names = Array.from({ length: 9 }, (_, index) => `t${index}`);
      const producers = await Promise.all(names.map((topic) => client.createProducer({ topic })));
      const load = (): number[] => broker.connections.map(({ producers: open }) => open.size);
      expect(load()).toEqual([3, 3, 3]);
      broker.cut();
      await Promise.all(producers.map((producer) => producer.send(text('x'))));
      expect(load()).toEqual([3, 3, 3]);
      expect(client.status.connections).toHaveLength(3);
    });
  });
});
