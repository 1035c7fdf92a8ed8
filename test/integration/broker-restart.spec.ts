import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { type MqttServerOptions } from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { Mochi, Mosquitto } from '../brokers/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { killLiveApps, LiveApp } from './live-app-process.js';

const versions = [5, 4] as const;
type Version = (typeof versions)[number];

let pulsar: InMemoryPulsarBroker;
let topic: string;
let clientId: string;
beforeEach(async () => {
  pulsar = await InMemoryPulsarBroker.start();
  topic = unique('restart');
  clientId = unique('app');
});
afterEach(async () => {
  await killLiveApps();
  await pulsar.close();
});

function startApp(url: string, protocolVersion: Version, holding: boolean): Promise<LiveApp> {
  const strategy: MqttServerOptions = {
    url,
    clientId,
    protocolVersion,
    qos: 2,
    sessionExpiry: 3600,
    reconnect: { initial: 50, max: 200 },
  };
  return LiveApp.start({ pulsarUrl: pulsar.url, filter: `${topic}/#`, holding, strategy });
}

/** From a device of its own, each accepted by the broker: `count` of QoS 1 and of QoS 2, payloads `name1-0`, `name2-0`, … */
async function publish(url: string, protocolVersion: Version, name: string, count = 5): Promise<string[]> {
  const device = await connectAsync(url, { protocolVersion });
  const payloads: string[] = [];
  for (const qos of [1, 2] as const) {
    for (let i = 0; i < count; i += 1) {
      payloads.push(`${name}${qos}-${i}`);
      await device.publishAsync(`${topic}/${name}`, `${name}${qos}-${i}`, { qos });
    }
  }
  await device.endAsync();
  return payloads;
}

const sorted = (payloads: readonly string[]): string[] => [...payloads].sort();
const stored = (): string[] => sorted(pulsar.topic('out').texts);
const startedAll = (app: LiveApp, payloads: readonly string[]): Promise<void> =>
  until('they run', () => payloads.every((payload) => app.started.includes(payload)));

describeWithMqttBrokers('mosquitto with its sessions on disk, the app in a process of its own', () => {
  const start = (): Promise<Mosquitto> =>
    Mosquitto.start({ settings: ['max_inflight_messages 100', 'autosave_interval 0'] });
  let mosquitto: Mosquitto;
  afterEach(() => mosquitto.kill());

  /** Has it write its sessions down now. */
  async function save(): Promise<void> {
    const database = join(mosquitto.folder, 'data', 'mosquitto.db');
    const before = existsSync(database) ? statSync(database).mtimeMs : 0;
    process.kill(mosquitto.pid, 'SIGUSR1');
    await until('the database', () => existsSync(database) && statSync(database).mtimeMs > before);
  }

  it.each(
    versions.flatMap((version) => [
      { version, end: 'stopped' as const },
      { version, end: 'killed' as const },
    ]),
  )(
    'MQTT version $version, $end and started: the session is resumed, what ran through is acknowledged and not run again',
    async ({ version, end }) => {
      mosquitto = await start();
      const app = await startApp(mosquitto.url, version, true);
      const away = await publish(mosquitto.url, version, 'away');
      const long = await publish(mosquitto.url, version, 'long');
      await startedAll(app, [...away, ...long]);
      let unsaved: string[] = [];
      if (end === 'killed') {
        await save();
        // The broker will not know of these any more, nor that it used their packet identifiers; we do.
        unsaved = await publish(mosquitto.url, version, 'unsaved');
        await startedAll(app, unsaved);
        await mosquitto.kill();
      } else await mosquitto.stop();

      await until('it is missed', () => app.status?.status === 'reconnecting');
      expect(app.status).toMatchObject({
        health: 'down',
        reason: expect.stringMatching(/^not connected \(reconnecting\): ./),
      });
      // Their receipts come while there is no broker to acknowledge to.
      app.tell('goOn', 'away');
      await until('the end of those', () => away.every((payload) => app.ended.includes(payload)));
      await mosquitto.restart();
      await until('connected again', () => app.status?.status === 'connected');
      expect(app.of('connected').map(({ sessionPresent }) => sessionPresent)).toEqual([false, true]);
      const fresh = await publish(mosquitto.url, version, 'fresh');
      await startedAll(app, fresh);
      app.tell('goOn');
      const all = sorted([...away, ...long, ...unsaved, ...fresh]);
      await until('everything is stored', () => stored().length >= all.length);
      expect(stored()).toEqual(all);
      expect(sorted(app.started)).toEqual(all);
      expect(app.of('sessionLost')).toEqual([]);
      await app.close();

      // Everything the broker kept was acknowledged: another process gets only what is new.
      const next = await startApp(mosquitto.url, version, false);
      const mark = await publish(mosquitto.url, version, 'mark', 1);
      await startedAll(next, mark);
      expect(next.of('connected')).toEqual([{ kind: 'connected', sessionPresent: true }]);
      expect(next.started).toEqual(mark);
      await next.close();
    },
  );
});

interface Restartable {
  readonly url: string;
  restart(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

const forgetful: { name: string; start: () => Promise<Restartable> }[] = [
  { name: 'mosquitto without persistence', start: () => Mosquitto.start({ settings: ['persistence false'] }) },
  { name: 'mochi', start: () => Mochi.start() },
];

describeWithMqttBrokers('a broker that comes back without the session, the app in a process of its own', () => {
  let broker: Restartable;
  let device: MqttClient | undefined;
  afterEach(async () => {
    await device?.endAsync(true);
    await broker.kill();
  });

  it.each(forgetful.flatMap((about) => versions.map((version) => ({ ...about, version }))))(
    '$name, MQTT version $version: told as an event and in the log, subscribed again, what is held goes on',
    async ({ start, version }) => {
      broker = await start();
      const app = await startApp(broker.url, version, true);
      const away = await publish(broker.url, version, 'away');
      const long = await publish(broker.url, version, 'long');
      await startedAll(app, [...away, ...long]);
      await broker.stop();
      await until('it is missed', () => app.status?.status === 'reconnecting');
      app.tell('goOn', 'away');
      await until('the end of those', () => away.every((payload) => app.ended.includes(payload)));
      await broker.restart();
      await until('the loss is told', () => app.of('sessionLost').length === 1);
      // Those that ran through were only not acknowledged: nobody waits for that any more.
      expect(app.of('sessionLost')).toEqual([{ kind: 'sessionLost', orphaned: long.length }]);
      expect(app.logged('The broker has lost our session')).toBe(1);
      await until('connected again', () => app.status?.status === 'connected');
      expect(app.of('connected').map(({ sessionPresent }) => sessionPresent)).toEqual([false, false]);

      device = await connectAsync(broker.url, { protocolVersion: version });
      const probe = `${topic}/probe`;
      await until('subscribed again', async () => {
        await device?.publishAsync(probe, 'probe', { qos: 0 });
        return app.started.includes('probe');
      });
      const fresh = await publish(broker.url, version, 'fresh');
      await startedAll(app, fresh);
      app.tell('goOn');
      const all = sorted([...away, ...long, ...fresh]);
      const storedOfDevices = (): string[] => stored().filter((text) => text !== 'probe');
      await until('everything is stored', () => storedOfDevices().length >= all.length);
      expect(storedOfDevices()).toEqual(all);
      expect(sorted(app.started.filter((text) => text !== 'probe'))).toEqual(all);
      // No acknowledgement of the old session confused the broker.
      expect(app.of('connected')).toHaveLength(2);
      await app.close();
    },
  );
});
