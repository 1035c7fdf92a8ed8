/**
 * The producer under test, as its own process. It sends numbered messages at a steady rate and reports what each promise
 * did; configuration in `PRODUCER_CONFIG`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { PulsarClient, type PulsarProducer } from '../../lib/pulsar/index.js';
import { type ProducerConfig, type ProducerReport, type ProducerRequest } from './producer-config.js';

const config = JSON.parse(process.env['PRODUCER_CONFIG'] ?? '{}') as ProducerConfig;
const report = (message: ProducerReport): void => void process.send?.(message);
if (config.sabotage !== undefined) (await import('../crash/sabotage.js')).sabotageProducer(config.sabotage);

process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection in the producer under test', error);
  process.exit(70);
});

const client = new PulsarClient({ url: config.url });
const producer = await client.createProducer({ topic: config.topic });
let sent = 0;
let unsettled = 0;
let again = 0;
let lastSettled = performance.now();
let longestPause = 0;
const resolved = new Set<number>();
const rejected = new Map<number, string>();

process.on('message', (request: ProducerRequest) => void answer(request));
report({ kind: 'ready' });

async function answer(request: ProducerRequest): Promise<void> {
  switch (request.kind) {
    case 'run':
      await run(request.seconds, request.rate);
      return settle(request.graceMs);
    case 'probe':
      return probe(request.count);
    case 'close':
      await producer.close();
      await client.close();
      report({ kind: 'closed' });
      process.disconnect();
  }
}

async function run(seconds: number, rate: number): Promise<void> {
  const started = performance.now();
  for (;;) {
    const elapsed = performance.now() - started;
    if (elapsed >= seconds * 1000) return;
    const due = Math.floor((elapsed / 1000) * rate);
    while (sent < due) send(producer, sent++);
    await sleep(2);
  }
}

/** Waits for every promise; what is still open after the grace time hangs. */
async function settle(graceMs: number): Promise<void> {
  const deadline = Date.now() + graceMs;
  while (unsettled > 0 && Date.now() < deadline) await sleep(20);
  report({
    kind: 'settled',
    sent,
    hung: unsettled,
    resolved: [...resolved],
    rejected: [...rejected],
    held: held(),
    again,
    connects: producer.stats.connects,
    resentFrames: producer.stats.resentFrames,
    longestPause: Math.round(longestPause),
  });
}

/** Sends over a link that lets nothing pass: no promise may resolve. */
async function probe(count: number): Promise<void> {
  const first = sent;
  for (let index = 0; index < count; index++) send(producer, sent++);
  await sleep(500);
  report({ kind: 'probed', resolved: [...resolved].filter((number) => number >= first) });
}

function send(to: PulsarProducer, number: number): void {
  if (unsettled === 0) lastSettled = performance.now();
  unsettled++;
  to.submit({ payload: Buffer.from(`{"id":${number},"pad":"${'x'.repeat(80)}"}`) }, (error) => {
    if (resolved.has(number) || rejected.has(number)) {
      again++;
      return;
    }
    if (error === undefined) resolved.add(number);
    else rejected.set(number, error.message);
    unsettled--;
    const now = performance.now();
    longestPause = Math.max(longestPause, now - lastSettled);
    lastSettled = now;
  });
}

function held(): { permits: number; bytes: number; line: number; memory: number } {
  const { pendingMessages, pendingBytes, waitingMessages } = producer.stats;
  return { permits: pendingMessages, bytes: pendingBytes, line: waitingMessages, memory: client.memory.used };
}
