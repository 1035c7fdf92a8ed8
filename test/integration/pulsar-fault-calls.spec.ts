import {
  PulsarClient,
  type ProducerOptions,
  type PulsarClientOptions,
  type SendResult,
} from '../../lib/pulsar/index.js';
import { readTopic } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';
import { misplaced, NumberedRun, payloadOf } from './pulsar-run.js';

const SUBSCRIPTION = 'keeps-a-backlog';
const RATE = 400;

// What an operator can do to a topic, on the real broker. Each test has a namespace of its own; what the broker stored is
// read back by a reader that shares no code with the client, and entries named in receipts are asked for one by one.
describeWithBrokers('Pulsar producer under admin calls', () => {
  const { admin, pulsarUrl } = integrationBrokers();
  let namespace: string;
  let topic: string;
  let clients: PulsarClient[];

  beforeEach(async () => {
    clients = [];
    namespace = `public/${unique('faults')}`;
    topic = `persistent://${namespace}/numbers`;
    await admin.createNamespace(namespace);
  });
  afterEach(() => {
    for (const client of clients) client.destroy();
  });

  const connect = (options: Partial<PulsarClientOptions> = {}): PulsarClient => {
    const client = new PulsarClient({ url: pulsarUrl, backoff: { initial: 50, max: 1_000 }, ...options });
    clients.push(client);
    return client;
  };
  const open = async (options: Partial<ProducerOptions> = {}): Promise<NumberedRun> =>
    new NumberedRun(await connect().createProducer({ topic, ...options }));
  const violations = async (run: NumberedRun, gone?: (result: SendResult) => boolean): Promise<string[]> => {
    const found = run.violations(await readTopic(pulsarUrl, topic), gone);
    for (const client of clients) {
      if (client.memory.used !== 0) found.push(`${client.memory.used} bytes of the memory limit are in use`);
    }
    return found;
  };

  it.each([
    ['batches', true],
    ['single messages', false],
  ])('unload, of the topic and of its namespace: everything resolves, in order (%s)', async (_name, batching) => {
    const run = await open({ batching });
    run.start(RATE);
    for (let round = 0; round < 6; round++) {
      await run.resolvesMore(30);
      await (round % 2 === 0 ? admin.unload(topic) : admin.unloadNamespace(namespace));
    }
    await run.resolvesMore(30);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(run.producer.stats.connects).toBeGreaterThanOrEqual(7);
    expect(await misplaced(admin, topic, run.results)).toEqual([]);
  });

  // With several entries under way the broker never answers PRODUCER with the truth: see producer-errors-after-close.spec.
  it.each([
    ['batches', true],
    ['single messages', false],
  ])(
    'terminate: what was stored resolves, the rest rejects for good, nothing dials again (%s)',
    async (_n, batching) => {
      const run = await open({ batching });
      const terminated: unknown[] = [];
      let triesAfterwards = 0;
      run.producer.on('terminated', ({ cause }) => terminated.push(cause.code));
      run.producer.on('reconnecting', () => (triesAfterwards += terminated.length));
      run.start(2 * RATE);
      await run.resolvesMore(50);
      await admin.terminate(topic);
      await until('the end', () => run.producer.state === 'terminated');
      await run.settle();
      expect((await admin.stats(topic)).publishers).toEqual([]);
      // The broker may keep the topic fenced, for readers too: loaded again it can be read.
      await admin.unload(topic);
      await until('the topic can be read', () => readable(pulsarUrl, topic));
      expect(await violations(run)).toEqual([]);
      expect(run.errors.size).toBeGreaterThan(0);
      for (const error of run.errors.values())
        expect(error).toMatchObject({ code: 'ERR_TERMINATED', retriable: false });
      // Order: nothing that was called after a rejected message is stored before it.
      expect(Math.max(...run.results.keys())).toBeLessThan(Math.min(...run.errors.keys()));
      expect(terminated).toEqual(['ERR_TERMINATED']);
      await expect(run.producer.send({ payload: payloadOf(run.next) })).rejects.toMatchObject({
        code: 'ERR_TERMINATED',
      });
      await expect(run.producer.flush()).resolves.toBeUndefined();
      await run.producer.close();
      expect(triesAfterwards).toBe(0);
      await expect(connect().createProducer({ topic })).rejects.toMatchObject({ code: 'ERR_TERMINATED' });
    },
  );

  it('delete: the topic is made anew and the sends go on; a receipt of the new one is stored there', async () => {
    const run = await open();
    run.start(RATE);
    await run.resolvesMore(50);
    await admin.delete(topic);
    const afterwards = run.next;
    await run.sendsMore(50);
    await run.settle();
    const ledgers = new Set(await admin.ledgers(topic));
    // What was stored in the deleted topic went with it: that is what the operator asked for.
    expect(await violations(run, ({ messageId }) => !ledgers.has(messageId.ledgerId))).toEqual([]);
    expect(run.errors.size).toBe(0);
    for (const [number, { messageId }] of run.results) {
      if (number >= afterwards) expect(ledgers).toContain(messageId.ledgerId);
    }
  });

  it('delete where topics are not created by producers: the end, with a clear error', async () => {
    await admin.setAutoTopicCreation(namespace, false);
    await expect(connect().createProducer({ topic })).rejects.toMatchObject({ code: 'ERR_TOPIC', retriable: false });
    await admin.createTopic(topic);
    const run = await open();
    run.start(RATE);
    await run.resolvesMore(20);
    await admin.delete(topic);
    await until('the end', () => run.producer.state === 'terminated');
    await run.settle();
    expect(run.violations([], () => true)).toEqual([]);
    expect(run.errors.size).toBeGreaterThan(0);
    for (const error of run.errors.values()) expect(error).toMatchObject({ code: 'ERR_TOPIC', retriable: false });
    expect(await admin.topics(namespace)).toEqual([]);
  });

  it('backlog quota, producer_request_hold: held, not failed, and sent once there is room', async () => {
    await admin.createTopic(topic);
    await admin.createSubscription(topic, SUBSCRIPTION);
    const run = await open({ batching: false });
    run.sendMany(100);
    await run.settle();
    await admin.setBacklogQuota(namespace, 2_000, 'producer_request_hold');
    const held = new Promise<string>((resolve) =>
      run.producer.on('reconnecting', ({ cause }) => /QuotaExceeded/.test(cause.message) && resolve(cause.message)),
    );
    run.start(50);
    expect(await held).toContain('ProducerBlockedQuotaExceededError');
    run.stop();
    run.sendMany(20);
    expect(run.unsettled).toBeGreaterThanOrEqual(20);
    expect(run.errors.size).toBe(0);
    await admin.removeBacklogQuota(namespace);
    await admin.skipBacklog(topic, SUBSCRIPTION);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(0);
  });

  it('backlog quota, producer_exception: pending fails with a retriable error, and later sends work', async () => {
    await admin.createTopic(topic);
    await admin.createSubscription(topic, SUBSCRIPTION);
    const run = await open({ batching: false });
    run.sendMany(100);
    await run.settle();
    await admin.setBacklogQuota(namespace, 2_000, 'producer_exception');
    run.start(100);
    await until('a refusal', () => run.errors.size > 0, 60_000);
    for (const error of run.errors.values()) expect(error).toMatchObject({ code: 'ERR_BROKER', retriable: true });
    await admin.removeBacklogQuota(namespace);
    await admin.skipBacklog(topic, SUBSCRIPTION);
    await until('sends that work', () => run.results.has(run.next - 1), 60_000);
    await run.resolvesMore(20);
    await run.settle();
    expect(await violations(run)).toEqual([]);
    expect(run.producer.state).toBe('ready');
  });

  it('publish rate: receipts come slowly, the queue is bounded, nothing fails', async () => {
    await admin.createTopic(topic);
    await admin.setPublishRate(namespace, 20);
    const run = await open({ batching: false, maxPendingMessages: 10 });
    const began = performance.now();
    let most = 0;
    run.sendMany(100);
    while (run.unsettled > 0) {
      most = Math.max(most, run.producer.stats.pendingMessages);
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (performance.now() - began > 60_000) break;
    }
    // A lower bound: without the limit the 100 take a fraction of a second.
    expect(performance.now() - began).toBeGreaterThan(1_500);
    expect(most).toBe(10);
    expect(await violations(run)).toEqual([]);
    expect(run.errors.size).toBe(0);
    expect(run.producer.stats.connects).toBe(1);
  });

  it('max producers: one too many is refused until its time is up, and gets in when there is room', async () => {
    await admin.createTopic(topic);
    await admin.setMaxProducers(namespace, 1);
    const run = await open();
    const refused = connect({ createTimeout: 1_000 }).createProducer({ topic });
    await expect(refused).rejects.toMatchObject({ code: 'ERR_BROKER', retriable: true });
    await expect(refused).rejects.toThrow(/ProducerBusy.*max producers/);

    const waiting = connect({ createTimeout: 60_000 }).createProducer({ topic });
    run.sendMany(50);
    await run.settle();
    await run.producer.close();
    const second = new NumberedRun(await waiting, run.next);
    second.sendMany(50);
    await second.settle();
    expect(await violations(run)).toEqual([]);
    expect(await violations(second)).toEqual([]);
    expect(run.errors.size + second.errors.size).toBe(0);
  });

  it('max producers lowered under two that send: after an unload one waits, holding its messages, for the other', async () => {
    const one = await open();
    const two = new NumberedRun(await connect().createProducer({ topic }), 1_000_000);
    await admin.setMaxProducers(namespace, 1);
    one.start(RATE / 4);
    two.start(RATE / 4);
    const busy = new Promise<NumberedRun>((resolve) => {
      for (const run of [one, two]) {
        run.producer.on('reconnecting', ({ cause }) => /max producers/.test(cause.message) && resolve(run));
      }
    });
    await admin.unload(topic);
    const waiting = await busy;
    const inside = waiting === one ? two : one;
    await inside.resolvesMore(20);
    expect(waiting.unsettled).toBeGreaterThan(0);
    await inside.settle();
    await inside.producer.close();
    await waiting.resolvesMore(20);
    await waiting.settle();
    expect(await violations(one)).toEqual([]);
    expect(await violations(two)).toEqual([]);
    expect(one.errors.size + two.errors.size).toBe(0);
  });
});

async function readable(url: string, topic: string): Promise<boolean> {
  return readTopic(url, topic).then(
    () => true,
    () => false,
  );
}
