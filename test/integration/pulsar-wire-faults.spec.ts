import { PulsarClient, type ProducerEvents, type PulsarClientOptions } from '../../lib/pulsar/index.js';
import { readTopic, type Tap, TcpProxy } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';
import { NumberedRun } from './pulsar-run.js';

// What a network can do that no admin call can, between the producer and the real broker.
describeWithBrokers('Pulsar producer on bad links', () => {
  const { admin, pulsarUrl, pulsarPort } = integrationBrokers();
  let namespace: string;
  let topic: string;
  const ends: (() => unknown)[] = [];

  beforeEach(async () => {
    namespace = `public/${unique('links')}`;
    topic = `persistent://${namespace}/numbers`;
    await admin.createNamespace(namespace);
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  const proxy = async (tap?: (connection: number) => Tap): Promise<TcpProxy> => {
    const started = await TcpProxy.start({ targetPort: pulsarPort, ...(tap && { tap }) });
    ends.push(() => started.close());
    return started;
  };
  const connect = (proxies: readonly TcpProxy[], options: Partial<PulsarClientOptions> = {}): PulsarClient => {
    const url = proxies.map(({ port }) => `pulsar://127.0.0.1:${port}`);
    const client = new PulsarClient({ url, backoff: { initial: 50, max: 500 }, ...options });
    ends.unshift(() => client.destroy());
    return client;
  };
  const violations = async (run: NumberedRun): Promise<string[]> => run.violations(await readTopic(pulsarUrl, topic));

  /** Turns a bit of the payload of message 5 on its first way to the broker. */
  const bitFlip = (): { readonly tap: () => Tap; flipped: number } => {
    const state = {
      flipped: 0,
      tap: (): Tap => ({
        fromClient: (chunk) => {
          const at = state.flipped === 0 ? chunk.indexOf('{"id":5,') : -1;
          if (at < 0) return;
          // The proxy hands on the very buffer that it shows.
          chunk[at + 12] ^= 1;
          state.flipped++;
        },
        fromServer: () => undefined,
        closed: () => undefined,
      }),
    };
    return state;
  };

  it('a bit flipped on the way: refused by its checksum and sent again; that the order broke is told', async () => {
    const flip = bitFlip();
    const producer = await connect([await proxy(flip.tap)]).createProducer({ topic, batching: false });
    const broken: ProducerEvents['orderBroken'][] = [];
    producer.on('orderBroken', (event) => broken.push(event));
    const run = new NumberedRun(producer);
    run.sendMany(20);
    await run.settle();
    expect(flip.flipped).toBe(1);
    expect(run.errors.size).toBe(0);
    // 6 to 19 were on their way already, and the broker stored them: the one exception to the order.
    expect(await violations(run)).toEqual(['stored behind a later one: 1, first 5']);
    expect(broken).toMatchObject([{ sequenceId: 5, cause: { serverError: 9 } }]);
    expect(producer.stats).toMatchObject({ orderBroken: 1, connects: 2 });
  });

  it('the same with deduplication: what the broker then drops as old is no success', async () => {
    await admin.setNamespaceDeduplication(namespace, true);
    await admin.createTopic(topic);
    await until('deduplication', async () => (await admin.stats(topic)).deduplicationStatus === 'Enabled', 60_000);
    const flip = bitFlip();
    const producer = await connect([await proxy(flip.tap)]).createProducer({ topic, batching: false });
    const run = new NumberedRun(producer);
    run.sendMany(20);
    await run.settle();
    expect(flip.flipped).toBe(1);
    expect(await violations(run)).toEqual([]);
    expect([...run.errors]).toMatchObject([[5, { code: 'ERR_DEDUPLICATED', ambiguous: false }]]);
    expect(run.results.size).toBe(19);
    run.sendMany(20);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(1);
  });

  it('half-open, the broker has lost the link: the keep alive finds out, and everything is sent again', async () => {
    const link = await proxy();
    const run = new NumberedRun(await connect([link], { keepAlive: 300 }).createProducer({ topic }));
    run.start(300);
    for (let round = 0; round < 3; round++) {
      await run.resolvesMore(50);
      link.halfOpen();
    }
    await run.resolvesMore(50);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(run.producer.stats.connects).toBeGreaterThanOrEqual(4);
  });

  it('half-open, the broker still has the old link: the producer of that name comes back with a higher epoch', async () => {
    const links = [await proxy(), await proxy()];
    const client = connect(links, { keepAlive: 500, connectTimeout: 1_000 });
    const run = new NumberedRun(await client.createProducer({ topic, name: 'gateway' }));
    const epochs: number[] = [];
    run.producer.on('connected', ({ epoch }) => epochs.push(epoch));
    run.start(300);
    await run.resolvesMore(50);
    // The one that carries it lets nothing pass any more, and the broker sees it open.
    const first = links.find((link) => link.figures.connections > 0)!;
    first.stall();
    await until('the next link', () => epochs.length > 0, 60_000);
    await run.resolvesMore(50);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(Math.min(...epochs)).toBeGreaterThan(1);
    expect((await admin.stats(topic)).publishers.map(({ producerName }) => producerName)).toEqual(['gateway']);
  });
});
