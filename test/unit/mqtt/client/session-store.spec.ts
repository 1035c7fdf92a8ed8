import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  LevelSessionStore,
  type SessionStore,
  type SessionStoreChange,
  type StoredSession,
} from '../../../../lib/mqtt/index.js';
import { handedOut, newClient, startBroker } from '../harness.js';

const EMPTY: StoredSession = { publishes: [], releaseOrder: [], receivedIds: [], filters: [] };

/** A store whose writes the test lets through. */
class SlowStore implements SessionStore {
  readonly batches: SessionStoreChange[][] = [];
  private readonly waiting: ((error?: Error) => void)[] = [];
  automatic = false;

  load(): Promise<StoredSession> {
    return Promise.resolve(EMPTY);
  }

  apply(_clientId: string, changes: readonly SessionStoreChange[]): Promise<void> {
    this.batches.push([...changes]);
    if (this.automatic) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.waiting.push((error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  finish(error?: Error): void {
    this.waiting.shift()?.(error);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

describe('nothing is written before the store has it', () => {
  it('a publish', async () => {
    const broker = await startBroker();
    const store = new SlowStore();
    const client = newClient(broker, { store });
    await client.connect();
    const published = client.publish({ topic: 'p', payload: 'x', qos: 1 });
    await broker.log.waitFor(() => store.batches.length === 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(store.batches[0].map(({ type }) => type)).toEqual(['putPublish', 'sendPublish']);
    expect(broker.log.received('publish')).toEqual([]);
    store.automatic = true;
    store.finish();
    await published;
    await broker.log.waitFor(() => store.batches.flat().some(({ type }) => type === 'deletePublish'));
  });

  it('a PUBREC', async () => {
    const broker = await startBroker();
    const store = new SlowStore();
    store.automatic = true;
    const client = newClient(broker, { store });
    await client.connect();
    await client.subscribe([{ filter: 't', qos: 2 }]);
    await broker.log.waitFor(() => store.batches.flat().some(({ type }) => type === 'putFilters'));
    store.automatic = false;
    broker.publish('t', 'x', { qos: 2 });
    await handedOut(broker, client, 1);
    client.acknowledge(client.handedOut[0]);
    await broker.log.waitFor(() => store.batches.flat().some(({ type }) => type === 'putReceived'));
    expect(broker.log.received('pubrec')).toEqual([]);
    store.automatic = true;
    store.finish();
    await broker.log.waitForReceived('pubcomp', 1);
    await broker.log.waitFor(() => store.batches.flat().some(({ type }) => type === 'deleteReceived'));
  });

  it('and a store that fails ends the client', async () => {
    const broker = await startBroker();
    const store = new SlowStore();
    const client = newClient(broker, { store });
    await client.connect();
    const published = client.publish({ topic: 'p', payload: 'x', qos: 1 });
    const rejected = expect(published).rejects.toMatchObject({ code: 'ERR_CLOSED', ambiguous: true });
    await broker.log.waitFor(() => store.batches.length === 1);
    store.finish(new Error('disk full'));
    await rejected;
    expect(client.errors).toMatchObject([{ code: 'ERR_SESSION', cause: { message: 'disk full' } }]);
    expect(client.status.state).toBe('closed');
    expect(broker.log.received('publish')).toEqual([]);
  });
});

describe('LevelSessionStore', () => {
  let path: string;
  beforeEach(async () => {
    path = await mkdtemp(join(tmpdir(), 'session-store-'));
  });
  afterEach(() => rm(path, { recursive: true, force: true }));

  it('gives back what was put in, per client id', async () => {
    const store = new LevelSessionStore({ path });
    expect(await store.load('a')).toEqual(EMPTY);
    const publish = (sequence: number) => ({
      sequence,
      topic: `t/${sequence}`,
      payload: Buffer.from([0, 255, sequence & 255]),
      qos: 2 as const,
      retain: true,
      properties: {
        correlationData: Buffer.from([1, 2]),
        contentType: 'x',
        userProperties: [['a', '1'] as const, ['a', '2'] as const],
      },
      packetId: 0,
      released: false,
      storedAt: 5,
    });
    const filters = [{ filter: 'f/#', qos: 1 as const, subscriptionIdentifier: 3 }];
    await store.apply('a', [
      ...[10, 9, 1_000_000_000_000_000].map((n) => ({ type: 'putPublish' as const, publish: publish(n) })),
      { type: 'sendPublish', sequence: 9, packetId: 65_535 },
      { type: 'sendPublish', sequence: 10, packetId: 2 },
      { type: 'releasePublish', sequence: 10 },
      { type: 'releasePublish', sequence: 9 },
      { type: 'putReceived', packetId: 7 },
      { type: 'clearReceived' },
      { type: 'putReceived', packetId: 8 },
      { type: 'putReceived', packetId: 9 },
      { type: 'deleteReceived', packetId: 9 },
      { type: 'putFilters', filters },
    ]);
    await store.apply('a/b', [{ type: 'putReceived', packetId: 1 }]);
    await store.close();

    const again = new LevelSessionStore({ path });
    expect(await again.load('a')).toEqual({
      publishes: [
        { ...publish(9), packetId: 65_535, released: true },
        { ...publish(10), packetId: 2, released: true },
        publish(1_000_000_000_000_000),
      ],
      releaseOrder: [10, 9],
      receivedIds: [8],
      filters,
    });
    expect((await again.load('a/b')).receivedIds).toEqual([1]);
    await again.apply('a', [
      { type: 'sendPublish', sequence: 9, packetId: 0 },
      { type: 'deletePublish', sequence: 10 },
      { type: 'clearReceived' },
    ]);
    const left = await again.load('a');
    expect(left.publishes.map(({ sequence, packetId, released }) => [sequence, packetId, released])).toEqual([
      [9, 0, false],
      [1_000_000_000_000_000, 0, false],
    ]);
    expect([left.releaseOrder, left.receivedIds]).toEqual([[], []]);
    await again.close();
  });

  it('a second user of the same directory is told', async () => {
    const [first, second] = [new LevelSessionStore({ path }), new LevelSessionStore({ path })];
    await first.load('a');
    await expect(second.load('a')).rejects.toMatchObject({ code: 'ERR_SESSION' });
    await first.close();
  });

  it('queued publishes survive the process, in order and before new ones', async () => {
    const broker = await startBroker();
    await broker.stopListening();
    const store = new LevelSessionStore({ path });
    const first = newClient(broker, { store, waitForBroker: true });
    first.connect().catch(() => undefined);
    const outcomes = [1, 2].map((n) =>
      first
        .publish({ topic: 'p', payload: String(n), qos: n === 1 ? 1 : 2 })
        .catch((error: { code: string }) => error.code),
    );
    await broker.log.waitFor(() => first.stats.pendingPublishes === 2);
    await first.close();
    expect(await Promise.all(outcomes)).toEqual(['ERR_CLOSED', 'ERR_CLOSED']);

    await broker.listen();
    const second = newClient(broker, { store: new LevelSessionStore({ path }) });
    const published = second.publish({ topic: 'p', payload: '3', qos: 1 });
    await second.connect();
    await published;
    expect(broker.log.received('publish').map(({ payload }) => payload.toString())).toEqual(['1', '2', '3']);
    await broker.log.waitForReceived('pubrel', 1);
    await broker.log.waitFor(() => second.stats.pendingPublishes === 0);
    await second.close();

    const third = new LevelSessionStore({ path });
    expect((await third.load('client')).publishes).toEqual([]);
    await third.close();
  });

  it('a QoS 2 handler succeeds once across the end of the process after its PUBREC', async () => {
    const broker = await startBroker();
    const stop = broker.onReceive((packet) => (packet.cmd === 'pubrec' ? 'ignore' : undefined));
    const store = new LevelSessionStore({ path });
    const first = newClient(broker, { store });
    await first.connect();
    await first.subscribe([{ filter: 't', qos: 2 }]);
    broker.publish('t', 'x', { qos: 2 });
    await handedOut(broker, first, 1);
    first.acknowledge(first.handedOut[0]);
    await broker.log.waitForReceived('pubrec', 1);
    first.destroy();
    await store.close();
    stop();

    const second = newClient(broker, { store: new LevelSessionStore({ path }) });
    await second.connect();
    await second.subscribe([{ filter: 't', qos: 2 }]);
    await broker.log.waitForReceived('pubcomp', 1);
    expect(second.handedOut).toEqual([]);
    await second.close();
  });

  it('known filters are not subscribed to again on a resumed session, changed ones are', async () => {
    const broker = await startBroker();
    const first = newClient(broker, { store: new LevelSessionStore({ path }) });
    await first.connect();
    await first.subscribe([
      { filter: 'same', qos: 1 },
      { filter: 'changed', qos: 1 },
    ]);
    await first.close();
    const since = broker.log.position;
    const second = newClient(broker, { store: new LevelSessionStore({ path }) });
    const grants = second.subscribe([
      { filter: 'same', qos: 1 },
      { filter: 'changed', qos: 2 },
    ]);
    await second.connect();
    expect((await grants).map(({ reasonCode }) => reasonCode)).toEqual([1, 2]);
    const filters = broker.log
      .received('subscribe', { since })
      .flatMap(({ subscriptions }) => subscriptions.map(({ topic }) => topic));
    expect(filters).toEqual(['changed']);
    await second.close();
  });

  it('the filters of a lost session are not believed in, when the process ends before the new SUBACK', async () => {
    const broker = await startBroker();
    const first = newClient(broker, { store: new LevelSessionStore({ path }) });
    await first.connect();
    await first.subscribe([{ filter: 't', qos: 1 }]);
    await first.close();
    broker.dropSession('client');

    // The new session is there on the server, without a filter, and nobody has read its CONNACK.
    const stop = broker.withhold('connack');
    const store = new LevelSessionStore({ path });
    const second = newClient(broker, { store });
    second.connect().catch(() => undefined);
    await broker.log.waitForReceived('connect', 2);
    second.destroy();
    await store.close();
    stop();

    const third = newClient(broker, { store: new LevelSessionStore({ path }) });
    expect((await third.connect()).sessionPresent).toBe(true);
    await third.subscribe([{ filter: 't', qos: 1 }]);
    broker.publish('t', 'x', { qos: 1 });
    await handedOut(broker, third, 1);
    await third.close();
  });

  it('a filter whose UNSUBSCRIBE was written is not believed in', async () => {
    const broker = await startBroker();
    const store = new LevelSessionStore({ path });
    const first = newClient(broker, { store });
    await first.connect();
    await first.subscribe([{ filter: 't', qos: 1 }]);
    broker.withhold('unsuback');
    first.unsubscribe(['t']).catch(() => undefined);
    await broker.log.waitForReceived('unsubscribe', 1);
    first.destroy();
    await store.close();

    const second = newClient(broker, { store: new LevelSessionStore({ path }) });
    await second.connect();
    await second.subscribe([{ filter: 't', qos: 1 }]);
    expect(broker.log.received('subscribe')).toHaveLength(2);
    await second.close();
  });

  it('2,000 filters with identifiers, each in a packet of its own, are recorded a few times and not once per packet', async () => {
    const broker = await startBroker();
    const store = new SlowStore();
    store.automatic = true;
    const client = newClient(broker, { store, protocolVersion: 5 });
    await client.connect();
    const filters = Array.from({ length: 2_000 }, (_, i) => `d/${i}`);
    await client.subscribe(filters.map((filter, i) => ({ filter, qos: 1 as const, subscriptionIdentifier: i + 1 })));
    const recorded = (): number[] =>
      store.batches.flat().flatMap((change) => (change.type === 'putFilters' ? [change.filters.length] : []));
    await broker.log.waitFor(() => recorded().includes(2_000));
    await client.unsubscribe(filters);
    await broker.log.waitFor(() => recorded().at(-1) === 0);
    expect(recorded().reduce((sum, count) => sum + count, 0)).toBeLessThan(6 * 2_000);
    await client.close();
  });
});
