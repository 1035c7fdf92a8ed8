import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { repositoryRoot } from '../brokers/paths.js';

/** Compiles lib and sample as users run them, into a folder of that name; gives the folder. */
export function compileSample(name: string): string {
  const out = join(repositoryRoot, '.cache', name);
  const tsc = join(repositoryRoot, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = ['-p', 'tsconfig.out.json', '--outDir', out, '--tsBuildInfoFile', join(out, '.tsbuildinfo')];
  const done = spawnSync(process.execPath, [tsc, ...args], { cwd: repositoryRoot, encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`tsc: ${done.stdout}${done.stderr}`);
  return out;
}
