import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { PulsarClient } from '../../lib/pulsar/index.js';
import { repositoryRoot } from '../brokers/index.js';
import { type NumberedConfig, type NumberedReport } from '../fault/numbered-config.js';
import { idOf, readTopic, seededRandom, TcpProxy } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';
import { NumberedRun } from './pulsar-run.js';

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** A sending process and what it told until it ended. */
class Sender {
  readonly resolved = new Map<number, { readonly deduplicated: boolean }>();
  readonly rejected = new Map<number, string>();
  done = false;
  private readonly gone: Promise<unknown>;

  constructor(private readonly child: ChildProcess) {
    this.gone = once(child, 'exit');
    child.on('message', (report: NumberedReport) => {
      if (report.kind === 'resolved') this.resolved.set(report.number, report);
      else if (report.kind === 'rejected') this.rejected.set(report.number, report.code);
      else this.done = true;
    });
  }

  static start(config: NumberedConfig): Sender {
    const program = join(repositoryRoot, 'out', 'test', 'fault', 'numbered-app.js');
    return new Sender(
      fork(program, [], {
        env: { ...process.env, NUMBERED_CONFIG: JSON.stringify(config) },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      }),
    );
  }

  /** SIGKILL, and what it had reported before has arrived. */
  async kill(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
    await this.gone;
  }

  async end(): Promise<void> {
    await until('the end of the sending process', () => this.done, 60_000);
    await this.gone;
  }
}

// Topics with deduplication on the real broker: everything stored exactly once.
describeWithBrokers('Pulsar producer and deduplication', () => {
  const { admin, pulsarUrl, pulsarPort } = integrationBrokers();
  let topic: string;
  const ends: (() => unknown)[] = [];

  beforeEach(async () => {
    const namespace = `public/${unique('dedup')}`;
    topic = `persistent://${namespace}/numbers`;
    await admin.createNamespace(namespace);
    await admin.setNamespaceDeduplication(namespace, true);
    await admin.createTopic(topic);
    await until('deduplication', async () => (await admin.stats(topic)).deduplicationStatus === 'Enabled', 60_000);
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  const stored = async (): Promise<number[]> => (await readTopic(pulsarUrl, topic)).map(({ payload }) => idOf(payload));
  const start = (config: Partial<NumberedConfig>): Sender => {
    const sender = Sender.start({
      url: pulsarUrl,
      topic,
      name: 'gateway-7',
      first: 0,
      count: 2000,
      rate: 500,
      numberIsId: true,
      ...config,
    });
    ends.push(() => sender.kill());
    return sender;
  };

  it.each([
    ['batches', true],
    ['single messages', false],
  ])('cut links and unloads: each message once, in order, and no send fails (%s)', async (_name, batching) => {
    const proxy = await TcpProxy.start({ targetPort: pulsarPort });
    ends.push(() => proxy.close());
    const url = `pulsar://127.0.0.1:${proxy.port}`;
    const client = new PulsarClient({ url, backoff: { initial: 50, max: 1_000 } });
    ends.unshift(() => client.destroy());
    const run = new NumberedRun(await client.createProducer({ topic, batching }));
    const random = seededRandom(7);
    run.start(1_000);
    for (let round = 0; round < 12; round++) {
      await run.resolvesMore(20 + Math.floor(random() * 100));
      if (round % 4 === 3) await admin.unload(topic);
      else proxy.cut();
    }
    await run.resolvesMore(20);
    await run.settle();
    expect([...run.errors].map(([number, error]) => `${number}: ${error.message}`)).toEqual([]);
    expect(run.violations(await readTopic(pulsarUrl, topic))).toEqual([]);
    expect(await stored()).toEqual(upTo(run.sent));
    expect(run.producer.stats.connects).toBeGreaterThanOrEqual(13);
  });

  it('a process that dies and starts again with the same name and numbers: what overlaps is stored once', async () => {
    const first = start({});
    await until('some receipts', () => first.resolved.size > 300);
    await first.kill();
    const known = Math.max(...first.resolved.keys());
    // What an application knows of its progress is older than the truth.
    const again = Math.max(0, known - 150);
    const second = start({ first: again, count: 900 });
    await second.end();
    expect([...second.rejected]).toEqual([]);
    expect(await stored()).toEqual(upTo(again + 900));
    for (let number = again; number <= known; number++) {
      expect([number, second.resolved.get(number)]).toMatchObject([number, { deduplicated: true }]);
    }
    const last = again + 899;
    expect(second.resolved.get(last)).toMatchObject({ deduplicated: false });
  });

  it('a process that dies and starts again with the same name and ids of its own: nothing new is taken for old', async () => {
    const first = start({ numberIsId: false });
    await until('some receipts', () => first.resolved.size > 300);
    await first.kill();
    const second = start({ numberIsId: false, first: 100_000, count: 500 });
    await second.end();
    expect([...second.rejected]).toEqual([]);
    expect([...second.resolved.values()].filter(({ deduplicated }) => deduplicated)).toEqual([]);
    const numbers = await stored();
    const old = numbers.filter((number) => number < 100_000);
    expect(old).toEqual(upTo(old.length));
    expect([...first.resolved.keys()].filter((number) => number >= old.length)).toEqual([]);
    expect(numbers.slice(old.length)).toEqual(upTo(500).map((index) => 100_000 + index));
  });
});
