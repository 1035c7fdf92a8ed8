import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { brokerFile } from './paths.js';

/**
 * What a pom depends on at run time, in `folder/lib`: as it is there, or downloaded from Maven Central once. Two processes
 * that ask at the same time wait for one download; an interrupted one is done again.
 *
 * @returns the jars, sorted: a class-data archive is valid for one class path only
 * @throws Error that says what is missing
 */
export async function mavenJars(folder: string, pom: string): Promise<readonly string[]> {
  const lib = join(folder, 'lib');
  if (!existsSync(lib)) await download(folder, lib, pom);
  const jars = readdirSync(lib).filter((file) => file.endsWith('.jar'));
  if (jars.length === 0) throw new Error(`no jars in ${lib}: remove the folder and try again`);
  return jars.sort().map((jar) => join(lib, jar));
}

async function download(folder: string, lib: string, pom: string): Promise<void> {
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
    for (let attempt = 1; !copyDependencies(pom, partial); attempt++) {
      if (attempt === 3) throw new Error(`Maven could not resolve what ${pom} needs, see its output above`);
    }
    writeFileSync(join(folder, 'resolved.txt'), `${new Date().toISOString()}\n`);
    renameSync(partial, lib);
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

function copyDependencies(pom: string, into: string): boolean {
  const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${into}`];
  const files = ['-s', brokerFile('settings.xml'), '-f', pom];
  const made = spawnSync('mvn', ['--batch-mode', '--no-transfer-progress', '--quiet', ...files, ...goal], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (made.error !== undefined) throw new Error(`Maven is not installed: ${made.error.message}`);
  return made.status === 0;
}
