import { type RunRecord, resultOf, SEEN_AS, violationsOf } from './verdict.js';

const handlers = { started: 1000, ended: 950, failed: 49, poisoned: 1, running: 0, maxRunning: 64 };
const good: RunRecord = {
  seconds: 60,
  rate: 500,
  concurrency: 64,
  receiveMaximum: 128,
  keepsToReceiveMaximum: true,
  published: 30_000,
  refused: 0,
  stored: 29_999,
  lost: [],
  lostAfterDelivery: 0,
  duplicates: 300,
  deadLettered: [77],
  poison: 77,
  mqtt: {
    delivered: 40_000,
    firstQos1: 15_000,
    firstQos2: 15_000,
    redelivered: 10_000,
    acknowledged: 30_000,
    rejected: 0,
    outOfOrder: 0,
    unknown: 0,
    maxUnacknowledged: 128,
    malformed: 0,
    disconnectsByClient: 2,
    resumed: 12,
    receiveMaximum: 128,
  },
  pulsar: {
    sends: 4000,
    sentMessages: 30_300,
    receipts: 4000,
    deduplicated: 0,
    sendErrors: 0,
    closedProducers: 12,
    malformed: 0,
  },
  acknowledgedWithoutReceipt: [],
  emittedAgain: [],
  faults: {
    cuts: 10,
    unloads: 12,
    pulsarDownMs: 20_000,
    receiptsWhileDown: 0,
    runningAtKill: [3, 12],
  },
  handlers: [handlers, { ...handlers, poisoned: 0, failed: 50 }],
  held: [
    { most: 300, allowed: 3000 },
    { most: 9000, allowed: 12_000 },
  ],
  heapGrowth: -4_000_000,
  troubles: [],
};
const mqtt = (change: Partial<RunRecord['mqtt']>): Partial<RunRecord> => ({ mqtt: { ...good.mqtt, ...change } });
const faults = (change: Partial<RunRecord['faults']>): Partial<RunRecord> => ({
  faults: { ...good.faults, ...change },
});

it('a run with its faults and without a broken promise passes', () => {
  expect(violationsOf(good)).toEqual([]);
  expect(resultOf(good)).toEqual({
    published: 30_000,
    stored: 29_999,
    deadLettered: 1,
    lost: 0,
    duplicates: 300,
    acknowledgedWithoutReceipt: 0,
    outOfOrderAcknowledgements: 0,
    maxRunning: 64,
    maxUnacknowledged: 128,
    kills: 2,
    runningAtKill: 15,
    redelivered: 10_000,
    heapGrowthBytes: -4_000_000,
  });
});

it.each<[string, Partial<RunRecord>]>([
  // Promises.
  ['lost: 4, 9 (1 of them were delivered)', { lost: [4, 9], lostAfterDelivery: 1 }],
  ['acknowledged without a receipt: 5', { acknowledgedWithoutReceipt: [5] }],
  ['2 acknowledgements out of order', mqtt({ outOfOrder: 2 })],
  ['1 acknowledgements of nothing', mqtt({ unknown: 1 })],
  ['emitted again without a delivery since: 6', { emittedAgain: [6] }],
  ['65 handlers ran at a time, 64 are allowed', { handlers: [handlers, { ...handlers, maxRunning: 65 }] }],
  ['129 un-acknowledged messages at a time, Receive Maximum is 128', mqtt({ maxUnacknowledged: 129 })],
  ['CONNECT asked for a Receive Maximum of 65535 instead of 128', mqtt({ receiveMaximum: 65_535 })],
  [
    'process 2 held 12001 un-acknowledged messages, the bound is 12000',
    { held: [good.held[0], { most: 12_001, allowed: 12_000 }] },
  ],
  ['the heap grew by 60000000 bytes', { heapGrowth: 60_000_000 }],
  ['message 77 was not dead-lettered', { deadLettered: [] }],
  ['dead-lettered without need: 78', { deadLettered: [77, 78] }],
  ['malformed bytes from the product', mqtt({ malformed: 1 })],
  ['the app did not end', { troubles: ['the app did not end'] }],
  // Faults.
  ['5 of at least 6 cuts met an open link', faults({ cuts: 5 })],
  ['the topic was unloaded 5 of at least 6 times', faults({ unloads: 5 })],
  ['the broker closed the producer 2 of at least 3 times', { pulsar: { ...good.pulsar, closedProducers: 2 } }],
  ['Pulsar was down for 14999 of at least 15000 ms', faults({ pulsarDownMs: 14_999 })],
  ['3 receipts while Pulsar was down', faults({ receiptsWhileDown: 3 })],
  ['1 of 2 kills', faults({ runningAtKill: [4] })],
  ['a kill met no running handler: 12, 0', faults({ runningAtKill: [12, 0] })],
  ['nothing was redelivered', mqtt({ redelivered: 0 })],
  ['no session was resumed', mqtt({ resumed: 0 })],
  ['0 of 1000 runs threw, expected about 5 %', { handlers: [{ ...handlers, failed: 0 }] }],
  ['the poison message never ran', { handlers: [{ ...handlers, poisoned: 0 }] }],
  ['at most 63 handlers ran at a time, 64 were to be reached', { handlers: [{ ...handlers, maxRunning: 63 }] }],
  [
    '30000 messages came with QoS 1 and 0 with QoS 2, expected about as many',
    mqtt({ firstQos1: 30_000, firstQos2: 0 }),
  ],
  ['29999 of at least 30000 messages were published', { published: 29_999 }],
  ['7 publishes of devices failed', { refused: 7 }],
])('says "%s"', (violation, change) => {
  expect(violationsOf({ ...good, ...change })).toEqual([violation]);
});

it('more than the Receive Maximum is no violation on a broker that does not keep to it', () => {
  expect(violationsOf({ ...good, ...mqtt({ maxUnacknowledged: 13_000 }), keepsToReceiveMaximum: false })).toEqual([]);
});

it('knows each sabotage by the violation that says what it did', () => {
  const seen = Object.entries(SEEN_AS).map(([name, pattern]) => [
    name,
    violationsOf({
      ...good,
      ...mqtt({ outOfOrder: 2, unknown: 1 }),
      lost: [4],
      acknowledgedWithoutReceipt: [5],
      emittedAgain: [6],
    }).filter((violation) => pattern.test(violation)),
  ]);
  expect(Object.fromEntries(seen)).toEqual({
    'acknowledge-first': ['acknowledged without a receipt: 5'],
    'drop-one': ['lost: 4 (0 of them were delivered)'],
    'swap-two': ['2 acknowledgements out of order'],
    'double-run': ['emitted again without a delivery since: 6'],
  });
});
