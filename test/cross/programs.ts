import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { brokerFile, brokersCache, repositoryRoot } from '../brokers/paths.js';
import { pulsarArtifacts } from '../brokers/pulsar-artifacts.js';

/** How to start a reader; the URL of the broker is one argument more. */
export interface ReaderProgram {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * The reader around Pulsar's Go client: from the cache, or built from `test/cross/go`. Its modules come from the Go module
 * proxy, once.
 *
 * @throws Error that says what is missing
 */
export function goReader(): ReaderProgram {
  const folder = join(crossFolder, 'go');
  const command = built(
    'cross-go',
    GO_FILES.map((file) => join(folder, file)),
    (to) => run('go', ['build', '-mod=readonly', '-trimpath', '-o', to, '.'], folder, { CGO_ENABLED: '0' }),
  );
  return { command, args: [] };
}

/**
 * The reader around Pulsar's Java client, which is among the broker's jars: from the cache, or compiled from
 * `test/cross/java`.
 *
 * @throws Error that says what is missing
 */
export async function javaReader(): Promise<ReaderProgram> {
  const { classPath } = await pulsarArtifacts();
  const source = join(crossFolder, 'java', 'CrossReader.java');
  // The version of the client is in pom.xml.
  const classes = built('cross-java', [source, brokerFile('pom.xml')], (to) =>
    run('javac', ['-cp', classPath, '-d', to, source]),
  );
  const log = [`-Dlog4j.configurationFile=${brokerFile('log4j2.xml')}`, '-Dbroker.log.level=error'];
  const jvm = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
  return { command: 'java', args: [...jvm, ...log, '-cp', `${classes}:${classPath}`, 'CrossReader'] };
}

const crossFolder = join(repositoryRoot, 'test', 'cross');
const GO_FILES = ['go.mod', 'go.sum', 'main.go'];

/** What `make` makes of the sources, by their content. */
function built(name: string, sources: readonly string[], make: (to: string) => void): string {
  const hash = createHash('sha256');
  for (const file of sources) hash.update(readFileSync(file));
  const product = join(brokersCache(), `${name}-${hash.digest('hex').slice(0, 12)}`);
  if (existsSync(product)) return product;
  mkdirSync(brokersCache(), { recursive: true });
  const partial = `${product}.${process.pid}`;
  make(partial);
  renameSync(partial, product);
  return product;
}

function run(command: string, args: readonly string[], cwd = repositoryRoot, env: Record<string, string> = {}): void {
  const made = spawnSync(command, args, { cwd, encoding: 'utf8', env: { ...process.env, ...env } });
  if (made.error !== undefined) throw new Error(`'${command}' is not installed: ${made.error.message}`);
  if (made.status !== 0) throw new Error(`${command} ${args.join(' ')}\n${made.stdout}${made.stderr}`);
}
