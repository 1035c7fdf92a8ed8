import { type ChildProcess, spawn } from 'node:child_process';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { settled, until } from './support/app.js';
import { transpile } from './support/transpile.js';

/** What node has for stdout and signals; everything else would be ours, or the HTTP server's. */
const OF_THE_PROCESS = new Set([
  'PipeWrap',
  'Pipe',
  'SignalWrap',
  'TTYWrap',
  'FSReqCallback',
  'FSReqPromise',
  'Immediate',
]);

let program: string;
let mqtt: InMemoryMqttBroker;
let pulsar: InMemoryPulsarBroker;
let child: ChildProcess;
let output: string;
let exit: { code: number | null; signal: string | null } | undefined;

beforeAll(() => {
  program = transpile('test/nest/support/closing-app.ts');
}, 60_000);
beforeEach(async () => {
  mqtt = await InMemoryMqttBroker.start();
  pulsar = await InMemoryPulsarBroker.start();
  output = '';
  exit = undefined;
});
afterEach(async () => {
  child.kill('SIGKILL');
  await mqtt.close();
  await pulsar.close();
});

async function start(mode: 'standalone' | 'hybrid'): Promise<void> {
  const { NODE_OPTIONS: _options, ...env } = process.env;
  child = spawn(process.execPath, [program], {
    env: { ...env, CLOSING_APP: JSON.stringify({ mode, mqttUrl: mqtt.url, pulsarUrl: pulsar.url }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout?.on('data', (text: Buffer) => (output += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (output += text.toString()));
  child.once('exit', (code, signal) => (exit = { code, signal }));
  await until(() => output.includes('ready') || exit !== undefined, 'the app is ready', 30_000);
  if (exit !== undefined) throw new Error(output);
}

const stored = (): number => pulsar.topic('persistent://public/default/out').messages.length;

/** It ends by itself; what was open right after `close()`. */
async function ends(): Promise<string[]> {
  await until(() => exit !== undefined, 'the process ends by itself', 20_000);
  if (exit?.code !== 0) throw new Error(`exit ${exit?.code ?? exit?.signal}\n${output}`);
  return (JSON.parse(output.trim().split('\n').at(-1) as string) as string[]).filter(
    (name) => !OF_THE_PROCESS.has(name),
  );
}

describe.each(['standalone', 'hybrid'] as const)('%s', (mode) => {
  beforeEach(() => start(mode));

  it('close(): everything is acknowledged, DISCONNECT, nothing is left open, the process ends', async () => {
    for (let i = 0; i < 10; i += 1) mqtt.publish('t', String(i), { qos: 1 });
    await until(() => stored() === 10);
    child.kill('SIGUSR2');
    expect(await ends()).toEqual([]);
    expect(mqtt.log.received('puback')).toHaveLength(10);
    expect(mqtt.log.received('disconnect')).toHaveLength(1);
    expect(mqtt.log.received('unsubscribe')).toEqual([]);
  });

  it('a detached handle that nobody uses: its signal aborts, the message stays un-acknowledged', async () => {
    mqtt.publish('detached', 'x', { qos: 1 });
    await until(() => mqtt.log.sent('publish').length === 1);
    await settled();
    child.kill('SIGUSR2');
    expect(await ends()).toEqual([]);
    expect(output).toContain('aborted');
    expect(mqtt.log.received('puback')).toEqual([]);
  });

  it('a dead MQTT socket does not keep it', async () => {
    mqtt.publish('t', 'x', { qos: 1 });
    await until(() => stored() === 1);
    mqtt.stall();
    child.kill('SIGUSR2');
    expect(await ends()).toEqual([]);
  });

  it('a silent Pulsar does not keep it: what has no receipt is not acknowledged', async () => {
    pulsar.holdReceipts();
    mqtt.publish('t', 'x', { qos: 1 });
    await until(() => stored() === 1);
    child.kill('SIGUSR2');
    expect(await ends()).toEqual([]);
    expect(mqtt.log.received('puback')).toEqual([]);
    expect(mqtt.log.received('disconnect')).toHaveLength(1);
  });

  it('SIGTERM: running work is finished and acknowledged first', async () => {
    pulsar.holdReceipts();
    mqtt.publish('t', 'x', { qos: 1 });
    await until(() => stored() === 1);
    child.kill('SIGTERM');
    await settled();
    pulsar.releaseReceipts();
    await until(() => exit !== undefined, 'the process ends', 20_000);
    expect(exit).toEqual({ code: null, signal: 'SIGTERM' });
    expect(mqtt.log.received('puback')).toHaveLength(1);
    const order = mqtt.log.entries.filter(({ direction }) => direction === 'in').map(({ type }) => type);
    expect(order.indexOf('puback')).toBeLessThan(order.indexOf('disconnect'));
  });
});
