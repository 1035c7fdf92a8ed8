import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, Pulsar } from '../brokers/index.js';
import { idOf, PulsarWire, readTopic, type StoredMessage } from '../wire/index.js';
import { type SabotageName } from '../crash/sabotage-names.js';
import { type ProducerConfig, type ProducerReport, type ProducerRequest } from './producer-config.js';
import { type ReportingChild, startReportingChild } from './reporting-child.js';

export interface ProducerFaultOptions {
  readonly seconds: number;
  readonly rate: number;
  readonly seed: number;
  readonly sabotage: SabotageName | undefined;
}

const TOPIC = 'persistent://public/default/producer-fault';
const PROBES = 100;

/**
 * A producer at `rate` messages a second through a proxy that cuts every 300 to 700 ms, with an unload of the topic every
 * second. Prints the figures as JSON in the last line; resolves to false on any violation.
 */
export async function pulsarProducerFault(options: ProducerFaultOptions): Promise<boolean> {
  const proxyPort = await freePort();
  const pulsar = await Pulsar.start({ advertisePort: proxyPort });
  const wire = await PulsarWire.start({ targetPort: pulsar.port, port: proxyPort });
  const producer = await startProducer({
    url: wire.url,
    topic: TOPIC,
    ...(options.sabotage === undefined ? {} : { sabotage: options.sabotage }),
  });
  let unloads = 0;
  try {
    wire.proxy.startCutting({ min: 300, max: 700, seed: options.seed });
    const settled = producer.ask(
      { kind: 'run', seconds: options.seconds, rate: options.rate, graceMs: 30_000 },
      'settled',
    );
    const end = Date.now() + options.seconds * 1000;
    while (Date.now() < end - 1000) {
      await sleep(1000);
      await pulsar.admin.unload(TOPIC).then(
        () => unloads++,
        (error: Error) => console.log(`unload failed: ${error.message}`),
      );
    }
    await sleep(Math.max(0, end - Date.now()));
    wire.proxy.stopCutting();
    const outcome = await settled;
    const cuts = wire.proxy.figures.cuts;
    // The link lets nothing pass any more: what resolves now has no receipt.
    wire.proxy.stall();
    const probed = await producer.ask({ kind: 'probe', count: PROBES }, 'probed');
    await producer.kill();
    wire.proxy.cut();
    const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
    const { malformed } = wire.figures;
    return verdict(outcome, probed.resolved, stored, { cuts, unloads, malformed, seconds: options.seconds });
  } finally {
    await producer.kill();
    await wire.proxy.close();
    await pulsar.kill();
  }
}

function verdict(
  outcome: Extract<ProducerReport, { kind: 'settled' }>,
  resolvedInStall: readonly number[],
  stored: readonly StoredMessage[],
  faults: { readonly cuts: number; readonly unloads: number; readonly malformed: number; readonly seconds: number },
): boolean {
  const resolved = new Set(outcome.resolved);
  const rejected = new Map(outcome.rejected);
  const frames = new Map<number, Set<string>>();
  let highest = -1;
  let outOfOrder = 0;
  let holes = 0;
  let inRun = 0;
  let previous = -1;
  for (const message of stored) {
    const id = idOf(message.payload);
    if (id < outcome.sent) inRun++;
    // What is sent again after a reconnect begins anywhere before, and goes on without a gap.
    if (id > previous + 1) holes++;
    previous = id;
    const known = frames.get(id);
    if (known !== undefined) {
      known.add(`${message.producerName}:${message.sequenceId}`);
      continue;
    }
    frames.set(id, new Set([`${message.producerName}:${message.sequenceId}`]));
    // First copies must be in the order of the calls; a repeated tail after a reconnect only adds copies.
    if (id < highest) outOfOrder++;
    highest = Math.max(highest, id);
  }
  const distinct = [...frames.keys()].filter((id) => id < outcome.sent).length;
  const lost = [...resolved, ...resolvedInStall].filter((id) => !frames.has(id));
  const twice = [...frames].filter(([, names]) => names.size > 1).map(([id]) => id);
  const unaccounted = outcome.sent - resolved.size - rejected.size - outcome.hung;
  const { permits, bytes, line, memory } = outcome.held;
  // A cut counts if it met an open connection: fewer than this, and the producer was away most of the time.
  const fewest = Math.floor(faults.seconds / 2);
  const violations = [
    lost.length > 0 && `resolved and not stored: ${lost.slice(0, 20).join(', ')}`,
    outOfOrder > 0 && `${outOfOrder} first copies behind a higher number`,
    outcome.hung > 0 && `${outcome.hung} promises never settled`,
    resolvedInStall.length > 0 && `${resolvedInStall.length} promises resolved while the link let nothing pass`,
    twice.length > 0 && `sent twice with different sequence ids: ${twice.slice(0, 20).join(', ')}`,
    unaccounted !== 0 && `${unaccounted} promises settled more or less than once`,
    faults.malformed > 0 && `${faults.malformed} frames with a wrong checksum`,
    outcome.again > 0 && `${outcome.again} calls settled a message once more`,
    rejected.size > 0 && `${rejected.size} sends rejected, although every fault passes and there is no send timeout`,
    outcome.hung === 0 &&
      permits + bytes + line + memory !== 0 &&
      `still held at the end: ${permits} permits, ${bytes} bytes, ${line} in line, ${memory} bytes of the memory limit`,
    holes > 0 && `${holes} gaps in what is stored, closed later or never`,
    faults.cuts < fewest && `${faults.cuts} of at least ${fewest} cuts met an open connection: reconnecting is slow`,
    faults.unloads === 0 && 'nothing was unloaded: this run proves nothing',
    outcome.sent === 0 && 'nothing was sent: this run proves nothing',
  ].filter((violation) => typeof violation === 'string');
  for (const violation of violations) console.log(`VIOLATION ${violation}`);
  for (const reason of new Set(rejected.values())) console.log(`rejected with: ${reason}`);
  console.log(
    JSON.stringify({
      sent: outcome.sent,
      resolved: resolved.size,
      rejected: rejected.size,
      stored: distinct,
      lost: lost.length,
      duplicates: inRun - distinct,
      outOfOrder,
      hung: outcome.hung,
      cuts: faults.cuts,
      unloads: faults.unloads,
      connects: outcome.connects,
      resentFrames: outcome.resentFrames,
      longestPauseMs: outcome.longestPause,
      held: permits + bytes + line + memory,
    }),
  );
  return violations.length === 0;
}

function startProducer(config: ProducerConfig): Promise<ReportingChild<ProducerRequest, ProducerReport>> {
  return startReportingChild('producer', 'fault/producer-app.js', { PRODUCER_CONFIG: JSON.stringify(config) });
}
