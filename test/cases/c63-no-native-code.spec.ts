import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { repositoryRoot } from '../brokers/paths.js';

interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;

/** Node's own lookup. */
function installed(from: string, name: string): string | undefined {
  for (let at = from; at !== dirname(at); at = dirname(at)) {
    const folder = join(at, 'node_modules', name);
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
  return undefined;
}

function productionTree(): string[] {
  const pending = Object.keys(manifestOf(repositoryRoot).dependencies ?? {}).map(
    (name) => [name, repositoryRoot] as const,
  );
  const seen = new Set<string>();
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const folder = installed(next[1], next[0]);
    if (folder === undefined) throw new Error(`${next[0]} is not installed beside ${next[1]}`);
    if (seen.has(folder)) continue;
    seen.add(folder);
    const { dependencies = {}, optionalDependencies = {} } = manifestOf(folder);
    for (const name of Object.keys(dependencies)) pending.push([name, folder]);
    // Native code hides here: one package a platform, of which only ours is installed.
    for (const name of Object.keys(optionalDependencies)) {
      if (installed(folder, name) !== undefined) pending.push([name, folder]);
    }
  }
  return [...seen];
}

// Case C63: `npm ci --ignore-scripts` on any platform gives a working product.
describe('C63 nothing to compile, nothing to run at install', () => {
  const folders = productionTree();

  it('sees the production tree', () => {
    expect(folders.map((folder) => manifestOf(folder).name)).toEqual(
      expect.arrayContaining(['mqtt-packet', 'protobufjs', 'ws', 'long']),
    );
  });

  it.each(folders.map((folder) => [manifestOf(folder).name, folder]))('%s brings no native code', (_name, folder) => {
    expect(Object.keys(manifestOf(folder).scripts ?? {})).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(pre|post)?install$/)]),
    );
    const native = readdirSync(folder, { recursive: true }).filter((file) =>
      /\.node$|binding\.gyp$/.test(String(file)),
    );
    expect(native).toEqual([]);
  });

  it('asks for native packages only as optional peers', () => {
    const { optionalDependencies, peerDependencies, peerDependenciesMeta } = manifestOf(repositoryRoot);
    expect(optionalDependencies ?? {}).toEqual({});
    const needed = Object.keys(peerDependencies ?? {}).filter(
      (name) => peerDependenciesMeta?.[name]?.optional !== true,
    );
    expect(needed.sort()).toEqual([
      '@nestjs/common',
      '@nestjs/core',
      '@nestjs/microservices',
      'reflect-metadata',
      'rxjs',
    ]);
  });
});
