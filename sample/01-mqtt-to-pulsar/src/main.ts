/**
 * MQTT in, Pulsar out, nothing lost: devices publish over MQTT, a handler emits to Pulsar, and a message is acknowledged to
 * the MQTT broker when Pulsar has stored it.
 *
 *     npm start                                    on embedded brokers, until Ctrl-C
 *     npm start -- --messages 1000 --exit          ends by itself; the last line is JSON
 *     MQTT_URL=mqtt://127.0.0.1:1883 PULSAR_URL=pulsar://127.0.0.1:6650 npm start
 */
import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { MqttServerStrategy } from '../../../lib/index.js';
import { AppModule } from './app.module.js';
import { sampleArguments } from './arguments.js';
import { Devices } from './devices.js';
import { startEmbeddedBrokers } from './embedded-brokers.js';
import { HeapProbe } from './heap-probe.js';
import { compareRun, type StoredPayload } from './verify/read-back.js';
import { readTopic } from './verify/topic-reader.js';

const TOPIC = 'persistent://public/default/telemetry';

const args = sampleArguments();
const embedded = args.mqttUrl === undefined || args.pulsarUrl === undefined ? await startEmbeddedBrokers() : undefined;
const mqttUrl = args.mqttUrl ?? embedded!.mqttUrl;
const pulsarUrl = args.pulsarUrl ?? embedded!.pulsarUrl;

// The application: this is all a user writes.
const strategy = new MqttServerStrategy({
  url: mqttUrl,
  clientId: 'sample-01',
  // aedes has no MQTT 5, and does not mark what it sends again with DUP.
  protocolVersion: args.mqttUrl === undefined ? 4 : 'auto',
  bindWithoutDup: args.mqttUrl === undefined,
});
const app = await NestFactory.createMicroservice(AppModule.with(pulsarUrl), { strategy, logger: ['error', 'warn'] });
await app.listen();

console.log(
  `MQTT ${strategy.protocolVersion === 5 ? '5' : '3.1.1'} at ${mqttUrl}, Pulsar at ${pulsarUrl}, topic ${TOPIC}`,
);
const run = `${Date.now().toString(36)}-${process.pid}`;
const devices = await Devices.connect(mqttUrl, run);
const heap = new HeapProbe(args.heapAt);
const started = performance.now();
const progress = setInterval(() => console.log(progressLine()), 1000);
let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop());

const watch = setInterval(() => heap.at(acknowledged()), 1);
await devices.publish(args.messages, args.rate);
while (!stopping && acknowledged() < devices.published) await sleep(10);
clearInterval(watch);
heap.at(acknowledged());
if (args.exit && !stopping) await finish();

async function finish(): Promise<void> {
  const counted = { acknowledged: acknowledged(), protocolVersion: strategy.protocolVersion };
  await stop(async () => {
    const result = compareRun(await readBack(), run, args.messages, devices.refused);
    console.log(JSON.stringify({ published: devices.published, ...result, ...counted }));
    process.exitCode = result.lost > 0 ? 1 : 0;
  });
}

/** Acknowledged by the strategy: a figure of ours, shown beside what the devices and Pulsar say. */
function acknowledged(): number {
  return strategy.stats.succeeded;
}

function progressLine(): string {
  const seconds = ((performance.now() - started) / 1000).toFixed(0).padStart(4);
  return `${seconds} s   published ${devices.published}   stored and acknowledged ${acknowledged()}   status ${strategy.state}`;
}

/** From Pulsar itself, or from a reader of its protocol that shares no code with the package. */
async function readBack(): Promise<StoredPayload[]> {
  if (args.pulsarUrl === undefined && embedded !== undefined) return embedded.read(TOPIC);
  return (await readTopic(pulsarUrl, TOPIC)).map((message) => message.payload.toString('utf8'));
}

async function stop(beforeBrokers: () => Promise<void> = async () => undefined): Promise<void> {
  if (stopping) return;
  stopping = true;
  clearInterval(progress);
  clearInterval(watch);
  console.log(progressLine());
  await devices.close();
  await app.close();
  await beforeBrokers();
  await embedded?.stop();
}
