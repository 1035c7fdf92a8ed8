import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ManagedProcess } from './managed-process.js';
import { mavenJars } from './maven-jars.js';
import { answersConnect } from './mqtt-ready.js';
import { brokerFile, brokersCache, scratchFolder } from './paths.js';
import { freePort } from './ports.js';

const READY_MS = 60_000;

/**
 * HiveMQ Community Edition on 127.0.0.1, in memory, with queues that hold what a test may leave there. Of the brokers here
 * it is the one with MQTT 5 that keeps to the client's Receive Maximum: it sends no more than the smaller of that and 50.
 */
export class HiveMq {
  readonly url: string;

  private constructor(
    readonly port: number,
    private readonly process: ManagedProcess,
  ) {
    this.url = `mqtt://127.0.0.1:${port}`;
  }

  static async start(): Promise<HiveMq> {
    const jars = await hiveMqJars();
    const folder = scratchFolder('hivemq');
    const port = await freePort();
    for (const name of ['conf', 'data', 'extensions']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'conf', 'config.xml'), configuration(port));
    const process = await ManagedProcess.start({
      command: 'java',
      args: [
        ...['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', jars.join(':')],
        ...[join(brokerFile('hivemq'), 'HiveMqBroker.java'), folder],
      ],
      cwd: folder,
      log: join(folder, 'hivemq.log'),
    });
    await process.waitUntil('HiveMQ', () => answersConnect(port, false), READY_MS);
    return new HiveMq(port, process);
  }

  get pid(): number {
    return this.process.pid;
  }

  async stop(): Promise<void> {
    await this.process.stop();
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }
}

/** The broker's jars: from the cache, or downloaded into it (about 100 MB, once). */
export function hiveMqJars(): Promise<readonly string[]> {
  const pom = join(brokerFile('hivemq'), 'pom.xml');
  const version = /<hivemq\.version>([^<]+)</.exec(readFileSync(pom, 'utf8'))?.[1];
  if (version === undefined) throw new Error(`${pom} names no hivemq.version`);
  return mavenJars(join(brokersCache(), `hivemq-${version}`), pom);
}

function configuration(port: number): string {
  return `<?xml version="1.0"?>
<hivemq>
  <listeners><tcp-listener><port>${port}</port><bind-address>127.0.0.1</bind-address></tcp-listener></listeners>
  <mqtt>
    <queued-messages><max-queue-size>1000000</max-queue-size><strategy>discard</strategy></queued-messages>
    <receive-maximum><server-receive-maximum>65535</server-receive-maximum></receive-maximum>
  </mqtt>
  <persistence><mode>in-memory</mode></persistence>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
</hivemq>
`;
}
