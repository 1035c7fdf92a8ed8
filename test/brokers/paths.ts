import { existsSync, mkdtempSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's folder, whether this file runs from `test/` (jest) or compiled from `out/test/`. */
export const repositoryRoot = findRoot(dirname(fileURLToPath(import.meta.url)));

/** A file of `test/brokers` that is not TypeScript (pom.xml, settings.xml, log4j2.xml). */
export function brokerFile(name: string): string {
  return join(repositoryRoot, 'test', 'brokers', name);
}

/** Where downloaded broker artifacts are kept between runs: `$BROKERS_CACHE`, else `~/.cache/nestjs-mqtt-pulsar`. */
export function brokersCache(): string {
  return process.env['BROKERS_CACHE'] ?? join(homedir(), '.cache', 'nestjs-mqtt-pulsar');
}

/** A new empty folder for one broker's configuration, data and log. */
export function scratchFolder(name: string): string {
  return mkdtempSync(join(tmpdir(), `nmp-${name}-`));
}

function findRoot(from: string): string {
  for (let dir = from; ; dir = dirname(dir)) {
    if (existsSync(join(dir, 'package.json')) && existsSync(join(dir, 'jest.shared.mjs'))) return dir;
    if (dir === dirname(dir)) throw new Error(`no repository above ${from}`);
  }
}
