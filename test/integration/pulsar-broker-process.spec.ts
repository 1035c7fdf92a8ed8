import { PulsarClient } from '../../lib/pulsar/index.js';
import { Pulsar } from '../brokers/index.js';
import { readTopic } from '../wire/index.js';
import { describeWithBrokers, unique, until } from './harness.js';
import { misplaced, NumberedRun } from './pulsar-run.js';

const RATE = 500;
/** What a test may take that starts a broker: 10 to 40 s on a busy machine. */
const RESTART_MS = 300_000;

// A broker process that hangs, dies and comes back, with sends under way all the time. One broker of its own for all.
describeWithBrokers('Pulsar producer and the broker process', () => {
  let pulsar: Pulsar;
  let client: PulsarClient | undefined;
  let topic: string;

  beforeAll(async () => {
    pulsar = await Pulsar.start();
  }, RESTART_MS);
  afterAll(async () => {
    await pulsar.kill();
  });
  beforeEach(() => {
    topic = `persistent://public/default/${unique('process')}`;
  });
  afterEach(() => {
    pulsar.resume();
    client?.destroy();
  });

  const open = async (keepAlive: number, batching: boolean): Promise<NumberedRun> => {
    client = new PulsarClient({
      url: pulsar.url,
      keepAlive,
      backoff: { initial: 50, max: 1_000 },
      connectTimeout: 2_000,
    });
    return new NumberedRun(await client.createProducer({ topic, batching }));
  };
  const expectAllStored = async (run: NumberedRun): Promise<void> => {
    expect(run.violations(await readTopic(pulsar.directUrl, topic, { timeout: 60_000 }))).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(run.results.size).toBe(run.sent);
    expect(client?.memory.used).toBe(0);
    expect(await misplaced(pulsar.admin, topic, run.results)).toEqual([]);
  };

  it('SIGSTOP for a while: the connection outlives it, every receipt comes, nothing is sent twice', async () => {
    const run = await open(30_000, false);
    run.start(RATE);
    await run.resolvesMore(100);
    pulsar.pause();
    await run.sendsMore(RATE * 2);
    const meanwhile = run.results.size;
    expect(run.unsettled).toBeGreaterThan(RATE);
    pulsar.resume();
    await run.resolvesMore(RATE);
    await run.settle();
    await expectAllStored(run);
    expect(run.results.size).toBeGreaterThan(meanwhile);
    expect(run.producer.stats).toMatchObject({ connects: 1, resentFrames: 0 });
    expect(await pulsar.admin.entries(topic)).toBe(run.sent);
  });

  it.each([
    ['batches', true],
    ['single messages', false],
  ])(
    'SIGSTOP beyond the keep alive: the link is given up, and all is sent again when the broker wakes (%s)',
    async (_name, batching) => {
      const run = await open(500, batching);
      const causes: string[] = [];
      run.producer.on('disconnected', ({ cause }) => causes.push(cause.message));
      run.start(RATE);
      await run.resolvesMore(100);
      pulsar.pause();
      await until('the link to be given up', () => causes.length > 0);
      expect(causes[0]).toMatch(/no sign of life/);
      await run.sendsMore(RATE);
      pulsar.resume();
      await run.resolvesMore(RATE);
      await run.settle();
      await expectAllStored(run);
      expect(run.producer.stats.connects).toBeGreaterThanOrEqual(2);
    },
  );

  it(
    'SIGKILL and a restart on the same data: everything receipted is there, everything pending follows, in order',
    async () => {
      const run = await open(30_000, true);
      run.start(RATE);
      await run.resolvesMore(RATE);
      await pulsar.kill();
      const receipted = new Set(run.results.keys());
      await run.sendsMore(RATE);
      expect(run.errors.size).toBe(0);
      await pulsar.launch();
      await run.resolvesMore(RATE);
      await run.settle();
      await expectAllStored(run);
      expect(receipted.size).toBeGreaterThanOrEqual(RATE);
      expect(run.producer.stats.connects).toBeGreaterThanOrEqual(2);
    },
    RESTART_MS,
  );

  it(
    'an orderly restart (SIGTERM) of a broker with deduplication: each message once',
    async () => {
      const namespace = `public/${unique('process')}`;
      topic = `persistent://${namespace}/numbers`;
      await pulsar.admin.createNamespace(namespace);
      await pulsar.admin.setNamespaceDeduplication(namespace, true);
      await pulsar.admin.createTopic(topic);
      const enabled = async (): Promise<boolean> => (await pulsar.admin.stats(topic)).deduplicationStatus === 'Enabled';
      await until('deduplication', enabled, 60_000);
      const run = await open(30_000, true);
      run.start(RATE);
      await run.resolvesMore(RATE);
      await pulsar.restart();
      await run.resolvesMore(RATE);
      await run.settle();
      await expectAllStored(run);
      expect(await readTopic(pulsar.directUrl, topic, { timeout: 60_000 })).toHaveLength(run.sent);
    },
    RESTART_MS,
  );
});
