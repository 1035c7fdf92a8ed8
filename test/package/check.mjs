// The package as a user gets it: packed, linted, installed without scripts into a Nest 11 and a Nest 12 application, loaded
// by import, by require and under Jest, type-checked without skipLibCheck, and run once on the testing brokers.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..');
const work = mkdtempSync(join(tmpdir(), 'nmp-package-'));
const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const NEST = {
  11: { '@nestjs/common': '^11.1.0', '@nestjs/core': '^11.1.0', '@nestjs/microservices': '^11.1.0' },
  12: { '@nestjs/common': '^12.0.0', '@nestjs/core': '^12.0.0', '@nestjs/microservices': '^12.0.0' },
};
const PACKED =
  /^(dist\/|(README|CHANGELOG|CONTRIBUTING|docs\/failures|lib\/DESIGN)\.md$|LICENSE$|NOTICE$|package\.json$)/;
/** Beside Nest 11, what its `nest new` writes into package.json. */
const NEST_NEW = {
  devDependencies: {
    '@types/jest': '^30.0.0',
    '@types/node': '^22.10.7',
    avsc: '^5.7.0',
    jest: '^30.0.0',
    'ts-jest': '^29.2.5',
    typescript: '^5.7.3',
  },
  jest: {
    moduleFileExtensions: ['js', 'json', 'ts'],
    rootDir: 'src',
    testRegex: '.*\\.spec\\.ts$',
    transform: { '^.+\\.(t|j)s$': 'ts-jest' },
    // The one line that README asks for, with allowJs in tsconfig.json.
    transformIgnorePatterns: ['/node_modules/(?!nestjs-mqtt-pulsar/)'],
    testEnvironment: 'node',
  },
};

try {
  const tarball = pack();
  step('publint', () => run(bin('publint'), ['run', tarball, '--strict'], root));
  step('attw', () => run(bin('attw'), [tarball, '--profile', 'esm-only'], root));
  step('production tree of this checkout', () => noNativeCode(root));
  for (const [major, nest] of Object.entries(NEST)) checkBeside(major, nest, tarball);
  commonJs(tarball);
  console.log('package: ok');
} finally {
  rmSync(work, { recursive: true, force: true });
}

function pack() {
  const printed = run('npm', ['pack', '--json', '--pack-destination', work], root);
  // prepack prints before the JSON
  const [{ filename, files, unpackedSize }] = JSON.parse(printed.slice(printed.indexOf('[\n')));
  const paths = files.map((file) => file.path);
  const strays = paths.filter((path) => !PACKED.test(path));
  if (strays.length > 0) fail(`does not belong into the package: ${strays.join(', ')}`);
  for (const needed of [
    'dist/index.js',
    'dist/index.d.ts',
    'dist/testing/index.js',
    'LICENSE',
    'NOTICE',
    'README.md',
  ]) {
    if (!paths.includes(needed)) fail(`the package lacks ${needed}`);
  }
  for (const [, link] of readFileSync(join(root, 'README.md'), 'utf8').matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
    if (!paths.includes(link)) fail(`README.md links ${link}, which is not packed`);
  }
  for (const path of paths.filter((file) => /^dist\/.*\.js$/.test(file))) {
    // Neither can be in a file of which a test runner makes CommonJS: the first is a syntax error, the second hides its own.
    const source = readFileSync(join(root, path), 'utf8');
    if (/\bimport\.meta\b/.test(source)) fail(`${path} has import.meta`);
    if (/^(export )?(function|const|let|var|class) (require|module|exports)\b/m.test(source)) {
      fail(`${path} gives a name of CommonJS to something of its own`);
    }
  }
  console.log(`packed ${paths.length} files, ${Math.round(unpackedSize / 1024)} KiB`);
  return join(work, filename);
}

function checkBeside(major, nest, tarball) {
  const app = join(work, `nest-${major}`);
  mkdirSync(app);
  const dependencies = {
    ...nest,
    'nestjs-mqtt-pulsar': `file:${tarball}`,
    'reflect-metadata': '^0.2.2',
    rxjs: '^7.8.1',
  };
  writeFileSync(join(app, 'package.json'), JSON.stringify({ name: `app-${major}`, private: true, dependencies }));
  cpSync(join(here, 'fixture'), app, { recursive: true });
  // Kept under a name that this checkout's own type check passes by: it imports the installed package.
  renameSync(join(app, 'types.mts.txt'), join(app, 'types.mts'));
  step(`Nest ${major}: install without scripts`, () =>
    run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], app),
  );
  step(`Nest ${major}: one copy of Nest`, () => oneCopy(app, '@nestjs/microservices', major));
  step(`Nest ${major}: no native code`, () => noNativeCode(app));
  step(`Nest ${major}: import and require`, () => run(process.execPath, ['load.mjs'], app));
  step(`Nest ${major}: require from CommonJS`, () => run(process.execPath, ['load.cjs'], app));
  step(`Nest ${major}: main job on the testing brokers`, () => run(process.execPath, ['main-job.mjs'], app));
  step(`Nest ${major}: without any optional peer`, () => run(process.execPath, ['optional-peers.mjs'], app));
  step(`Nest ${major}: Jest, ES modules`, () =>
    run(
      process.execPath,
      ['--experimental-vm-modules', join(root, 'node_modules/jest/bin/jest.js'), '--rootDir', app],
      app,
    ),
  );
  step(`Nest ${major}: types`, () => {
    const types = join(app, 'node_modules', '@types');
    if (!existsSync(types)) mkdirSync(types);
    cpSync(join(root, 'node_modules/@types/node'), join(types, 'node'), { recursive: true });
    cpSync(join(root, 'node_modules/undici-types'), join(app, 'node_modules/undici-types'), { recursive: true });
    run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.'], app);
  });
  for (const [kind, extension] of Object.entries({ 'an ES module': 'm', CommonJS: 'c' })) {
    step(`Nest ${major}: the quick start of the README as ${kind}`, () => quickStart(app, extension));
  }
}

/** As `nest new` of Nest 11 sets an application up: Jest without ES modules, ts-jest; and TypeScript's oldest resolution. */
function commonJs(tarball) {
  const app = join(work, 'nest-new');
  cpSync(join(here, 'nest-new'), app, { recursive: true });
  renameSync(join(app, 'src/app.spec.ts.txt'), join(app, 'src/app.spec.ts'));
  const dependencies = {
    ...NEST[11],
    'nestjs-mqtt-pulsar': `file:${tarball}`,
    'reflect-metadata': '^0.2.2',
    rxjs: '^7.8.1',
  };
  writeFileSync(
    join(app, 'package.json'),
    JSON.stringify({ name: 'nest-new', private: true, dependencies, ...NEST_NEW }),
  );
  step('nest new: install', () =>
    run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], app),
  );
  step('nest new: Jest, CommonJS', () => run(process.execPath, ['node_modules/jest/bin/jest.js'], app));
  step('nest new: moduleResolution node10', () =>
    run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.node10.json'], app),
  );
}

/** Word for word as a file of its own: it compiles, and what it starts does what it says. */
function quickStart(app, extension) {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const section = readme.slice(readme.indexOf('## Quick start'));
  const [, source] = /```ts\n(.*?)```/s.exec(section) ?? fail('README.md has no quick start in TypeScript');
  const file = `quick-start.${extension}ts`;
  writeFileSync(join(app, file), source);
  const { compilerOptions } = JSON.parse(readFileSync(join(app, 'tsconfig.json'), 'utf8'));
  const config = { compilerOptions: { ...compilerOptions, noEmit: false, outDir: '.' }, include: [file], exclude: [] };
  writeFileSync(join(app, 'tsconfig.quick-start.json'), JSON.stringify(config));
  run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.quick-start.json'], app);
  run(process.execPath, ['quick-start.run.mjs', `quick-start.${extension}js`], app);
}

/** Every copy that is installed, of the major version that was asked for. */
function oneCopy(app, name, major) {
  const copies = findPackages(join(app, 'node_modules')).filter(({ manifest }) => manifest.name === name);
  const versions = copies.map(({ manifest }) => manifest.version);
  if (copies.length !== 1 || !versions[0].startsWith(`${major}.`)) {
    fail(`expected one ${name} ${major}, found ${versions.join(', ') || 'none'}`);
  }
}

/** What our package brings at run time, peers left out: no install script, no compiled addon, nothing for node-gyp. */
function noNativeCode(folder) {
  const base = folder === root ? own : installed(folder, folder, 'nestjs-mqtt-pulsar').manifest;
  const pending = Object.keys(base.dependencies).map((name) => [name, folder]);
  const seen = new Set();
  while (pending.length > 0) {
    const [name, from] = pending.pop();
    const { path, manifest } = installed(folder, from, name);
    if (seen.has(path)) continue;
    seen.add(path);
    const scripts = ['preinstall', 'install', 'postinstall'].filter(
      (script) => manifest.scripts?.[script] !== undefined,
    );
    if (scripts.length > 0) fail(`${name} has the install script ${scripts.join(', ')}`);
    const native = readdirSync(path, { recursive: true })
      .map(String)
      .filter((file) => !file.includes('node_modules') && /\.node$|(^|\/)binding\.gyp$/.test(file));
    if (native.length > 0) fail(`${name} has native code: ${native.join(', ')}`);
    for (const dependency of Object.keys(manifest.dependencies ?? {})) pending.push([dependency, path]);
  }
  console.log(
    `  ${seen.size} packages at run time: ${[...seen].map((path) => path.split('node_modules/').at(-1)).join(', ')}`,
  );
}

/** Node's own lookup: the nearest node_modules above `from` that has it. */
function installed(top, from, name) {
  for (let at = from; ; at = dirname(at)) {
    const path = join(at, 'node_modules', name);
    if (existsSync(join(path, 'package.json'))) {
      return { path, manifest: JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) };
    }
    if (at === top || at === dirname(at)) fail(`${name} is not installed beside ${from}`);
  }
}

function findPackages(folder) {
  return readdirSync(folder, { recursive: true })
    .map(String)
    .filter((file) => /(^|node_modules\/)(@[^/]+\/)?[^/]+\/package\.json$/.test(file))
    .map((file) => ({
      path: join(folder, dirname(file)),
      manifest: JSON.parse(readFileSync(join(folder, file), 'utf8')),
    }));
}

function step(name, check) {
  const started = Date.now();
  check();
  console.log(`${name}: ok (${((Date.now() - started) / 1000).toFixed(1)} s)`);
}

function bin(name) {
  return join(root, 'node_modules', '.bin', name);
}

function run(command, args, cwd) {
  try {
    const env = { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'test' };
    return execFileSync(command, args, {
      cwd,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 << 20,
    });
  } catch (error) {
    return fail(`${command} ${args.join(' ')}\n${error.stdout ?? ''}${error.stderr ?? error.message}`);
  }
}

function fail(message) {
  console.error(`package: ${message}`);
  rmSync(work, { recursive: true, force: true });
  process.exit(1);
}
