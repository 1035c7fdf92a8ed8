import { type AccessMode, PulsarClient, type PulsarProducer } from '../../lib/pulsar/index.js';
import { idOf, readTopic } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';
import { NumberedRun, payloadOf } from './pulsar-run.js';

// Who may send to a topic, as Pulsar 4.0.7 decides it.
describeWithBrokers('Pulsar producer access modes', () => {
  const { admin, pulsarUrl } = integrationBrokers();
  let topic: string;
  let clients: PulsarClient[];

  beforeEach(async () => {
    clients = [];
    topic = `persistent://public/default/${unique('access')}`;
    await admin.createTopic(topic);
  });
  afterEach(() => {
    for (const client of clients) client.destroy();
  });

  const create = (accessMode: AccessMode, createTimeout = 30_000): Promise<PulsarProducer> => {
    const client = new PulsarClient({ url: pulsarUrl, createTimeout, backoff: { initial: 50, max: 500 } });
    clients.push(client);
    return client.createProducer({ topic, accessMode });
  };
  const open = async (mode: AccessMode, first = 0): Promise<NumberedRun> => new NumberedRun(await create(mode), first);
  const storedNumbers = async (): Promise<number[]> =>
    (await readTopic(pulsarUrl, topic)).map(({ payload }) => idOf(payload));

  /** The heir has all it was promised; whatever of the old one failed says why and will not be tried again. */
  const expectFenced = async (old: NumberedRun, heir: NumberedRun): Promise<void> => {
    const stored = await readTopic(pulsarUrl, topic);
    expect(old.violations(stored)).toEqual([]);
    expect(heir.violations(stored)).toEqual([]);
    expect(heir.errors.size).toBe(0);
    for (const error of old.errors.values()) expect(error).toMatchObject({ code: 'ERR_FENCED', retriable: false });
  };
  /** The heir's numbers start at 1,000,000. */
  const expectNothingAfterTakeover = async (): Promise<void> => {
    const numbers = await storedNumbers();
    const takenOver = numbers.findIndex((number) => number >= 1_000_000);
    expect(numbers.slice(takenOver).filter((number) => number < 1_000_000)).toEqual([]);
  };

  it('exclusive: nobody else gets in, also not around an unload, and the topic is free after close()', async () => {
    const run = await open('exclusive');
    await expect(create('exclusive')).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    await expect(create('shared', 500)).rejects.toMatchObject({ code: 'ERR_BROKER', retriable: true });
    run.start(300);
    for (let round = 0; round < 3; round++) {
      await run.resolvesMore(30);
      await admin.unload(topic);
    }
    await run.resolvesMore(30);
    await run.settle();
    expect(run.violations(await readTopic(pulsarUrl, topic))).toEqual([]);
    expect(run.errors.size).toBe(0);
    await expect(create('exclusive')).rejects.toMatchObject({ code: 'ERR_FENCED' });
    await run.producer.close();
    const next = await create('exclusive');
    await next.send({ payload: payloadOf(1_000_000) });
    expect((await storedNumbers()).at(-1)).toBe(1_000_000);
  });

  it('exclusive on a topic with a shared producer is refused', async () => {
    const shared = await create('shared');
    await expect(create('exclusive')).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    await shared.send({ payload: payloadOf(0) });
  });

  it('waitForExclusive: opens when its turn comes, in the order of asking, without any timeout', async () => {
    const first = await open('waitForExclusive');
    first.sendMany(20);
    // The broker's list of those who wait is what gives the order: the second asks when the first is on it.
    const second = create('waitForExclusive', 1_000);
    await until('the first in line', async () => (await admin.stats(topic)).waitingPublishers === 1);
    const third = create('waitForExclusive', 1_000);
    await until('the second in line', async () => (await admin.stats(topic)).waitingPublishers === 2);
    const opened: string[] = [];
    void second.then(() => opened.push('second'));
    void third.then(() => opened.push('third'));
    await first.settle();
    first.start(200);
    // Longer than createTimeout: who is in line is not refused.
    await first.sendsMore(300);
    await first.settle();
    expect(opened).toEqual([]);

    await first.producer.close();
    const two = new NumberedRun(await second, 10_000);
    expect(opened).toEqual(['second']);
    two.sendMany(20);
    await two.settle();
    await two.producer.close();
    const three = new NumberedRun(await third, 20_000);
    three.sendMany(20);
    await three.settle();
    const stored = await readTopic(pulsarUrl, topic);
    for (const run of [first, two, three]) {
      expect(run.violations(stored)).toEqual([]);
      expect(run.errors.size).toBe(0);
    }
    const numbers = await storedNumbers();
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
  });

  it('waitForExclusive: one in line can be given up, and does not keep out the next', async () => {
    const holder = await open('exclusive');
    const client = new PulsarClient({ url: pulsarUrl });
    clients.push(client);
    const waiting = client.createProducer({ topic, accessMode: 'waitForExclusive' });
    const refused = expect(waiting).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await until('it is in line', async () => (await admin.stats(topic)).waitingPublishers === 1);
    await client.close();
    await refused;
    holder.sendMany(5);
    await holder.settle();
    expect(holder.errors.size).toBe(0);
    // The broker may still count the one that has left.
    const counted = (await admin.stats(topic)).waitingPublishers;
    const next = open('waitForExclusive', 1_000);
    await until('the next in line', async () => (await admin.stats(topic)).waitingPublishers > counted);
    await holder.producer.close();
    const run = await next;
    run.sendMany(5);
    await run.settle();
    expect(run.violations(await readTopic(pulsarUrl, topic))).toEqual([]);
    expect(run.errors.size).toBe(0);
  });

  it('exclusiveWithFencing takes the topic from an exclusive producer: that one ends, and nothing of it comes later', async () => {
    const old = await open('exclusive');
    const terminated: unknown[] = [];
    let triesAfterwards = 0;
    old.producer.on('terminated', ({ cause }) => terminated.push(cause.code));
    old.producer.on('reconnecting', () => (triesAfterwards += terminated.length));
    old.start(400);
    await old.resolvesMore(50);
    const heir = await open('exclusiveWithFencing', 1_000_000);
    heir.start(200);
    await until('the end of the fenced one', () => old.producer.state === 'terminated', 60_000);
    await old.settle();
    await heir.resolvesMore(20);
    await heir.settle();

    await expectFenced(old, heir);
    expect(old.errors.size).toBeGreaterThan(0);
    expect(terminated).toEqual(['ERR_FENCED']);
    expect(triesAfterwards).toBe(0);
    await expectNothingAfterTakeover();
  });

  it('exclusiveWithFencing against its like: the fenced one ends and does not take the topic back', async () => {
    const old = await open('exclusiveWithFencing');
    old.start(200);
    await old.resolvesMore(30);
    const heir = await open('exclusiveWithFencing', 1_000_000);
    heir.start(200);
    await until('the end of the fenced one', () => old.producer.state === 'terminated', 60_000);
    await old.settle();
    await heir.resolvesMore(30);
    await heir.settle();
    await expectFenced(old, heir);
    await expectNothingAfterTakeover();
  });

  // For its keep alive after CLOSE_PRODUCER the broker drops sends for that producer id without a word: whoever is fenced
  // then hears nothing, and only opening the producer once more tells.
  it('exclusiveWithFencing against its like just after an unload: the fenced one ends all the same', async () => {
    const old = await open('exclusiveWithFencing');
    old.start(200);
    await old.resolvesMore(30);
    await admin.unload(topic);
    await old.resolvesMore(30);
    const heir = await open('exclusiveWithFencing', 1_000_000);
    heir.start(20);
    await until('the end of the fenced one', () => old.producer.state === 'terminated', 120_000);
    await old.settle();
    await heir.settle();
    await expectFenced(old, heir);
    expect(old.errors.size).toBeGreaterThan(0);
  }, 240_000);

  // 4.0.7 lets the shared producer in again beside the exclusive one (it takes the end of any producer for the end of the
  // exclusive one), so only what the client can promise is asked for: nothing fails, nothing is lost, order is kept.
  it('exclusiveWithFencing on a topic with a shared producer: that one loses nothing', async () => {
    const old = await open('shared');
    const causes: string[] = [];
    old.producer.on('disconnected', ({ cause }) => causes.push(cause.message));
    old.start(400);
    await old.resolvesMore(50);
    const heir = await open('exclusiveWithFencing', 1_000_000);
    heir.start(200);
    await until('the other is put out', () => causes.length > 0, 60_000);
    await heir.resolvesMore(20);
    await heir.settle();
    await heir.producer.close();
    await old.resolvesMore(20);
    await old.settle();
    const stored = await readTopic(pulsarUrl, topic);
    expect(old.violations(stored)).toEqual([]);
    expect(heir.violations(stored)).toEqual([]);
    expect(old.errors.size + heir.errors.size).toBe(0);
  });
});
