import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Mosquitto, scratchFolder } from '../brokers/index.js';
import { type AppConfig } from '../crash/app-config.js';
import { startWiredBrokers, type WiredBrokers } from '../crash/brokers-with-wires.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { readMarkers } from '../crash/markers.js';
import { untilDone } from '../crash/progress.js';
import { type SabotageName } from '../crash/sabotage-names.js';
import { compare, idOf, MqttWire, readTopic, seededRandom } from '../wire/index.js';

export interface EndToEndOptions {
  readonly seconds: number;
  readonly rate: number;
  readonly seed: number;
  readonly sabotage: SabotageName | undefined;
}

const TOPIC = 'persistent://public/default/end-to-end';
const DEAD_LETTERS = 'persistent://public/default/end-to-end-dead-letters';
const CONCURRENCY = 64;
const RECEIVE_MAXIMUM = 128;
/** The product's bound for brokers that send more than the Receive Maximum (`overrunLimit`). */
const OVERRUN_LIMIT = 65_535;
const POISON = 77;

/**
 * Everything at once: the MQTT link cut every few seconds, the Pulsar topic unloaded, Pulsar down for a quarter of the
 * time, 5 % of the runs throwing, one poison message, two SIGKILLs. Prints the figures as JSON in the last line, the
 * acknowledgement figures from the two recording proxies alone; resolves to false on any violation.
 */
export async function endToEndFault(options: EndToEndOptions): Promise<boolean> {
  const brokers = await startWiredBrokers();
  try {
    const violations: string[] = [];
    const figures = await mainRun(brokers, options, violations);
    if (options.sabotage === undefined) await defaultQueueRun(brokers, violations);
    for (const violation of violations) console.log(`VIOLATION ${violation}`);
    console.log(JSON.stringify(figures));
    return violations.length === 0;
  } finally {
    await brokers.stop();
  }
}

async function mainRun(
  brokers: WiredBrokers,
  options: EndToEndOptions,
  violations: string[],
): Promise<Readonly<Record<string, number>>> {
  const { mqttWire, pulsarWire, evidence, pulsar } = brokers;
  const random = seededRandom(options.seed);
  const folder = scratchFolder('end-to-end');
  const markers: string[] = [];
  const start = (): Promise<ChildApp> => {
    markers.push(join(folder, `markers-${markers.length}`));
    return ChildApp.start(appConfig(brokers, markers.at(-1) as string, options.sabotage));
  };
  let app = await start();
  const devices = await Devices.connect(brokers.mosquitto.url);
  const total = Math.round(options.seconds * options.rate);
  const publishing = devices.publish(0, total, options.rate);
  const faults = { kills: 0, runningAtKill: 0, unloads: 0, pulsarDownMs: 0 };

  let maxHeld = 0;
  const started = Date.now();
  const phase = (name: string): void => {
    const seconds = ((Date.now() - started) / 1000).toFixed(1).padStart(6);
    const counts = `accepted ${devices.accepted.size}, acknowledged ${evidence.acknowledged.size}`;
    console.log(`${seconds} s  ${name.padEnd(28)} ${counts}, receipts ${evidence.receipted.size}`);
  };
  const kill = async (): Promise<void> => {
    phase('SIGKILL');
    await untilDone(
      'a running handler',
      () => app.handlers.running > 0,
      () => app.handlers.started,
      30_000,
    );
    await app.kill();
    maxHeld = Math.max(maxHeld, app.maxHeld);
    faults.kills++;
    faults.runningAtKill += app.handlers.running;
    await sleep(300);
    app = await start();
  };
  const unloadFor = async (ms: number): Promise<void> => {
    for (const end = Date.now() + ms; Date.now() < end;) {
      await sleep(Math.min(2000, Math.max(0, end - Date.now())));
      if (
        await pulsar.admin.unload(TOPIC).then(
          () => true,
          () => false,
        )
      )
        faults.unloads++;
    }
  };

  const share = options.seconds * 1000;
  mqttWire.proxy.startCutting({ min: 2000, max: 5000, seed: options.seed });
  await unloadFor(share * (0.12 + 0.06 * random()));
  await kill();
  await unloadFor(share * 0.1);
  phase('Pulsar down');
  const down = Date.now();
  await pulsar.stop();
  await sleep(Math.max(0, share / 4 - (Date.now() - down)));
  await pulsar.launch();
  faults.pulsarDownMs = Date.now() - down;
  phase('Pulsar up');
  await unloadFor(share * (0.12 + 0.06 * random()));
  await kill();
  await sleep(share * 0.05);
  const heapBefore = await app.heap();
  await publishing;
  phase('everything published');
  mqttWire.proxy.stopCutting();
  await devices.settled();
  const acknowledged = (): boolean => [...devices.accepted].every((id) => evidence.acknowledged.has(id));
  await untilDone('messages', acknowledged, () => evidence.acknowledged.size + evidence.receipted.size, 45_000).catch(
    (error: Error) => violations.push(error.message),
  );
  phase('drained');
  const heapGrowth = (await app.heap()) - heapBefore;
  await app.close().catch((error: Error) => violations.push(error.message));
  maxHeld = Math.max(maxHeld, app.maxHeld);
  await devices.close();

  const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
  const deadLettered = await readTopic(pulsar.directUrl, DEAD_LETTERS, { stayAtUrl: true });
  const deadIds = new Set(deadLettered.map((message) => idOf(message.payload)));
  const result = compare(new Set([...devices.accepted].filter((id) => !deadIds.has(id))), stored);
  const handlers = markers.map((path) => readMarkers(path));
  const maxRunning = Math.max(...handlers.map((one) => one.maxRunning));
  const tooOften = evidence.emittedTooOften();
  console.log(`MQTT wire ${JSON.stringify(mqttWire.figures)} ${JSON.stringify(mqttWire.proxy.figures)}`);
  console.log(`Pulsar wire ${JSON.stringify(pulsarWire.figures)} ${JSON.stringify(pulsarWire.proxy.figures)}`);
  console.log(`faults ${JSON.stringify(faults)}`);
  if (mqttWire.figures.maxUnacknowledged > RECEIVE_MAXIMUM) {
    console.log(
      `the broker overran Receive Maximum ${RECEIVE_MAXIMUM}: ${mqttWire.figures.maxUnacknowledged} at a time`,
    );
  }
  const withoutReceipt = evidence.acknowledgedWithoutReceipt;
  violations.push(
    ...[
      result.lost.length > 0 && `lost: ${result.lost.slice(0, 20).join(', ')}`,
      withoutReceipt.size > 0 && `acknowledged without a receipt: ${[...withoutReceipt].slice(0, 20).join(', ')}`,
      mqttWire.figures.outOfOrder > 0 && `${mqttWire.figures.outOfOrder} acknowledgements out of order`,
      mqttWire.figures.unknown > 0 && `${mqttWire.figures.unknown} acknowledgements of nothing`,
      maxHeld > OVERRUN_LIMIT && `${maxHeld} un-acknowledged messages held, the bound is ${OVERRUN_LIMIT}`,
      maxRunning > CONCURRENCY && `${maxRunning} handlers ran at a time, ${CONCURRENCY} are allowed`,
      tooOften.length > 0 && `emitted again without a delivery since: ${tooOften.slice(0, 20).join(', ')}`,
      !deadIds.has(POISON) && `message ${POISON} was not dead-lettered`,
      deadIds.size > 1 && `dead-lettered without need: ${[...deadIds].slice(0, 20).join(', ')}`,
      faults.runningAtKill === 0 && 'no kill met a running handler: this run proves nothing',
      devices.rejected.size > 0 && `${devices.rejected.size} publishes of devices failed`,
      mqttWire.figures.malformed + pulsarWire.figures.malformed > 0 && 'malformed bytes from the product',
    ].filter((violation) => typeof violation === 'string'),
  );
  return {
    published: devices.accepted.size,
    stored: result.stored,
    deadLettered: deadIds.size,
    lost: result.lost.length,
    duplicates: result.duplicates,
    acknowledgedWithoutReceipt: withoutReceipt.size,
    outOfOrderAcknowledgements: mqttWire.figures.outOfOrder,
    maxRunning,
    maxUnacknowledged: mqttWire.figures.maxUnacknowledged,
    kills: faults.kills,
    runningAtKill: faults.runningAtKill,
    redelivered: mqttWire.figures.redelivered,
    heapGrowthBytes: heapGrowth,
  };
}

/**
 * On mosquitto's default queue of 1,000 messages: when every handler fails, the status must say `stalled` before the broker
 * begins to drop.
 */
async function defaultQueueRun(brokers: WiredBrokers, violations: string[]): Promise<void> {
  const mosquitto = await Mosquitto.start({ queue: 'defaults' });
  const wire = await MqttWire.start({ targetPort: mosquitto.port });
  const app = await ChildApp.start({
    ...appConfig(brokers, join(scratchFolder('default-queue'), 'markers'), undefined),
    mqttUrl: wire.url,
    failRate: 1,
    redeliverAfterMs: 5000,
    retries: 0,
  });
  const devices = await Devices.connect(mosquitto.url);
  const stalled = (): boolean => app.statuses.some(({ status }) => status.includes('stalled'));
  let published = 0;
  while (published < 1000 && !stalled()) {
    devices.publishOne(100_000 + published++);
    await sleep(10);
  }
  await devices.settled();
  console.log(`default queue: status ${stalled() ? 'stalled' : 'not stalled'} after ${published} messages`);
  if (!stalled()) violations.push(`no status 'stalled' before the broker's queue was full (${published} messages)`);
  await app.kill();
  await devices.close();
  await wire.proxy.close();
  await mosquitto.kill();
}

function appConfig(brokers: WiredBrokers, markers: string, sabotage: SabotageName | undefined): AppConfig {
  return {
    mqttUrl: brokers.mqttWire.url,
    pulsarUrl: brokers.pulsarWire.url,
    clientId: 'end-to-end',
    topic: TOPIC,
    deadLetterTopic: DEAD_LETTERS,
    markers,
    workMs: 8,
    failRate: 0.05,
    retries: 2,
    concurrency: CONCURRENCY,
    receiveMaximum: RECEIVE_MAXIMUM,
    redeliverAfterMs: 1000,
    poison: [POISON],
    ...(sabotage === undefined ? {} : { sabotage }),
  };
}
