import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Packet } from 'mqtt-packet';
import { Mosquitto, repositoryRoot, scratchFolder } from '../brokers/index.js';
import type { DurableAppConfig, DurableAppReport, DurableAppRequest } from './durable-app.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { LiveBroker, type Peer } from './mqtt-live.js';
import { type SeenPacket, type WireLog } from './mqtt-wire-log.js';

/** One process of the app, on its two stores. */
class DurableApp {
  readonly reports: DurableAppReport[] = [];
  private gone = false;

  private constructor(
    private readonly child: ChildProcess,
    private readonly config: DurableAppConfig,
  ) {
    child.on('message', (report: DurableAppReport) => this.reports.push(report));
    child.once('exit', () => (this.gone = true));
  }

  static start(config: DurableAppConfig): DurableApp {
    const program = join(repositoryRoot, 'out', 'test', 'integration', 'durable-app.js');
    const env = { ...process.env, NODE_OPTIONS: '', DURABLE_APP: JSON.stringify(config) };
    const child = fork(program, [], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const app = new DurableApp(child, config);
    apps.add(app);
    return app;
  }

  async ready(): Promise<void> {
    await until('the app', () => this.gone || this.reports.some(({ kind }) => kind === 'ready'));
    if (this.gone) throw new Error('the app ended before it was ready');
  }

  request(request: DurableAppRequest): void {
    this.child.send(request);
  }

  /** Publishes in the store on disk. */
  async stored(): Promise<number> {
    const before = this.reports.length;
    this.request({ kind: 'stored' });
    const answer = (): DurableAppReport | undefined => this.reports.slice(before).find(({ kind }) => kind === 'stored');
    await until('the figure', () => answer() !== undefined);
    const report = answer();
    return report?.kind === 'stored' ? report.publishes : NaN;
  }

  /** Successful runs of the handler, of this process and the earlier ones. */
  get runs(): string[] {
    const file = join(this.config.folder, 'runs');
    return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  }

  /** From one instruction to the next. */
  kill(): void {
    this.child.kill('SIGKILL');
  }

  async ended(): Promise<void> {
    apps.delete(this);
    await until('its end', () => this.gone);
  }
}

const apps = new Set<DurableApp>();

type Broken = 'cut' | 'stall';

interface Scenario {
  /** `cut`: the broker never gets the packet at which we are killed. `stall`: it does, and its answer never arrives. */
  readonly received: Broken;
  readonly published: { readonly at: 'publish' | 'pubrel'; readonly link: Broken };
}

const scenarios: Record<4 | 5, readonly Scenario[]> = {
  5: [
    { received: 'stall', published: { at: 'publish', link: 'cut' } },
    { received: 'cut', published: { at: 'publish', link: 'stall' } },
    { received: 'stall', published: { at: 'pubrel', link: 'cut' } },
    { received: 'cut', published: { at: 'pubrel', link: 'stall' } },
  ],
  4: [{ received: 'cut', published: { at: 'pubrel', link: 'cut' } }],
};

describeWithMqttBrokers.each([5, 4] as const)('a session store over SIGKILL, mosquitto with version %d', (version) => {
  let live: LiveBroker;
  let handlerWire: WireLog;
  let publisherWire: WireLog;
  let config: DurableAppConfig;
  let peer: Peer;
  let topic: string;
  beforeAll(async () => {
    live = await LiveBroker.start({ name: 'mosquitto', version, differences: [], start: () => Mosquitto.start() });
  });
  afterAll(() => live.stop());
  beforeEach(async () => {
    [handlerWire, publisherWire] = [await live.wire(), await live.wire()];
    topic = unique('durable');
    config = {
      handlerUrl: handlerWire.url,
      publisherUrl: publisherWire.url,
      protocolVersion: version,
      clientId: unique('app'),
      topic,
      folder: scratchFolder('durable'),
    };
    peer = await live.peer(`${topic}/out`);
  });
  afterEach(async () => {
    for (const app of [...apps]) {
      app.kill();
      await app.ended();
    }
    await live.clear();
  });

  /** Breaks the link at the first packet of this kind that the app sends, before the broker has it; resolves then. */
  function breakAt(wire: WireLog, cmd: Packet['cmd'], how: Broken): Promise<void> {
    return new Promise((resolve) => {
      wire.onPacket = ({ from, packet }: SeenPacket) => {
        if (from !== 'client' || packet.cmd !== cmd) return;
        wire.onPacket = undefined;
        wire.proxy[how]();
        wire.proxy.refuse(true);
        resolve();
      };
    });
  }

  async function nextProcess(first: DurableApp): Promise<DurableApp> {
    first.kill();
    await first.ended();
    for (const { proxy } of [handlerWire, publisherWire]) {
      proxy.cut();
      proxy.resume();
      proxy.refuse(false);
    }
    const second = DurableApp.start(config);
    await second.ready();
    return second;
  }

  it.each(scenarios[version])(
    'a handler succeeds once and a publish arrives once, killed after PUBREC (link $received) and at $published.at (link $published.link)',
    async ({ received, published }) => {
      const first = DurableApp.start(config);
      await first.ready();
      const broken = [breakAt(handlerWire, 'pubrec', received), breakAt(publisherWire, published.at, published.link)];
      await peer.client.publishAsync(topic, 'one', { qos: 2 });
      first.request({ kind: 'publish', topic: `${topic}/out`, payloads: ['one'] });
      await Promise.all(broken);
      expect(handlerWire.of('client', 'pubcomp')).toHaveLength(0);

      const second = await nextProcess(first);
      // Both exchanges are completed by this process, and the next ones follow.
      await until('the PUBCOMP of the delivery', () => handlerWire.of('client', 'pubcomp').length === 1);
      await until('the publish is done with', async () => (await second.stored()) === 0);
      expect(second.runs).toEqual(['one']);
      await peer.client.publishAsync(topic, 'two', { qos: 2 });
      second.request({ kind: 'publish', topic: `${topic}/out`, payloads: ['two'] });
      await until('the next run', () => second.runs.length > 1);
      await peer.received(2);
      expect(second.runs).toEqual(['one', 'two']);
      expect(peer.payloads).toEqual(['one', 'two']);
      // The broker sent the message again where it had no PUBREC: that copy is what must not run.
      const again = handlerWire.of('server', 'publish').filter(({ dup }) => dup);
      expect(again).toHaveLength(received === 'cut' ? 1 : 0);
    },
  );

  // The queue knows no versions.
  const itOnce = version === 5 ? it : undefined;
  itOnce?.(
    'publishes that waited in the queue survive, in order: behind the Receive Maximum and without a connection',
    async () => {
      const payloads = Array.from({ length: 30 }, (_, id) => `${id}`);
      const first = DurableApp.start(config);
      await first.ready();
      publisherWire.proxy.stall();
      first.request({ kind: 'publish', topic: `${topic}/out`, payloads: payloads.slice(0, 25) });
      await until('25 in the store', async () => (await first.stored()) === 25);
      publisherWire.proxy.refuse(true);
      publisherWire.proxy.cut();
      first.request({ kind: 'publish', topic: `${topic}/out`, payloads: payloads.slice(25) });
      await until('30 in the store', async () => (await first.stored()) === 30);
      const second = await nextProcess(first);
      await peer.received(30);
      expect(peer.payloads).toEqual(payloads);
      await until('nothing is stored', async () => (await second.stored()) === 0);
      expect(second.reports.some(({ kind }) => kind === 'published')).toBe(false);
    },
  );
});
