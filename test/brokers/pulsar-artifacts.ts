import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { brokerFile, brokersCache } from './paths.js';

/** The version in `pom.xml`. */
export const pulsarVersion = ((): string => {
  const version = /<pulsar\.version>([^<]+)</.exec(readFileSync(brokerFile('pom.xml'), 'utf8'))?.[1];
  if (version === undefined) throw new Error('pom.xml names no pulsar.version');
  return version;
})();

export interface PulsarArtifacts {
  /** Sorted and explicit: a class-data archive is valid for one class path only. */
  readonly classPath: string;
  /** Where the class-data archive is, once the first start has written it. */
  readonly archive: string;
}

/**
 * The broker's jars: from the cache, or downloaded into it (about 235 MB, once). Two processes that ask at the same time
 * wait for one download; an interrupted one is done again.
 */
export async function pulsarArtifacts(): Promise<PulsarArtifacts> {
  const folder = join(brokersCache(), `pulsar-${pulsarVersion}`);
  const lib = join(folder, 'lib');
  if (!existsSync(lib)) await download(folder, lib);
  const jars = readdirSync(lib).filter((file) => file.endsWith('.jar'));
  if (jars.length === 0) throw new Error(`no jars in ${lib}: remove the folder and try again`);
  const javaVersion = spawnSync('java', ['-version'], { encoding: 'utf8' }).stderr ?? '';
  const major = /version "(\d+)/.exec(javaVersion)?.[1];
  if (major === undefined || Number(major) < 17) throw new Error('Java 17 or newer is not installed');
  return {
    classPath: jars
      .sort()
      .map((jar) => join(lib, jar))
      .join(':'),
    archive: join(folder, `standalone-java${major}.jsa`),
  };
}

async function download(folder: string, lib: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const lock = join(folder, 'download.lock');
  for (;;) {
    if (existsSync(lib)) return;
    try {
      mkdirSync(lock);
      break;
    } catch {
      // Another process downloads; one that died leaves an old lock behind.
      const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
      if (Date.now() - since > 15 * 60_000) rmSync(lock, { recursive: true, force: true });
      await sleep(500);
    }
  }
  try {
    const partial = join(folder, `lib.${process.pid}`);
    for (let attempt = 1; !copyDependencies(partial); attempt++) {
      if (attempt === 3) throw new Error(`Maven could not resolve Pulsar ${pulsarVersion}, see its output above`);
    }
    writeFileSync(join(folder, 'resolved.txt'), `${new Date().toISOString()}\n`);
    renameSync(partial, lib);
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

function copyDependencies(into: string): boolean {
  const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${into}`];
  const files = ['-s', brokerFile('settings.xml'), '-f', brokerFile('pom.xml')];
  const made = spawnSync('mvn', ['--batch-mode', '--no-transfer-progress', '--quiet', ...files, ...goal], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (made.error !== undefined) throw new Error(`Maven is not installed: ${made.error.message}`);
  return made.status === 0;
}
