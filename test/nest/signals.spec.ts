import { type ChildProcess, spawn } from 'node:child_process';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { settled, until } from './support/app.js';
import { type SignalledAppConfig } from './support/signalled-app.js';
import { transpile } from './support/transpile.js';

const WAIT_MS = 20_000;

let program: string;
let mqtt: InMemoryMqttBroker;
let pulsar: InMemoryPulsarBroker;
let child: ChildProcess;
let output: string;
let exit: { code: number | null; signal: string | null } | undefined;

beforeAll(() => {
  program = transpile('test/nest/support/signalled-app.ts');
}, 60_000);
beforeEach(async () => {
  mqtt = await InMemoryMqttBroker.start();
  pulsar = await InMemoryPulsarBroker.start();
  pulsar.holdReceipts();
});
afterEach(async () => {
  child.kill('SIGKILL');
  await mqtt.close();
  await pulsar.close();
});

/** Started, with one message whose handler waits for its receipt. */
async function start(config: Omit<SignalledAppConfig, 'mqttUrl' | 'pulsarUrl'>): Promise<void> {
  output = '';
  exit = undefined;
  child = spawn(process.execPath, [program], {
    env: {
      ...process.env,
      NODE_OPTIONS: '',
      SIGNALLED_APP: JSON.stringify({ ...config, mqttUrl: mqtt.url, pulsarUrl: pulsar.url }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout?.on('data', (text: Buffer) => (output += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (output += text.toString()));
  child.once('exit', (code, signal) => (exit = { code, signal }));
  await until(() => output.includes('ready') || exit !== undefined, 'the app is ready', 30_000);
  if (exit !== undefined) throw new Error(output);
  mqtt.publish('t', 'x', { qos: 1 });
  await until(() => pulsar.topic('out').messages.length === 1, 'the emit', WAIT_MS);
}

/** By the signal, after Nest's hooks. */
async function ended(signal: string): Promise<void> {
  await until(() => exit !== undefined, `the process ends\n${output}`, WAIT_MS);
  expect(exit).toEqual({ code: null, signal });
}

const events = (): string[] => output.split('\n').filter((line) => line === 'pool destroyed' || line === 'handled');
const left = (): string[] =>
  mqtt.log.entries
    .filter(({ direction, type }) => direction === 'in' && ['puback', 'unsubscribe', 'disconnect'].includes(type))
    .map(({ type }) => type);

/** Nest does the same for both signals: each arrangement gets one of them, in the two modes the other one. */
describe.each([
  ['standalone', 'SIGTERM', 'SIGINT'],
  ['hybrid', 'SIGINT', 'SIGTERM'],
] as const)('%s', (mode, oneSignal, otherSignal) => {
  it.each([
    [oneSignal, 'provider'],
    [otherSignal, 'module'],
  ] as const)(
    '%s, the strategy as %s: what runs is finished with its pool and acknowledged, then the pool goes',
    async (signal, strategy) => {
      await start({ mode, strategy, shutdownTimeout: 10_000 });
      child.kill(signal);
      await settled(100);
      // Nothing new starts.
      mqtt.publish('t', 'late', { qos: 1 });
      await settled();
      expect(events()).toEqual([]);
      pulsar.releaseReceipts();
      await ended(signal);
      expect(events()).toEqual(['handled', 'pool destroyed']);
      expect(left()).toEqual(['puback', 'disconnect']);
      expect(pulsar.topic('out').texts).toEqual(['x']);
    },
  );

  it(`${otherSignal}, the strategy known to nobody: the pool goes first, what needs it fails and is not acknowledged`, async () => {
    await start({ mode, strategy: 'bare', shutdownTimeout: 10_000 });
    child.kill(otherSignal);
    await until(() => events().length > 0, 'the pool goes', WAIT_MS);
    pulsar.releaseReceipts();
    await ended(otherSignal);
    expect(events()).toEqual(['pool destroyed']);
    expect(left()).toEqual(['disconnect']);
    expect(output.match(/Closing with 1 unfinished deliveries \(1 failed\)/g)).toHaveLength(1);
  });

  it(`${oneSignal}, and Pulsar and the broker fall silent: ends at shutdownTimeout, with one line that counts`, async () => {
    await start({ mode, strategy: mode === 'hybrid' ? 'module' : 'bare', shutdownTimeout: 300 });
    mqtt.stall();
    child.kill(oneSignal);
    await ended(oneSignal);
    expect(output.match(/Closing with 1 unfinished deliveries \(1 running\)/g)).toHaveLength(1);
    expect(events()).toEqual(['pool destroyed']);
    expect(left()).toEqual([]);
  });
});
