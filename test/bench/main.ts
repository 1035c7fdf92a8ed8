/**
 * `npm run bench`: our contestants in the peers' harness, one run side by side, ratios within the run.
 *
 *     npm run bench -- [--harness ../shared/bench] [--only mqtt|pulsar] [--rounds 1] [--scale 0.2]
 *                      [--peers quick|all] [--sabotage drop-one]
 *
 * The harness is copied to a scratch folder (kept between runs), the peers are installed there at their pinned versions,
 * and this checkout as the packed tarball. `--peers quick` (default) leaves out the Java peers. Exit 1 when a contestant of
 * ours failed, acknowledged out of order, or the broker's own count disagrees with what was sent.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { brokersCache, pulsarArtifacts, repositoryRoot } from '../brokers/index.js';
import { type MqttRow, mqttReport, type PulsarRow, pulsarReport } from './report.js';

const { values } = parseArgs({
  options: {
    harness: { type: 'string', default: join(repositoryRoot, '..', 'shared', 'bench') },
    only: { type: 'string' },
    rounds: { type: 'string', default: '1' },
    scale: { type: 'string', default: '0.2' },
    peers: { type: 'string', default: 'quick' },
    sabotage: { type: 'string' },
  },
});
const harness = resolve(values.harness);
if (!existsSync(join(harness, 'mqtt', 'bench.mjs'))) {
  console.error(`the peers' harness is not at ${harness}: give its folder with --harness`);
  process.exit(2);
}
if (values.sabotage !== undefined && values.sabotage !== 'drop-one') {
  console.error(`--sabotage ${values.sabotage}: the benchmark knows drop-one`);
  process.exit(2);
}
const scratch = join(brokersCache(), 'bench');
const contestants = join(repositoryRoot, 'test', 'bench', 'contestants');
const problems: string[] = [];
const tarball = pack();
if (values.only !== 'pulsar') benchMqtt();
if (values.only !== 'mqtt') await benchPulsar();
for (const problem of problems) console.log(`PROBLEM ${problem}`);
process.exit(problems.length > 0 ? 1 : 0);

function benchMqtt(): void {
  const folder = copyHarness('mqtt');
  if (values.peers === 'all') run('./setup.sh', [], folder);
  else quickMqttSetup(folder);
  install(folder);
  cpSync(join(contestants, 'mqtt-recv'), join(folder, 'contestants', 'recv'), { recursive: true });
  cpSync(join(contestants, 'mqtt-send'), join(folder, 'contestants', 'send'), { recursive: true });
  // The harness asks for new names in the list that says when a contestant acknowledges.
  const file = join(folder, 'bench.mjs');
  const text = readFileSync(join(harness, 'mqtt', 'bench.mjs'), 'utf8')
    .replace("const AFTER = ['", "const AFTER = ['ours-nest', 'ours-session', '")
    .replace("pick('send', ['", "pick('send', ['ours-publish', '");
  writeFileSync(file, text);
  rmSync(join(folder, 'results'), { recursive: true, force: true });
  const java = values.peers === 'all' ? ',hivemq-client' : '';
  const recv = `ours-nest,ours-session,nest-builtin,mqttjs-handleMessage,mqttjs-event,paho-golang,raw-minimal,sketch-minimal${java}`;
  const send = `ours-publish,mqttjs-publish,nest-emit,paho-golang,raw-minimal${java}`;
  const common = ['--rounds', values.rounds, '--scale', values.scale];
  run(process.execPath, [file, 'recv', 'recv2', 'latency', ...common, '--only', recv], folder);
  run(process.execPath, [file, 'send', ...common, '--only', send], folder);
  const rows = ['recv', 'recv2', 'latency', 'send'].flatMap((suite) =>
    readFileSync(join(folder, 'results', `${suite}.jsonl`), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as MqttRow),
  );
  problems.push(...mqttReport(rows));
}

async function benchPulsar(): Promise<void> {
  const folder = copyHarness('pulsar');
  const { classPath } = await pulsarArtifacts();
  const lib = classPath.split(':')[0].replace(/\/[^/]+$/, '');
  if (!existsSync(join(folder, 'node_modules'))) {
    run('npm', ['ci', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error'], folder);
  }
  install(folder);
  const names = ['ours', 'ours-proxy', 'flex', 'raw-live', 'go'];
  mkdirSync(join(folder, '.cache'), { recursive: true });
  if (values.peers === 'all') {
    run('./build.sh', [], folder, { PULSAR_LIB: lib });
    names.push('java');
  } else {
    run('go', ['build', '-o', '../.cache/go-contestant', '.'], join(folder, 'go'));
  }
  for (const file of readdirSync(join(contestants, 'pulsar'))) {
    const copy = join(folder, 'contestants', file);
    cpSync(join(contestants, 'pulsar', file), copy);
    chmodSync(copy, 0o755);
  }
  const ours = join(folder, 'contestants', 'ours.mjs');
  if (values.sabotage !== undefined) writeFileSync(ours, dropOne(readFileSync(ours, 'utf8')));
  const args = [
    '--rounds',
    values.rounds,
    '--scale',
    values.scale,
    '--stages',
    'produce,latency',
    '--only',
    names.join(','),
  ];
  run(process.execPath, ['bench.mjs', ...args, '--out', join(folder, 'results')], folder, { PULSAR_LIB: lib });
  const rows = readFileSync(join(folder, 'results', 'bench.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PulsarRow)
    .filter((row) => row.round > 0);
  problems.push(...pulsarReport(rows));
}

/** In the contestant's process: the hundredth message is reported as sent and never leaves. */
function dropOne(text: string): string {
  return text
    .replace(
      'send: (payload) => producer.send({ payload }),',
      'send: (payload) => (++globalThis.sends === 100 ? Promise.resolve() : producer.send({ payload })),',
    )
    .replace("run('ours'", "globalThis.sends = 0;\nrun('ours'");
}

/** Node and Go only, in a fraction of the time that the Java peers take to download. */
function quickMqttSetup(folder: string): void {
  if (!existsSync(join(folder, 'node_modules'))) {
    run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], folder);
  }
  mkdirSync(join(folder, 'bin'), { recursive: true });
  const commands = readdirSync(join(folder, 'go', 'cmd')).filter((name) => name !== 'mochi');
  run('go', ['build', '-o', '../bin/', ...commands.map((name) => `./cmd/${name}`)], join(folder, 'go'));
}

function copyHarness(name: string): string {
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  cpSync(join(harness, name), folder, { recursive: true });
  // The original may be read-only, and so is its copy then.
  run('chmod', ['-R', 'u+w', folder], scratch);
  return folder;
}

function pack(): string {
  mkdirSync(scratch, { recursive: true });
  for (const old of readdirSync(scratch).filter((name) => name.endsWith('.tgz'))) rmSync(join(scratch, old));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', scratch], { cwd: repositoryRoot, stdio: 'pipe' });
  const file = readdirSync(scratch).find((name) => name.endsWith('.tgz'));
  if (file === undefined) throw new Error('npm pack left no tarball');
  return join(scratch, file);
}

function install(folder: string): void {
  run(
    'npm',
    ['install', '--no-save', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', tarball],
    folder,
  );
}

function run(command: string, args: readonly string[], cwd: string, env: Record<string, string> = {}): void {
  const done = spawnSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...env } });
  if (done.status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${done.status ?? done.signal}`);
}
