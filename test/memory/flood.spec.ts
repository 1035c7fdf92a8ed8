import { type ChildProcess, fork } from 'node:child_process';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { until } from '../nest/support/app.js';
import { transpile } from '../nest/support/transpile.js';
import { type FloodedAppConfig, type FloodedAppReport, type FloodedAppRequest } from './flooded-app.js';
import { FloodingBroker } from './flooding-broker.js';

const MIB = 1024 * 1024;
/**
 * By how much heap and external memory may grow while 160 or 200 MB are sent: some 10 MB are seen. Without a bound it would be
 * all of it; how large the kernel's buffers are, and when the collector runs, is the machine's affair.
 */
const GROWTH_LIMIT = 60 * MIB;
/** The same where answers are awaited: what stands before them in the kernel's buffers (10 MB and more) is read, three times. */
const GROWTH_LIMIT_WITH_ANSWERS = 100 * MIB;
const WAIT_MS = 60_000;

type Figures = Extract<FloodedAppReport, { kind: 'figures' }>;

let program: string;
let mqtt: FloodingBroker;
let pulsar: InMemoryPulsarBroker;
let child: ChildProcess;
let reports: FloodedAppReport[];

beforeAll(() => {
  program = transpile('test/memory/flooded-app.ts');
}, 60_000);
beforeEach(async () => {
  mqtt = await FloodingBroker.start();
  pulsar = await InMemoryPulsarBroker.start();
  pulsar.holdReceipts();
});
afterEach(async () => {
  child.kill('SIGKILL');
  await mqtt.close();
  await pulsar.close();
});

async function start(config: Pick<FloodedAppConfig, 'protocolVersion' | 'qos'>): Promise<void> {
  const all: FloodedAppConfig = { ...config, mqttUrl: mqtt.url, pulsarUrl: pulsar.url };
  reports = [];
  child = fork(program, [], {
    execArgv: ['--expose-gc'],
    env: { ...process.env, NODE_OPTIONS: '', FLOODED_APP: JSON.stringify(all) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  child.on('message', (report: FloodedAppReport) => reports.push(report));
  await until(() => reports.some(({ kind }) => kind === 'ready') || child.exitCode !== null, 'the app', WAIT_MS);
  expect(child.exitCode).toBeNull();
}

const ask = (request: FloodedAppRequest): void => void child.send(request);

async function figures(): Promise<Figures> {
  const before = reports.length;
  ask({ kind: 'figures' });
  const answer = (): Figures | undefined =>
    reports.slice(before).find((report): report is Figures => report.kind === 'figures');
  await until(() => answer() !== undefined, 'the figures', WAIT_MS);
  return answer() as Figures;
}

async function untilFigures(what: string, condition: (figures: Figures) => boolean): Promise<Figures> {
  for (const end = Date.now() + WAIT_MS; ;) {
    const now = await figures();
    if (condition(now)) return now;
    if (Date.now() > end) throw new Error(`${what}: not within ${WAIT_MS} ms, ${JSON.stringify(now)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const growth = ({ mostBytes, idleBytes }: Figures): number => mostBytes - idleBytes;
const answered = (what: string): boolean =>
  reports.some((report) => report.kind === 'answered' && report.what === what);
const stored = (): Set<string> => new Set(pulsar.topic('flood').texts);

/** Until nothing more is taken from us; gives what went into the socket, kernel buffers included. */
async function standstill(): Promise<number> {
  for (let last = -1; last !== mqtt.flooded;) {
    last = mqtt.flooded;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return mqtt.flooded;
}

it('a QoS 0 flood of 200 MB while Pulsar is silent and answers to our own packets stand behind it: all come, the oldest messages are dropped and counted, memory stays flat', async () => {
  await start({ protocolVersion: 5, qos: 0 });
  const quarter = 25_000;
  mqtt.withholding = true;
  ask({ kind: 'ownPackets' });
  // PUBACK, PUBREC, PUBCOMP, SUBACK: each behind 50 MB that have to be read first.
  for (let part = 0; part < 4; part += 1) {
    await until(() => mqtt.withheld.length === 1, `our own packet ${part}`, WAIT_MS);
    await mqtt.flood(quarter, { qos: 0, bytes: 2048 }, part * quarter);
    mqtt.answerOne();
  }
  await until(() => answered('subscribe'), 'the last answer', WAIT_MS);
  const total = 4 * quarter;
  const flooded = await figures();
  expect(flooded.received).toBe(total);
  expect(flooded.succeeded).toBe(0);
  expect(flooded.dropped).toBeGreaterThan(total / 2);
  expect(growth(flooded)).toBeLessThan(GROWTH_LIMIT);
  expect(reports.filter(({ kind }) => kind === 'answered')).toHaveLength(3);

  pulsar.releaseReceipts();
  const { succeeded, dropped } = await untilFigures('what was kept', (now) => now.succeeded + now.dropped === total);
  expect(dropped).toBe(flooded.dropped);
  expect(stored().size).toBe(succeeded);
  // The newest are kept.
  expect(stored()).toContain(String(total - 1).padStart(8, '0'));
  expect(mqtt.counts.connects).toBe(1);
}, 120_000);

it('the same with large messages: bytes are bounded as well as messages', async () => {
  await start({ protocolVersion: 5, qos: 0 });
  const total = 1_600;
  mqtt.withholding = true;
  ask({ kind: 'ownPackets' });
  await until(() => mqtt.withheld.length === 1, 'our own packet', WAIT_MS);
  await mqtt.flood(total, { qos: 0, bytes: 256 * 1024 });
  mqtt.answerOne();
  await until(() => answered('qos1'), 'the answer', WAIT_MS);
  const flooded = await figures();
  expect(flooded.received).toBe(total);
  // Of 400 MB 64 MiB are kept, beside what runs and what the last chunks hold on to.
  expect(flooded.dropped).toBeGreaterThan(total / 2);
  expect(growth(flooded)).toBeLessThan(200 * MIB);
  pulsar.releaseReceipts();
  const { succeeded } = await untilFigures('what was kept', (now) => now.succeeded + now.dropped === total);
  expect(stored().size).toBe(succeeded);
}, 120_000);

it('a QoS 0 flood while Pulsar is silent and nothing of ours is awaited: reading stops, pings go on, nothing is dropped', async () => {
  await start({ protocolVersion: 5, qos: 0 });
  const total = 20_000;
  const flooding = mqtt.flood(total, { qos: 0, bytes: 8192 });
  await untilFigures('reading stops', ({ readingPaused }) => readingPaused);
  expect(await standstill()).toBeLessThan(total / 2);
  // Their answers stand behind the flood and are not missed.
  const { pings } = mqtt.counts;
  await until(() => mqtt.counts.pings >= pings + 2, 'two pings', WAIT_MS);
  expect(growth(await figures())).toBeLessThan(GROWTH_LIMIT);
  pulsar.releaseReceipts();
  await flooding;
  const end = await untilFigures('all is stored', ({ succeeded }) => succeeded === total);
  expect(end).toMatchObject({ received: total, dropped: 0, readingPaused: false });
  expect(growth(end)).toBeLessThan(GROWTH_LIMIT);
  expect(stored().size).toBe(total);
  expect(mqtt.counts.connects).toBe(1);
}, 120_000);

it('a 3.1.1 flood of QoS 1 of 200 MB while Pulsar is silent: our own answers come, memory stays flat, nothing is lost', async () => {
  await start({ protocolVersion: 4, qos: 1 });
  const total = 25_000;
  const flooding = mqtt.flood(total, { qos: 1, bytes: 8192 });
  await untilFigures('reading stops', ({ readingPaused }) => readingPaused);
  expect(await standstill()).toBeLessThan(total / 2);
  ask({ kind: 'ownPackets' });
  await until(() => answered('subscribe'), 'the answers to our own packets', WAIT_MS);
  const stopped = await untilFigures('reading stops again', ({ readingPaused }) => readingPaused);
  expect(stopped.received).toBeLessThan(total / 2);
  expect(growth(stopped)).toBeLessThan(GROWTH_LIMIT_WITH_ANSWERS);
  expect(mqtt.counts.acknowledged).toBe(0);

  pulsar.releaseReceipts();
  await flooding;
  await until(() => mqtt.counts.acknowledged === total, 'every acknowledgement', WAIT_MS);
  expect(stored().size).toBe(total);
  const end = await figures();
  expect(end).toMatchObject({ received: total, succeeded: total, dropped: 0 });
  expect(growth(end)).toBeLessThan(GROWTH_LIMIT_WITH_ANSWERS);
  expect(mqtt.counts.connects).toBe(1);
}, 120_000);
