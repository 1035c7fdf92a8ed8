/**
 * `npm run test:cluster [-- --seconds 60] [--rate N] [--seed N] [--load-manager modular|extensible] [--sabotage NAME]`:
 * producers go on sending while their topics are moved between two real brokers, one broker is killed and the other
 * restarted. The last line is JSON with the true figures; exit 1 on any violation.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type ClusterBroker, PulsarCluster } from '../brokers/index.js';
import { checkSabotage } from '../crash/sabotage-names.js';
import { CrossReader } from '../cross/reader.js';
import { type ReportingChild, startReportingChild } from '../fault/reporting-child.js';
import { idOf, readTopic, seededRandom, type StoredMessage } from '../wire/index.js';
import { type SenderConfig, type SenderReport, type SenderRequest } from './sender-messages.js';
import { verdict } from './verdict.js';

const MANAGERS = {
  modular: 'org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl',
  extensible: 'org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl',
} as const;
const TOPICS = Array.from({ length: 6 }, (_, index) => `persistent://public/default/moving-${index}`);
const GRACE_MS = 60_000;
const PROBES = 60;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '1000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    'load-manager': { type: 'string', default: 'modular' },
    sabotage: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const manager = values['load-manager'];
if (!Object.hasOwn(MANAGERS, manager)) {
  throw new Error(`--load-manager ${manager}: expected one of ${Object.keys(MANAGERS).join(', ')}`);
}
const sabotage = checkSabotage(values.sabotage);
const started = Date.now();
const say = (what: string): void => console.log(`${((Date.now() - started) / 1000).toFixed(1).padStart(6)} s  ${what}`);
console.log(
  `cluster test, ${seconds} s, seed ${values.seed}, load manager ${manager}${sabotage ? `, ${sabotage}` : ''}`,
);
process.exit((await run()) ? 0 : 1);

async function run(): Promise<boolean> {
  const cluster = await PulsarCluster.start({
    settings: { loadManagerClassName: MANAGERS[manager as keyof typeof MANAGERS] },
  });
  say('two brokers serve');
  const sender = await startSender({
    url: cluster.url,
    topics: TOPICS,
    rate: Number(values.rate),
    ...(sabotage !== undefined && { sabotage }),
  });
  try {
    sender.tell({ kind: 'start' });
    const faults = await plantFaults(cluster);
    say('the faults are over');
    const outcome = await sender.ask({ kind: 'stop', graceMs: GRACE_MS }, 'stopped');
    say('every send is settled, or never will be');
    // No broker answers any more: what resolves now has no receipt.
    for (const broker of cluster.brokers) broker.pause();
    const probed = await sender.ask({ kind: 'probe', count: PROBES }, 'probed');
    await sender.kill();
    for (const broker of cluster.brokers) broker.resume();
    const stored: StoredMessage[][] = [];
    for (const topic of TOPICS) stored.push(await readTopic(cluster.brokers[0].url, topic));
    say('everything is read back');
    const confirmed = await confirm(cluster.url, stored);
    say('and once more by the Go client');
    const passed = verdict(outcome, probed.resolved, stored, {
      ...faults,
      seconds,
      evidence: manager === 'extensible' ? 'assigned' : 'redirects',
    });
    return passed && confirmed;
  } finally {
    await sender.kill();
    await cluster.kill();
  }
}

/** The reader that the verdict is based on knows the protocol only from us: Pulsar's own client must see the same. */
async function confirm(url: string, stored: readonly (readonly StoredMessage[])[]): Promise<boolean> {
  const reader = await CrossReader.go(url);
  try {
    for (const [index, topic] of TOPICS.entries()) {
      const seen = await reader.read({ topic, count: stored[index].length });
      const ids = seen.map(({ payload }) => idOf(Buffer.from(payload ?? '', 'base64')));
      const differs = stored[index].findIndex(({ payload }, at) => idOf(payload) !== ids[at]);
      if (differs < 0) continue;
      console.log(`VIOLATION the Go client reads another message at ${differs} of ${topic}`);
      return false;
    }
    return true;
  } catch (error) {
    console.log(`VIOLATION ${(error as Error).message}`);
    return false;
  } finally {
    await reader.close();
  }
}

/** Moves topics all the time; early on kills a broker, and when it is back restarts the other one in good order. */
async function plantFaults(cluster: PulsarCluster): Promise<{ moves: number; kills: number; restarts: number }> {
  const random = seededRandom(Number(values.seed));
  const end = Date.now() + seconds * 1000;
  const outages = [
    { at: end - seconds * 850, broker: cluster.brokers[0], how: 'kill' as const },
    { at: end - seconds * 550, broker: cluster.brokers[1], how: 'stop' as const },
  ];
  const done = { moves: 0, kills: 0, restarts: 0 };
  let outage: Promise<void> | undefined;
  // Both outages happen, and topics move for a while after the last one, however slow the machine is.
  for (let calm = 0; Date.now() < end || calm < 5; calm += outages.length === 0 && outage === undefined ? 1 : 0) {
    await sleep(300 + random() * 700);
    const due = outages[0];
    if (due !== undefined && outage === undefined && Date.now() >= due.at) {
      outages.shift();
      say(`${due.how} of ${due.broker.id}`);
      outage = takeDown(cluster, due.broker, due.how).then(() => {
        say(`${due.broker.id} is back`);
        outage = undefined;
      });
      done[due.how === 'kill' ? 'kills' : 'restarts']++;
    }
    const topic = TOPICS[Math.floor(random() * TOPICS.length)];
    try {
      await cluster.move(topic, outage === undefined ? await otherThanOwner(cluster, topic) : undefined);
      done.moves++;
    } catch (error) {
      // While a broker is down: nowhere to move to, or the owner is not there to be asked.
      if (outage === undefined) console.log(`a move failed: ${(error as Error).message}`);
    }
  }
  return done;
}

async function otherThanOwner(cluster: PulsarCluster, topic: string): Promise<ClusterBroker | undefined> {
  const owner = await cluster.owner(topic);
  return cluster.brokers.find((broker) => broker !== owner);
}

async function takeDown(cluster: PulsarCluster, broker: ClusterBroker, how: 'kill' | 'stop'): Promise<void> {
  await broker[how]();
  // Longer than the others need to notice and take over.
  await sleep(8000);
  await broker.launch();
  await cluster.settled();
}

function startSender(config: SenderConfig): Promise<ReportingChild<SenderRequest, SenderReport>> {
  return startReportingChild('sender', 'cluster/sender-app.js', { SENDER_CONFIG: JSON.stringify(config) });
}
