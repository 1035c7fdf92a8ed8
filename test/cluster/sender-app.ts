/**
 * The producers under test, as their own process: numbered messages to several topics in turn, at a steady rate.
 * Configuration in `SENDER_CONFIG`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createDialer, describeEndpoint, type Dialer, type Endpoint } from '../../lib/net/index.js';
import { PulsarClient, type PulsarProducer } from '../../lib/pulsar/index.js';
import {
  type Command,
  commandOf,
  FrameSplitter,
  Type,
} from '../../sample/01-mqtt-to-pulsar/src/verify/pulsar-frames.js';
import { type SenderConfig, type SenderReport, type SenderRequest } from './sender-messages.js';

const config = JSON.parse(process.env['SENDER_CONFIG'] ?? '{}') as SenderConfig;
const report = (message: SenderReport): void => void process.send?.(message);
if (config.sabotage !== undefined) (await import('../crash/sabotage.js')).sabotageProducer(config.sabotage);

process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection in the producer under test', error);
  process.exit(70);
});

/** `LookupType.Redirect` of PulsarApi.proto. */
const REDIRECT = 0;
/** So many messages to one topic, then to the next one: neighbours are to be in one topic, so that their order shows. */
const RUN = 7;
const seen = { redirects: 0, closedProducers: 0, assigned: 0 };
const connections: Record<string, number> = {};
const client = new PulsarClient({ url: config.url, dialer: listening, keepAlive: 5000, operationTimeout: 5000 });
const producers = await Promise.all(config.topics.map((topic) => client.createProducer({ topic })));
let sent = 0;
let unsettled = 0;
let stopping = false;
const resolved = new Set<number>();
const rejected = new Map<number, string>();

process.on('message', (request: SenderRequest) => void answer(request));
report({ kind: 'ready' });

async function answer(request: SenderRequest): Promise<void> {
  switch (request.kind) {
    case 'start':
      return run();
    case 'stop':
      stopping = true;
      for (const deadline = Date.now() + request.graceMs; unsettled > 0 && Date.now() < deadline;) await sleep(20);
      return report({
        kind: 'stopped',
        ...{ sent, hung: unsettled, resolved: [...resolved], rejected: [...rejected], ...seen, connections },
      });
    case 'probe': {
      const first = sent;
      for (let index = 0; index < request.count; index++) send();
      await sleep(500);
      return report({ kind: 'probed', resolved: [...resolved].filter((number) => number >= first) });
    }
  }
}

async function run(): Promise<void> {
  for (const started = performance.now(); !stopping; await sleep(2)) {
    const due = ((performance.now() - started) / 1000) * config.rate;
    while (sent < due) send();
  }
}

function send(): void {
  const number = sent++;
  const producer: PulsarProducer = producers[Math.floor(number / RUN) % producers.length];
  unsettled++;
  producer
    .send({ payload: Buffer.from(`{"id":${number},"pad":"${'x'.repeat(80)}"}`) })
    .then(
      () => resolved.add(number),
      (error: Error) => rejected.set(number, error.message),
    )
    .finally(() => unsettled--);
}

/** Our own dialer, with an ear on what the broker says; decoded with protobufjs. */
function listening(endpoint: Endpoint): Dialer {
  const broker = describeEndpoint(endpoint);
  const dial = createDialer(endpoint, { connectTimeout: 5000 });
  return (handlers) => {
    const splitter = new FrameSplitter();
    return dial({
      onOpen: () => {
        connections[broker] = (connections[broker] ?? 0) + 1;
        handlers.onOpen();
      },
      onData: (chunk) => {
        for (const frame of splitter.push(Buffer.from(chunk))) hear(commandOf(frame));
        handlers.onData(chunk);
      },
      onDrain: () => handlers.onDrain(),
      onClose: (error) => handlers.onClose(error),
    });
  };
}

function hear(command: Command): void {
  if (command.type === Type.LOOKUP_RESPONSE && command['lookupTopicResponse'].response === REDIRECT) seen.redirects++;
  if (command.type !== Type.CLOSE_PRODUCER) return;
  seen.closedProducers++;
  if (command['closeProducer'].assignedBrokerServiceUrl !== undefined) seen.assigned++;
}
