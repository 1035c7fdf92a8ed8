/**
 * `npm run brokers`: a real mosquitto and a real Pulsar until Ctrl-C, then both are stopped.
 *
 *     npm run brokers -- [--mqtt-port 1883] [--pulsar-port 6650] [--http-port 8080] [--default-queue]
 *     npm run brokers -- --fetch      only downloads and builds what the tests need and is missing
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { goReader, javaReader } from '../cross/programs.js';
import { hiveMqJars, isListening, mochiProgram, Mosquitto, Pulsar, pulsarArtifacts, repositoryRoot } from './index.js';

const { values } = parseArgs({
  options: {
    'mqtt-port': { type: 'string', default: '1883' },
    'pulsar-port': { type: 'string', default: '6650' },
    'http-port': { type: 'string', default: '8080' },
    'default-queue': { type: 'boolean', default: false },
    fetch: { type: 'boolean', default: false },
  },
});
if (values.fetch) {
  mochiProgram();
  await pulsarArtifacts();
  await hiveMqJars();
  goReader();
  await javaReader();
  process.exit(0);
}
const [mqttPort, pulsarPort, httpPort] = await Promise.all(
  (['mqtt-port', 'pulsar-port', 'http-port'] as const).map((name) => port(name, values[name])),
);
const started = Date.now();
const folder = join(repositoryRoot, '.brokers');
const folders = { mosquitto: join(folder, 'mosquitto'), pulsar: join(folder, 'pulsar') };
for (const path of Object.values(folders)) mkdirSync(path, { recursive: true });
console.log(`starting mosquitto and Pulsar (data and logs in ${folder}; the first start downloads Pulsar) ...`);
const mosquitto = await Mosquitto.start({
  folder: folders.mosquitto,
  port: mqttPort,
  queue: values['default-queue'] ? 'defaults' : 'unlimited',
});
const pulsar = await Pulsar.start({ folder: folders.pulsar, port: pulsarPort, httpPort }).catch(async (error) => {
  await mosquitto.stop();
  throw error;
});
console.log(`both serve after ${((Date.now() - started) / 1000).toFixed(1)} s. Ctrl-C stops them.\n`);
console.log(`MQTT_URL=${mosquitto.url}\nPULSAR_URL=${pulsar.url}\nPULSAR_ADMIN_URL=${pulsar.admin.url}\n`);
console.log(`the sample on them:  MQTT_URL=${mosquitto.url} PULSAR_URL=${pulsar.url} npm start`);

const idle = setInterval(() => undefined, 3_600_000);
let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (stopping) return;
    stopping = true;
    console.log('stopping ...');
    void Promise.all([mosquitto.stop(), pulsar.stop()]).then(() => clearInterval(idle));
  });
}

async function port(name: string, text: string): Promise<number> {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 65_535) {
    throw new Error(`--${name}: expected a port from 1 to 65535, received ${text}`);
  }
  if (await isListening(value)) throw new Error(`--${name}: something already listens on ${value}; name another port`);
  return value;
}
