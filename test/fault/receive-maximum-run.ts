import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scratchFolder } from '../brokers/index.js';
import { recordMqtt, type WiredBrokers } from '../crash/brokers-with-wires.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { MQTT_BROKERS } from '../crash/mqtt-brokers.js';
import { untilDone } from '../crash/progress.js';
import { compare, readTopic } from '../wire/index.js';
import { type EndToEndOptions } from './end-to-end.js';
import { endToEndApp } from './end-to-end-app.js';
import { LinkCutter } from './link-cutter.js';

const TOPIC = 'persistent://public/default/receive-maximum';
const FIRST_ID = 300_000;
const SECONDS = 6;

/**
 * On a broker that keeps to the Receive Maximum: with the link cut every second or two and Pulsar silent for a while, so
 * that the window is full, there must never be more un-acknowledged messages than were asked for.
 */
export async function receiveMaximumRun(brokers: WiredBrokers, options: EndToEndOptions): Promise<string[]> {
  const { evidence, pulsar } = brokers;
  const { start, receiveMaximum, concurrency } = MQTT_BROKERS.hivemq;
  const broker = await start();
  const wire = await recordMqtt(broker, evidence);
  const markers = join(scratchFolder('receive-maximum'), 'markers');
  const own = { topic: TOPIC, markers, concurrency, receiveMaximum, mqttUrl: wire.url };
  const app = await ChildApp.start(endToEndApp(brokers, own));
  const devices = await Devices.connect(broker.url);
  const cutter = new LinkCutter(wire, { minMs: 800, maxMs: 1600, seed: options.seed });
  const failed: string[] = [];
  const note = (error: Error): void => void failed.push(`HiveMQ: ${error.message}`);
  try {
    const publishing = devices.publish(FIRST_ID, SECONDS * options.rate, options.rate);
    cutter.start();
    await sleep(SECONDS * 400);
    pulsar.pause();
    await sleep(750);
    // The window is full: everything in it comes again.
    wire.proxy.cut();
    await sleep(750);
    pulsar.resume();
    await publishing;
    cutter.stop();
    await devices.settled();
    await untilDone(
      'messages',
      () => devices.allIn(evidence.acknowledged),
      () => evidence.acknowledged.size + evidence.receipted.size,
      30_000,
    ).catch(note);
    await app.close().catch(note);
    const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
    const { lost } = compare(devices.accepted, stored);
    const { figures } = wire;
    console.log(`HiveMQ, Receive Maximum ${receiveMaximum}: ${JSON.stringify({ ...figures, ...cutter.figures })}`);
    const { maxUnacknowledged } = figures;
    return [
      maxUnacknowledged > receiveMaximum &&
        `HiveMQ: ${maxUnacknowledged} un-acknowledged messages at a time, Receive Maximum is ${receiveMaximum}`,
      maxUnacknowledged < receiveMaximum &&
        `HiveMQ: at most ${maxUnacknowledged} un-acknowledged messages, the window of ${receiveMaximum} was never full`,
      lost.length > 0 && `HiveMQ, lost: ${lost.slice(0, 20).join(', ')}`,
      figures.outOfOrder + figures.unknown > 0 &&
        `HiveMQ: ${figures.outOfOrder + figures.unknown} wrong acknowledgements`,
      figures.redelivered === 0 && 'HiveMQ: nothing was redelivered',
      cutter.figures.metUnacknowledged < 2 && `HiveMQ: ${cutter.figures.metUnacknowledged} cuts met open messages`,
      ...failed,
    ].filter((violation) => typeof violation === 'string');
  } finally {
    cutter.stop();
    pulsar.resume();
    await app.kill();
    await devices.close();
    await wire.proxy.close();
    await broker.kill();
  }
}
