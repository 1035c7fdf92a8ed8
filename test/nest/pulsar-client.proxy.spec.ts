import { lastValueFrom, toArray } from 'rxjs';
import {
  MessageId,
  PulsarClientProxy,
  type PulsarClientProxyOptions,
  PulsarRecord,
  PulsarRecordBuilder,
} from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { until } from './support/app.js';

describe('PulsarClientProxy on a broker', () => {
  let broker: InMemoryPulsarBroker;
  let open: PulsarClientProxy[];
  const proxy = (options: Partial<PulsarClientProxyOptions> = {}): PulsarClientProxy => {
    const made = new PulsarClientProxy({ url: broker.url, backoff: { initial: 5, max: 20 }, ...options });
    open.push(made);
    return made;
  };

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
    open = [];
  });
  afterEach(async () => {
    await Promise.all(open.map((one) => one.close()));
    await broker.close();
    expect(broker.violations).toEqual([]);
  });

  it('stores what is emitted in the order of the calls, and gives the message ids', async () => {
    const client = proxy();
    const ids = await Promise.all(
      Array.from({ length: 500 }, (_, n) => lastValueFrom(client.emit('plant/7', { n }).pipe(toArray()))),
    );
    const topic = broker.topic('persistent://public/default/plant%2F7');
    expect(topic.texts).toEqual(Array.from({ length: 500 }, (_, n) => `{"n":${n}}`));
    expect(ids.every((values) => values.length === 1 && values[0] instanceof MessageId)).toBe(true);
    expect(new Set(ids.map(([id]) => String(id))).size).toBe(500);
    expect(client.stats).toMatchObject({ stored: 500, failed: 0, pending: 0, producers: 1 });
  });

  it('stores key, properties, times, tombstones and bytes as a record says', async () => {
    const client = proxy();
    const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
    const record = new PulsarRecordBuilder(bytes)
      .setKey('device-7')
      .setOrderingKey('room-1')
      .setProperties({ site: 'a' })
      .setEventTime(1_700_000_000_000)
      .build();
    await lastValueFrom(client.emit('t', record));
    await lastValueFrom(client.emit('t', new PulsarRecord(null, { key: 'gone' })));
    await lastValueFrom(client.emit('t', ''));
    const [first, second, third] = broker.topic('t').messages;
    expect(first).toMatchObject({
      payload: bytes,
      key: 'device-7',
      orderingKey: Buffer.from('room-1'),
      properties: { site: 'a' },
      eventTime: 1_700_000_000_000,
    });
    expect(second).toMatchObject({ payload: null, key: 'gone' });
    expect(third.payload).toEqual(Buffer.alloc(0));
  });

  it('connect() opens a connection, and says why it cannot', async () => {
    const client = proxy();
    const seen: string[] = [];
    client.status.subscribe((status) => seen.push(status));
    await client.connect();
    expect([broker.connections.length, client.health().status]).toEqual([1, 'up']);
    await client.close();
    expect(seen).toEqual(['connected', 'closed']);
    const { port } = broker;
    await broker.close();
    await expect(proxy().connect()).rejects.toMatchObject({ code: 'ERR_CONNECTION', retriable: true });
    broker = await InMemoryPulsarBroker.start({ port });
  });

  it('keeps emits over a cut, and is down until the broker is back', async () => {
    const client = proxy();
    await lastValueFrom(client.emit('t', '1'));
    broker.holdReceipts();
    const emits = ['2', '3'].map((text) => lastValueFrom(client.emit('t', text)));
    await until(() => broker.topic('t').texts.includes('3'));
    broker.refuse();
    broker.cut();
    await until(() => client.health().status === 'down');
    broker.releaseReceipts();
    broker.refuse(false);
    await Promise.all(emits);
    expect([...new Set(broker.topic('t').texts)]).toEqual(['1', '2', '3']);
    expect(client.health().status).toBe('up');
  });

  it('thousands of topics through a few producers: all stored, and the broker keeps few', async () => {
    const client = proxy({ maxProducers: 20 });
    const emits = Array.from({ length: 2000 }, (_, n) => lastValueFrom(client.emit(`device/${n}`, String(n))));
    await Promise.all(emits);
    for (let n = 0; n < 2000; n += 97) expect(broker.topic(`device%2F${n}`).texts).toEqual([String(n)]);
    expect(client.stats.producers).toBeLessThanOrEqual(20);
    expect(client.stats.evicted).toBeGreaterThanOrEqual(1980);
  });

  it('fails for a topic that the broker refuses, without asking again for each emit', async () => {
    broker.options.authorize = (topic) => (topic.endsWith('secret') ? 'not for you' : undefined);
    const client = proxy();
    await expect(lastValueFrom(client.emit('secret', 1))).rejects.toMatchObject({ retriable: false });
    const asked = broker.log.position;
    for (let n = 0; n < 5; n++)
      await expect(lastValueFrom(client.emit('secret', n))).rejects.toMatchObject({ retriable: false });
    expect(broker.log.position - asked).toBeLessThanOrEqual(2);
    await lastValueFrom(client.emit('open', 1));
  });

  it('close() waits for receipts up to its bound, then fails what is left', async () => {
    const client = proxy({ closeTimeout: 50 });
    await lastValueFrom(client.emit('t', '1'));
    broker.holdReceipts();
    const emit = lastValueFrom(client.emit('t', '2'));
    const failed = expect(emit).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await client.close();
    await failed;
    await until(() => broker.connections.length === 0);
  });

  it('destroy() fails what has no receipt at once', async () => {
    const client = proxy();
    broker.holdReceipts();
    const emit = lastValueFrom(client.emit('t', '1'));
    const failed = expect(emit).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await until(() => broker.log.received('send').length === 1);
    client.destroy();
    await failed;
  });
});
