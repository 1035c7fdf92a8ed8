import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scratchFolder } from '../brokers/index.js';
import { type WiredBrokers } from '../crash/brokers-with-wires.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { readMarkers } from '../crash/markers.js';
import { MQTT_BROKERS } from '../crash/mqtt-brokers.js';
import { untilDone } from '../crash/progress.js';
import { compare, idOf, readTopic, seededRandom } from '../wire/index.js';
import { type EndToEndOptions } from './end-to-end.js';
import { endToEndApp } from './end-to-end-app.js';
import { LinkCutter } from './link-cutter.js';
import { type RunRecord } from './verdict.js';

const TOPIC = 'persistent://public/default/end-to-end';
const DEAD_LETTERS = `${TOPIC}-dead-letters`;
const POISON = 77;
/**
 * Messages that a process may hold beyond those that waited for it until it was subscribed: up to then it has to read on,
 * after that it stops over the Receive Maximum, and has read one or two chunks of the socket more (64 KiB, 900 messages).
 */
const READ_AHEAD = 2_000;
/** Within this time after its return Pulsar must be in use again: the longest backoff, and time to do something. */
const RECOVERY_MS = 60_000;

/**
 * Everything at once: the MQTT link cut every few seconds, the Pulsar topic unloaded, Pulsar down for a quarter of the
 * time, 5 % of the runs throwing, one poison message, two SIGKILLs.
 */
export async function everyFaultRun(brokers: WiredBrokers, options: EndToEndOptions): Promise<RunRecord> {
  const { mqtt, mqttWire, pulsarWire, evidence, pulsar } = brokers;
  const { receiveMaximum, concurrency, keepsToReceiveMaximum } = MQTT_BROKERS[options.broker];
  const random = seededRandom(options.seed);
  const folder = scratchFolder('end-to-end');
  const troubles: string[] = [];
  const runningAtKill: number[] = [];
  const faults = { unloads: 0, pulsarDownMs: 0, receiptsWhileDown: 0 };

  const devices = await Devices.connect(mqtt.url);
  const apps: { readonly app: ChildApp; readonly markers: string; readonly allowed: number }[] = [];
  const start = async (): Promise<void> => {
    const markers = join(folder, `markers-${apps.length}`);
    const sabotage = options.sabotage === undefined ? {} : { sabotage: options.sabotage };
    const config = endToEndApp(brokers, { topic: TOPIC, markers, concurrency, receiveMaximum, poison: [POISON] });
    const app = await ChildApp.start({ ...config, ...sabotage });
    // It is subscribed now: no SUBACK makes it read on any more.
    const allowed = devices.accepted.size - evidence.acknowledged.size + READ_AHEAD;
    apps.push({ app, markers, allowed });
  };
  const running = (): ChildApp => (apps.at(-1) as (typeof apps)[number]).app;

  const started = Date.now();
  const phase = (name: string): void => {
    const seconds = ((Date.now() - started) / 1000).toFixed(1).padStart(6);
    const counts = `accepted ${devices.accepted.size}, acknowledged ${evidence.acknowledged.size}`;
    console.log(`${seconds} s  ${name.padEnd(28)} ${counts}, receipts ${evidence.receipted.size}`);
  };
  const kill = async (): Promise<void> => {
    phase('SIGKILL');
    runningAtKill.push(await running().killWhileRunning(30_000));
    await sleep(300);
    await start();
  };
  const unloadFor = async (ms: number): Promise<void> => {
    for (const end = Date.now() + ms; Date.now() < end;) {
      await sleep(Math.min(2000, Math.max(0, end - Date.now())));
      await pulsar.admin.unload(TOPIC).then(
        () => faults.unloads++,
        (error: Error) => console.log(`an unload failed: ${error.message}`),
      );
    }
  };
  const stopPulsar = async (ms: number): Promise<void> => {
    await pulsar.stop();
    phase('Pulsar down');
    const down = Date.now();
    const receipts = pulsarWire.figures.receipts;
    await sleep(ms);
    faults.receiptsWhileDown = pulsarWire.figures.receipts - receipts;
    await pulsar.launch();
    faults.pulsarDownMs = Date.now() - down;
    phase('Pulsar up');
    // The process that went through the outage recovers by itself, and takes in what has come meanwhile, before it is killed.
    const enough = evidence.receipted.size + options.rate;
    await untilDone(
      'receipts after the outage',
      () => evidence.receipted.size >= enough,
      () => 0,
      RECOVERY_MS,
    ).catch((error: Error) => troubles.push(error.message));
    phase('recovered');
  };

  await start();
  const cutter = new LinkCutter(mqttWire, { minMs: 2000, maxMs: 5000, seed: options.seed });
  const total = options.seconds * options.rate;
  // And on until the second kill, however long the recovery before it takes: it has to meet running handlers.
  const enough = (): boolean => devices.published >= total && runningAtKill.length === 2;
  const publishing = devices.publish(0, 10 * total, options.rate, enough);
  const share = options.seconds * 1000;
  cutter.start();
  await unloadFor(share * (0.12 + 0.06 * random()));
  await kill();
  await unloadFor(share * 0.1);
  await stopPulsar(share / 4);
  await unloadFor(share * (0.12 + 0.06 * random()));
  await kill();
  await sleep(share * 0.05);
  const heapBefore = await running().heap();
  await publishing;
  phase('everything published');
  cutter.stop();
  await devices.settled();
  await untilDone(
    'messages',
    () => devices.allIn(evidence.acknowledged),
    () => evidence.acknowledged.size + evidence.receipted.size,
    45_000,
  ).catch((error: Error) => troubles.push(error.message));
  phase('drained');
  const heapGrowth = (await running().heap()) - heapBefore;
  await running()
    .close()
    .catch((error: Error) => troubles.push(error.message));
  await devices.close();

  const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
  const letters = await readTopic(pulsar.directUrl, DEAD_LETTERS, { stayAtUrl: true });
  const deadLettered = [...new Set(letters.map((message) => idOf(message.payload)))];
  const kept = new Set([...devices.accepted].filter((id) => !deadLettered.includes(id)));
  const result = compare(kept, stored);
  const held = apps.map(({ app, allowed }) => ({ most: app.maxHeld, allowed }));
  console.log(`MQTT wire ${JSON.stringify(mqttWire.figures)} ${JSON.stringify(mqttWire.proxy.figures)}`);
  console.log(`Pulsar wire ${JSON.stringify(pulsarWire.figures)} ${JSON.stringify(pulsarWire.proxy.figures)}`);
  console.log(`faults ${JSON.stringify({ ...faults, cuts: cutter.figures, runningAtKill })}`);
  console.log(`held ${JSON.stringify(held)}`);
  if (mqttWire.figures.maxUnacknowledged > receiveMaximum) {
    const { maxUnacknowledged } = mqttWire.figures;
    console.log(`${options.broker} overran Receive Maximum ${receiveMaximum}: ${maxUnacknowledged} at a time`);
  }
  return {
    seconds: options.seconds,
    rate: options.rate,
    concurrency,
    receiveMaximum,
    keepsToReceiveMaximum,
    published: devices.accepted.size,
    refused: devices.rejected.size,
    ...result,
    lostAfterDelivery: result.lost.filter((id) => evidence.everDelivered.has(id)).length,
    deadLettered,
    poison: POISON,
    mqtt: mqttWire.figures,
    pulsar: pulsarWire.figures,
    acknowledgedWithoutReceipt: [...evidence.acknowledgedWithoutReceipt],
    emittedAgain: evidence.emittedTooOften(),
    faults: { ...faults, cuts: cutter.figures.cuts, runningAtKill },
    handlers: apps.map(({ markers }) => readMarkers(markers)),
    held,
    heapGrowth,
    troubles,
  };
}
