import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../brokers/paths.js';
import { compileSample } from '../memory/compile.js';

// Case C62: an ESM package that CommonJS applications and Jest can load, for Nest 11 and 12, with one copy of Nest.
// What needs a registry (installed beside Nest 11 and 12, under Jest, type-checked) is `npm run check:package`.
describe('C62 the package loads', () => {
  const manifest = JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')) as {
    type: string;
    engines: { node: string };
    exports: Record<string, { types: string; default: string } | string>;
    dependencies: Record<string, string>;
    peerDependencies: Record<string, string>;
  };

  it('has one ESM build, with types first, and asks for Nest as a peer', () => {
    expect(manifest.type).toBe('module');
    for (const entry of ['.', './testing']) {
      expect(Object.keys(manifest.exports[entry] as object)).toEqual(['types', 'default']);
    }
    for (const name of ['@nestjs/common', '@nestjs/core', '@nestjs/microservices']) {
      expect(manifest.peerDependencies[name]).toBe('^11.0.0 || ^12.0.0');
      expect(manifest.dependencies).not.toHaveProperty([name]);
    }
    expect(manifest.engines.node).toBe('^20.19.0 || >=22.12.0');
  });

  it('gives import and require the same classes, derived from the installed Nest', () => {
    const lib = join(compileSample('c62-spec'), 'lib');
    const program = `
      import { createRequire } from 'node:module';
      import { ClientProxy, Server } from '@nestjs/microservices';
      import * as imported from ${JSON.stringify(join(lib, 'index.js'))};
      import * as testing from ${JSON.stringify(join(lib, 'testing', 'index.js'))};
      const required = createRequire(import.meta.url)(${JSON.stringify(join(lib, 'index.js'))});
      const { MqttServerStrategy, PulsarClientProxy, MqttClientProxy } = imported;
      console.log(JSON.stringify([
        new MqttServerStrategy({ url: 'mqtt://127.0.0.1:1', clientId: 'c62' }) instanceof Server,
        PulsarClientProxy.prototype instanceof ClientProxy,
        MqttClientProxy.prototype instanceof ClientProxy,
        required.MqttServerStrategy === MqttServerStrategy,
        typeof testing.InMemoryMqttBroker.start,
      ]));`;
    const env = { ...process.env, NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' };
    const args = ['--input-type=module', '--eval', program];
    const printed = execFileSync(process.execPath, args, { cwd: repositoryRoot, encoding: 'utf8', env });
    expect(JSON.parse(printed)).toEqual([true, true, true, true, 'function']);
  }, 120_000);
});
