/**
 * `npm run crash-test`: the promise on real brokers. Devices publish with QoS 1 and 2, the app is SIGKILLed while handlers
 * run and started again with the same client id, the Pulsar topic is unloaded and its connection cut meanwhile. At the end
 * a reader that shares no code with the product compares what is stored with what the broker had accepted.
 *
 *     npm run crash-test -- [--rounds 3] [--messages 2000] [--fail 0.05] [--sabotage NAME] [--seed 1]
 *
 * The last line is JSON with the true figures. Exit 1 if anything was lost, if no kill met a running handler, or if the
 * recording proxies saw an acknowledgement without a receipt, out of order, or a handler run twice for one delivery.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scratchFolder } from '../brokers/index.js';
import { commandLine, compare, readTopic, seededRandom } from '../wire/index.js';
import { type AppConfig } from './app-config.js';
import { startWiredBrokers } from './brokers-with-wires.js';
import { ChildApp } from './child-app.js';
import { Devices } from './devices.js';
import { untilDone } from './progress.js';
import { checkSabotage } from './sabotage-names.js';

const USAGE =
  'usage: npm run crash-test -- [--rounds 3] [--messages 2000] [--fail 0.05] [--rate 400] [--sabotage NAME] [--seed 1]';
const { values } = commandLine(USAGE, {
  options: {
    rounds: { type: 'string', default: '3' },
    messages: { type: 'string', default: '2000' },
    fail: { type: 'string', default: '0' },
    rate: { type: 'string', default: '400' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    sabotage: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const messages = Number(values.messages);
const rate = Number(values.rate);
const sabotage = checkSabotage(values.sabotage);
const random = seededRandom(Number(values.seed));
const TOPIC = 'persistent://public/default/telemetry';
console.log(
  `crash test: ${rounds} rounds, ${messages} messages, seed ${values.seed}${sabotage ? `, ${sabotage}` : ''}`,
);

const brokers = await startWiredBrokers();
const { mqttWire, pulsarWire, evidence, pulsar } = brokers;
const folder = scratchFolder('crash');
let starts = 0;
const startApp = (): Promise<ChildApp> => {
  const config: AppConfig = {
    mqttUrl: mqttWire.url,
    pulsarUrl: pulsarWire.url,
    clientId: 'crash-test',
    topic: TOPIC,
    markers: join(folder, `markers-${starts++}`),
    workMs: 8,
    failRate: Number(values.fail),
    concurrency: 64,
    receiveMaximum: 128,
    redeliverAfterMs: 500,
    ...(sabotage === undefined ? {} : { sabotage }),
  };
  return ChildApp.start(config);
};

let app = await startApp();
await pulsar.admin.createTopic(TOPIC).catch(() => undefined);
const devices = await Devices.connect(brokers.mqtt.url);
const figures = { kills: 0, runningAtKill: 0, unackedAtKill: 0, unloads: 0 };
const perRound = Math.ceil(messages / rounds);

for (let round = 0, first = 0; round < rounds; round++, first += perRound) {
  const count = Math.min(perRound, messages - first);
  const publishing = devices.publish(first, count, rate);
  const roundMs = (count / rate) * 1000;
  await sleep(roundMs * (0.15 + 0.25 * random()));
  await pulsar.admin.unload(TOPIC);
  figures.unloads++;
  await sleep(roundMs * 0.1 * random());
  pulsarWire.proxy.cut();
  await sleep(roundMs * 0.25 * random());
  await untilDone(
    'a running handler',
    () => app.handlers.running > 0,
    () => app.handlers.started,
    20_000,
  );
  // Read before the kill: the proxy forgets a connection when it closes.
  const unacknowledged = mqttWire.unacknowledged;
  await app.kill();
  figures.kills++;
  figures.runningAtKill += app.handlers.running;
  figures.unackedAtKill += unacknowledged;
  await sleep(200 + 400 * random());
  app = await startApp();
  await publishing;
}

await devices.settled();
const everythingAcknowledged = (): boolean => devices.allIn(evidence.acknowledged);
let trouble: string | undefined;
await untilDone('messages', everythingAcknowledged, () => evidence.acknowledged.size + evidence.receipted.size).catch(
  (error: Error) => (trouble = error.message),
);
await sleep(300);
await app.close().catch((error: Error) => (trouble ??= error.message));
await devices.close();

const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
const result = compare(devices.accepted, stored);
await brokers.stop();

const tooOften = evidence.emittedTooOften();
const violations = [
  result.lost.length > 0 && `lost: ${result.lost.slice(0, 20).join(', ')}`,
  figures.runningAtKill === 0 && 'no kill met a running handler: this run proves nothing',
  evidence.acknowledgedWithoutReceipt.size > 0 &&
    `acknowledged without a receipt: ${[...evidence.acknowledgedWithoutReceipt].slice(0, 20).join(', ')}`,
  mqttWire.figures.outOfOrder > 0 && `${mqttWire.figures.outOfOrder} acknowledgements out of order`,
  mqttWire.figures.unknown > 0 && `${mqttWire.figures.unknown} acknowledgements of nothing`,
  tooOften.length > 0 && `emitted again without a delivery since: ${tooOften.slice(0, 20).join(', ')}`,
  devices.rejected.size > 0 && `${devices.rejected.size} publishes of devices failed`,
  mqttWire.figures.malformed + pulsarWire.figures.malformed > 0 && 'malformed bytes from the product',
  trouble,
].filter((violation) => typeof violation === 'string');
console.log(`MQTT wire ${JSON.stringify(mqttWire.figures)}`);
console.log(`Pulsar wire ${JSON.stringify(pulsarWire.figures)} ${JSON.stringify(pulsarWire.proxy.figures)}`);
for (const violation of violations) console.log(`VIOLATION ${violation}`);
console.log(
  JSON.stringify({
    published: devices.accepted.size,
    stored: result.stored,
    lost: result.lost.length,
    duplicates: result.duplicates,
    kills: figures.kills,
    runningAtKill: figures.runningAtKill,
    unackedAtKill: figures.unackedAtKill,
    redelivered: mqttWire.figures.redelivered,
  }),
);
process.exit(violations.length > 0 ? 1 : 0);
