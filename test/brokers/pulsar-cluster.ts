import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { classDataArguments, writeClassData } from './class-data.js';
import { ManagedProcess } from './managed-process.js';
import { brokerFile, scratchFolder } from './paths.js';
import { freePort, isListening } from './ports.js';
import { type PulsarArtifacts, pulsarArtifacts } from './pulsar-artifacts.js';
import { brokerSettings, javaArguments } from './pulsar-settings.js';

export interface PulsarClusterOptions {
  /** Default 2. */
  readonly brokers?: number;
  /** Configuration, data and logs; a new temporary folder by default. */
  readonly folder?: string;
  /** Further settings of every broker.conf. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
}

const CLUSTER = 'cluster';
const READY_MS = 150_000;

/**
 * Several real Pulsar brokers on one ZooKeeper and one bookie, all on 127.0.0.1: what one standalone broker cannot show,
 * lookups answered by a redirect and topics that move from broker to broker.
 */
export class PulsarCluster {
  readonly brokers: ClusterBroker[] = [];
  private store!: ManagedProcess;

  private constructor(private readonly folder: string) {}

  static async start(options: PulsarClusterOptions = {}): Promise<PulsarCluster> {
    const artifacts = await pulsarArtifacts();
    const cluster = new PulsarCluster(options.folder ?? scratchFolder('cluster'));
    try {
      await cluster.launch(artifacts, options);
    } catch (error) {
      await cluster.kill();
      throw error;
    }
    return cluster;
  }

  /** All service addresses in one URL. */
  get url(): string {
    return `pulsar://${this.brokers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  }

  /** The broker that serves the topic; one that nobody serves gets an owner by this question. */
  async owner(topic: string): Promise<ClusterBroker> {
    const { brokerUrl } = JSON.parse(await this.call('GET', `/lookup/v2/topic/${topic.replace('://', '/')}`)) as {
      readonly brokerUrl: string;
    };
    const owner = this.brokers.find(({ url }) => url === brokerUrl);
    if (owner === undefined) throw new Error(`${topic}: owned by ${brokerUrl}, which is no broker of this cluster`);
    return owner;
  }

  /** Moves the bundle of the topic (it and its neighbours) to another broker, or lets the load manager choose one. */
  async move(topic: string, to?: ClusterBroker): Promise<void> {
    const bundle = await this.call('GET', `/lookup/v2/topic/${topic.replace('://', '/')}/bundle`);
    const destination = to === undefined ? '' : `?destinationBroker=${to.id}`;
    await this.call('PUT', `/admin/v2/namespaces/public/default/${bundle}/unload${destination}`);
  }

  async stop(): Promise<void> {
    await Promise.all(this.brokers.map((broker) => broker.kill()));
    await this.store?.stop();
  }

  async kill(): Promise<void> {
    await Promise.all(this.brokers.map((broker) => broker.kill()));
    await this.store?.kill();
  }

  /** A request to the admin port of a broker that lives; redirects are followed. */
  private call(method: string, path: string, body?: unknown): Promise<string> {
    const broker = this.brokers.find(({ alive }) => alive);
    if (broker === undefined) throw new Error('no broker lives');
    return broker.call(method, path, body);
  }

  private async launch(artifacts: PulsarArtifacts, options: PulsarClusterOptions): Promise<void> {
    const [zooKeeper, bookie] = [await freePort(), await freePort()];
    await this.launchStore(artifacts, zooKeeper, bookie);
    for (let index = 0; index < (options.brokers ?? 2); index++) {
      const broker = new ClusterBroker(
        await freePort(),
        await freePort(),
        join(this.folder, `broker-${index}`),
        artifacts,
        {
          metadataStoreUrl: `zk:127.0.0.1:${zooKeeper}`,
          configurationMetadataStoreUrl: `zk:127.0.0.1:${zooKeeper}`,
          // How long the topics of a killed broker stay without an owner.
          metadataStoreSessionTimeoutMillis: 5000,
          ...options.settings,
        },
      );
      this.brokers.push(broker);
      await broker.launch(async () => {
        if (index > 0) return;
        await broker.call('PUT', `/admin/v2/clusters/${CLUSTER}`, {
          serviceUrl: broker.adminUrl,
          brokerServiceUrl: broker.url,
        });
        await broker.call('PUT', '/admin/v2/tenants/public', { allowedClusters: [CLUSTER] });
        await broker.call('PUT', '/admin/v2/namespaces/public/default', { bundles: { numBundles: 8 } });
      });
    }
    await this.settled();
  }

  /** Resolves when every broker that lives knows of every other. */
  async settled(): Promise<void> {
    const living = this.brokers.filter(({ alive }) => alive);
    for (const deadline = Date.now() + READY_MS; ; await sleep(200)) {
      const known = await Promise.all(
        living.map((broker) => broker.call('GET', `/admin/v2/brokers/${CLUSTER}`).catch(() => '[]')),
      );
      if (known.every((text) => (JSON.parse(text) as string[]).length === living.length)) return;
      if (Date.now() > deadline) throw new Error(`the brokers do not see each other: ${known.join(' ')}`);
    }
  }

  private async launchStore(artifacts: PulsarArtifacts, zooKeeper: number, bookie: number): Promise<void> {
    const folder = join(this.folder, 'store');
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'store.conf');
    writeSettings(file, { ...brokerSettings({ port: await freePort(), httpPort: await freePort() }) });
    this.store = await ManagedProcess.start({
      command: 'java',
      args: [
        ...classDataArguments(artifacts.archive),
        ...javaArguments(artifacts.classPath, brokerFile('log4j2.xml'), 160),
        ...['org.apache.pulsar.PulsarStandaloneStarter', '--config', file, '-nfw', '-nss', '--no-broker'],
        ...['--zookeeper-port', String(zooKeeper), '--zookeeper-dir', join(folder, 'zookeeper')],
        ...['--bookkeeper-port', String(bookie), '--bookkeeper-dir', join(folder, 'bookie')],
      ],
      cwd: folder,
      log: join(folder, 'store.log'),
      env: { PULSAR_STANDALONE_USE_ZOOKEEPER: '1' },
    });
    // The bookie registers itself last.
    const listening = async (): Promise<boolean> => (await isListening(zooKeeper)) && isListening(bookie);
    await this.store.waitUntil('ZooKeeper and bookie', listening, READY_MS);
  }
}

/** One broker of a cluster; after `kill()` it can be launched again, on its ports. */
export class ClusterBroker {
  readonly url: string;
  readonly adminUrl: string;
  /** How the admin API calls it. */
  readonly id: string;
  private readonly arguments: readonly string[];
  private readonly archive: string;
  private process: ManagedProcess | undefined = undefined;

  constructor(
    readonly port: number,
    httpPort: number,
    private readonly folder: string,
    artifacts: PulsarArtifacts,
    settings: Readonly<Record<string, string | number | boolean>>,
  ) {
    this.url = `pulsar://127.0.0.1:${port}`;
    this.id = `127.0.0.1:${httpPort}`;
    this.adminUrl = `http://${this.id}`;
    this.archive = join(dirname(artifacts.archive), 'broker.jsa');
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'broker.conf');
    const { zookeeperServers: _, configurationStoreServers: __, ...base } = brokerSettings({ port, httpPort });
    writeSettings(file, {
      ...base,
      clusterName: CLUSTER,
      loadBalancerEnabled: true,
      loadBalancerSheddingEnabled: false,
      loadBalancerAutoBundleSplitEnabled: false,
      ...settings,
    });
    this.arguments = [
      ...javaArguments(artifacts.classPath, brokerFile('log4j2.xml'), 160),
      ...['org.apache.pulsar.PulsarBrokerStarter', '-c', file],
    ];
  }

  get alive(): boolean {
    return this.process?.alive ?? false;
  }

  /** Resolves when it serves. @param answering what to do once its admin port answers, before topics can be used */
  async launch(answering: () => Promise<void> = async () => undefined): Promise<void> {
    this.process = await ManagedProcess.start({
      command: 'java',
      args: [...classDataArguments(this.archive), ...this.arguments],
      cwd: this.folder,
      log: join(this.folder, 'broker.log'),
    });
    const answers = async (): Promise<boolean> => (await this.call('GET', '/admin/v2/clusters')) !== '';
    await this.process.waitUntil('broker', answers, READY_MS);
    await answering();
    const serves = async (): Promise<boolean> =>
      (await this.call('GET', '/lookup/v2/topic/persistent/public/default/readiness')).includes('brokerUrl');
    await this.process.waitUntil('broker', serves, READY_MS);
    writeClassData(this.process.pid, this.archive);
  }

  /** Gives its topics back before it ends. */
  async stop(): Promise<void> {
    await this.process?.stop();
  }

  async kill(): Promise<void> {
    await this.process?.kill();
  }

  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void {
    this.process?.pause();
  }

  resume(): void {
    this.process?.resume();
  }

  /** One admin request; a redirect to another broker is followed, a status of 400 and above rejects. */
  async call(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(this.adminUrl + path, {
      method,
      signal: AbortSignal.timeout(20_000),
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: HTTP ${response.status} ${text.slice(0, 300)}`);
    return text;
  }
}

function writeSettings(file: string, settings: Readonly<Record<string, string | number | boolean>>): void {
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value}\n`);
  writeFileSync(file, lines.join(''), { mode: 0o600 });
}
