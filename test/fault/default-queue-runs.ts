import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { Mosquitto, scratchFolder } from '../brokers/index.js';
import { type AppConfig } from '../crash/app-config.js';
import { recordMqtt, type WiredBrokers } from '../crash/brokers-with-wires.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { untilDone } from '../crash/progress.js';
import { compare, type MqttWire, readTopic } from '../wire/index.js';
import { endToEndApp } from './end-to-end-app.js';

/** `max_queued_messages` of mosquitto where nobody sets it: over it the newest are dropped without a sign. */
const QUEUE = 1_000;
/** As README recommends: with the quarter more until it is noticed, well under the queue divided by the rate. */
const stalledAfter = (rate: number): number => (0.5 * QUEUE * 1000) / rate;
const FIRST_ID = { failing: 100_000, silent: 200_000 };

/** Every handler fails: the status must say `stalled` before the broker begins to drop. */
export async function failingHandlersRun(brokers: WiredBrokers): Promise<string[]> {
  return onDefaultQueue(
    brokers,
    'failing-handlers',
    { failRate: 1, retries: 0, redeliverAfterMs: 5000 },
    async (run) => {
      const sent = await run.devices.publish(
        FIRST_ID.failing,
        2 * QUEUE,
        100,
        () => run.stalled() || run.waiting >= QUEUE,
      );
      await run.devices.settled();
      console.log(`default queue, failing handlers: ${run.app.status} after ${sent} messages, ${run.waiting} waiting`);
      await run.app.kill();
      return [
        !run.stalled() && `failing handlers: ${run.app.status} with the broker's queue full (${run.waiting} waiting)`,
      ];
    },
  );
}

/**
 * Pulsar is stopped with its connections open while `rate` messages a second come: handlers neither fail nor end. The
 * status must say `stalled`, and the health be down, before the broker's queue is full; when Pulsar goes on, both must come
 * back, and nothing be lost.
 */
export async function silentPulsarRun(brokers: WiredBrokers, rate: number): Promise<string[]> {
  const { evidence, pulsar } = brokers;
  return onDefaultQueue(brokers, 'silent-pulsar', { failRate: 0, stalledAfterMs: stalledAfter(rate) }, async (run) => {
    const { app, devices } = run;
    const acknowledged = (): boolean => devices.allIn(evidence.acknowledged);
    let next = FIRST_ID.silent;
    next += await devices.publish(next, rate, rate);
    await untilDone('messages before the silence', acknowledged, () => evidence.acknowledged.size, 20_000);
    await untilDone('the status before the silence', run.connected, () => app.statuses.length, 20_000);
    run.forget();
    pulsar.pause();
    const silentSince = Date.now();
    // What was on its way when it was stopped has arrived by then.
    let receipts = 0;
    setTimeout(() => (receipts = brokers.pulsarWire.figures.receipts), 300);
    let atStall: number | undefined;
    next += await devices.publish(next, 4 * QUEUE, rate, () => {
      if (run.stalled()) atStall ??= run.waiting;
      return atStall !== undefined || run.waiting >= QUEUE;
    });
    const silentMs = Date.now() - silentSince;
    const answers = brokers.pulsarWire.figures.receipts - receipts;
    const full = run.waiting;
    pulsar.resume();
    const told = `${app.status} after ${silentMs} ms of silence, ${atStall ?? full} messages waiting at the broker`;
    console.log(`default queue, silent Pulsar, stalledAfter ${stalledAfter(rate)}: ${told}`);

    const failed: string[] = [];
    const note = (error: Error): void => void failed.push(`silent Pulsar: ${error.message}`);
    await devices.settled();
    await untilDone('the status after the silence', run.connected, () => evidence.acknowledged.size, 30_000).catch(
      note,
    );
    await devices.publish(next, rate, rate);
    await devices.settled();
    await untilDone('messages', acknowledged, () => evidence.acknowledged.size, 30_000).catch(note);
    await untilDone('the status at the end', run.connected, () => app.statuses.length, 10_000).catch(note);
    const dropped = await run.dropped();
    console.log(`default queue, silent Pulsar: ${app.status} when it answers again, the broker has dropped ${dropped}`);
    await app.close().catch(note);
    const stored = await readTopic(pulsar.directUrl, run.topic, { stayAtUrl: true });
    const { lost } = compare(devices.accepted, stored);
    return [
      atStall === undefined && `silent Pulsar: ${told}, and no status 'stalled' with the health down`,
      atStall !== undefined && atStall >= QUEUE && `silent Pulsar: ${told}: its queue was full`,
      answers > 0 && `silent Pulsar: it gave ${answers} receipts`,
      atStall !== undefined && atStall < 0.2 * QUEUE && `silent Pulsar: only ${atStall} messages were waiting`,
      dropped !== 0 && `silent Pulsar: the broker dropped ${dropped} messages`,
      lost.length > 0 && `silent Pulsar, lost: ${lost.slice(0, 20).join(', ')}`,
      ...failed,
    ];
  });
}

interface QueueRun {
  readonly app: ChildApp;
  readonly devices: Devices;
  readonly topic: string;
  /** Messages that the broker may hold and has not delivered: what was handed to it, without what the wire has seen. */
  readonly waiting: number;
  /** `stalled`, and the health down, since the start or the last `forget()`. */
  stalled(): boolean;
  /** The last word: `connected`, and the health up. */
  connected(): boolean;
  forget(): void;
  /** Messages that the broker says it has dropped; undefined: it says nothing. */
  dropped(): Promise<number | undefined>;
}

async function onDefaultQueue(
  brokers: WiredBrokers,
  name: string,
  own: Partial<AppConfig>,
  scenario: (run: QueueRun) => Promise<(string | false)[]>,
): Promise<string[]> {
  const mosquitto = await Mosquitto.start({ queue: 'defaults', settings: ['sys_interval 1'] });
  const wire = await recordMqtt(mosquitto, brokers.evidence);
  const topic = `persistent://public/default/${name}`;
  const markers = join(scratchFolder(name), 'markers');
  const app = await ChildApp.start(
    endToEndApp(brokers, { topic, markers, concurrency: 64, receiveMaximum: 128, mqttUrl: wire.url, ...own }),
  );
  const devices = await Devices.connect(mosquitto.url);
  try {
    const violations = await scenario(queueRun(app, devices, topic, wire, mosquitto.url));
    return violations.filter((violation) => typeof violation === 'string');
  } finally {
    await app.kill();
    await devices.close();
    await wire.proxy.close();
    await mosquitto.kill();
  }
}

function queueRun(app: ChildApp, devices: Devices, topic: string, wire: MqttWire, url: string): QueueRun {
  let from = 0;
  return {
    app,
    devices,
    topic,
    get waiting() {
      return devices.published - wire.figures.firstQos1 - wire.figures.firstQos2;
    },
    stalled: () => app.statuses.slice(from).some(({ status, health }) => status === 'stalled' && health === 'down'),
    connected: () => app.statuses.at(-1)?.status === 'connected' && app.statuses.at(-1)?.health === 'up',
    forget: () => void (from = app.statuses.length),
    dropped: () => droppedAt(url),
  };
}

/** What mosquitto says it has dropped, over all clients. */
async function droppedAt(url: string): Promise<number | undefined> {
  const client = await connectAsync(url, { clientId: `drops-${process.pid}` });
  // Said again every second when it has changed, and retained: the last of two seconds counts.
  let dropped: number | undefined;
  client.on('message', (_topic, payload) => (dropped = Number(payload)));
  await client.subscribeAsync('$SYS/broker/publish/messages/dropped');
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  await client.endAsync();
  return dropped;
}
