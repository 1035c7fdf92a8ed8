import { type HandlerFigures } from '../crash/markers.js';
import { type SabotageName } from '../crash/sabotage-names.js';
import { type MqttWire, type PulsarWire } from '../wire/index.js';
import { FAIL_RATE } from './end-to-end-app.js';

/** What a run with all faults has left behind. Nothing in it is the product's word but `held` and `heapGrowth`. */
export interface RunRecord {
  /** Of publishing at least, and messages a second; the floors below follow from them. */
  readonly seconds: number;
  readonly rate: number;
  readonly concurrency: number;
  readonly receiveMaximum: number;
  readonly keepsToReceiveMaximum: boolean;

  /** Messages that the MQTT broker accepted from the devices, and publishes of theirs that failed. */
  readonly published: number;
  readonly refused: number;
  /** Read back from Pulsar. */
  readonly stored: number;
  readonly lost: readonly number[];
  /** How many of those lost the MQTT broker had delivered: the others it never gave to anybody. */
  readonly lostAfterDelivery: number;
  readonly duplicates: number;
  readonly deadLettered: readonly number[];
  readonly poison: number;

  // What the proxies saw.
  readonly mqtt: MqttWire['figures'];
  readonly pulsar: PulsarWire['figures'];
  readonly acknowledgedWithoutReceipt: readonly number[];
  readonly emittedAgain: readonly number[];

  readonly faults: {
    /** Cuts that met an open session. */
    readonly cuts: number;
    readonly unloads: number;
    readonly pulsarDownMs: number;
    readonly receiptsWhileDown: number;
    /** Handlers that ran at each kill. */
    readonly runningAtKill: readonly number[];
  };

  /** Of each process. */
  readonly handlers: readonly HandlerFigures[];
  /** Un-acknowledged messages that each process held at most, and what it may hold. */
  readonly held: readonly { readonly most: number; readonly allowed: number }[];
  readonly heapGrowth: number;
  /** What else went wrong. */
  readonly troubles: readonly string[];
}

/** Growth of the heap from the last kill to the end, in which nothing is to be kept. */
const HEAP_GROWTH = 48 * 1024 * 1024;

/** Promises that were broken, and faults that were not there: a run without its faults proves nothing. */
export function violationsOf(run: RunRecord): string[] {
  return [...brokenPromises(run), ...missingFaults(run), ...run.troubles].filter(
    (violation) => typeof violation === 'string',
  );
}

function brokenPromises(run: RunRecord): (string | false)[] {
  const { mqtt, pulsar } = run;
  const needless = run.deadLettered.filter((id) => id !== run.poison);
  const maxRunning = most(run);
  return [
    run.lost.length > 0 && `lost: ${list(run.lost)} (${run.lostAfterDelivery} of them were delivered)`,
    run.acknowledgedWithoutReceipt.length > 0 &&
      `acknowledged without a receipt: ${list(run.acknowledgedWithoutReceipt)}`,
    mqtt.outOfOrder > 0 && `${mqtt.outOfOrder} acknowledgements out of order`,
    mqtt.unknown > 0 && `${mqtt.unknown} acknowledgements of nothing`,
    run.emittedAgain.length > 0 && `emitted again without a delivery since: ${list(run.emittedAgain)}`,
    maxRunning > run.concurrency && `${maxRunning} handlers ran at a time, ${run.concurrency} are allowed`,
    mqtt.receiveMaximum !== run.receiveMaximum &&
      `CONNECT asked for a Receive Maximum of ${mqtt.receiveMaximum} instead of ${run.receiveMaximum}`,
    run.keepsToReceiveMaximum &&
      mqtt.maxUnacknowledged > run.receiveMaximum &&
      `${mqtt.maxUnacknowledged} un-acknowledged messages at a time, Receive Maximum is ${run.receiveMaximum}`,
    ...run.held.map(
      ({ most, allowed }, index) =>
        most > allowed && `process ${index + 1} held ${most} un-acknowledged messages, the bound is ${allowed}`,
    ),
    run.heapGrowth > HEAP_GROWTH && `the heap grew by ${run.heapGrowth} bytes`,
    !run.deadLettered.includes(run.poison) && `message ${run.poison} was not dead-lettered`,
    needless.length > 0 && `dead-lettered without need: ${list(needless)}`,
    mqtt.malformed + pulsar.malformed > 0 && 'malformed bytes from the product',
  ];
}

function missingFaults(run: RunRecord): (string | false)[] {
  const { faults, mqtt, pulsar, handlers } = run;
  // While Pulsar is down the app stops reading, and does not notice that its link is cut: there is no second cut then.
  const cuts = Math.max(1, Math.floor(run.seconds / 10));
  const unloads = cuts;
  // An unload meets a producer only if it has come back from the one before.
  const closed = Math.max(1, Math.floor(run.seconds / 20));
  const downMs = run.seconds * 250;
  const started = handlers.reduce((sum, one) => sum + one.started, 0);
  const failed = handlers.reduce((sum, one) => sum + one.failed, 0);
  const share = failed / Math.max(1, started);
  return [
    faults.cuts < cuts && `${faults.cuts} of at least ${cuts} cuts met an open link`,
    faults.unloads < unloads && `the topic was unloaded ${faults.unloads} of at least ${unloads} times`,
    pulsar.closedProducers < closed &&
      `the broker closed the producer ${pulsar.closedProducers} of at least ${closed} times`,
    faults.pulsarDownMs < downMs && `Pulsar was down for ${faults.pulsarDownMs} of at least ${downMs} ms`,
    faults.receiptsWhileDown > 0 && `${faults.receiptsWhileDown} receipts while Pulsar was down`,
    faults.runningAtKill.length !== 2 && `${faults.runningAtKill.length} of 2 kills`,
    faults.runningAtKill.includes(0) && `a kill met no running handler: ${faults.runningAtKill.join(', ')}`,
    mqtt.redelivered === 0 && 'nothing was redelivered',
    mqtt.resumed === 0 && 'no session was resumed',
    Math.abs(share - FAIL_RATE) > 0.015 && `${failed} of ${started} runs threw, expected about ${FAIL_RATE * 100} %`,
    handlers.every((one) => one.poisoned === 0) && 'the poison message never ran',
    most(run) < run.concurrency && `at most ${most(run)} handlers ran at a time, ${run.concurrency} were to be reached`,
    run.published < run.seconds * run.rate &&
      `${run.published} of at least ${run.seconds * run.rate} messages were published`,
    3 * Math.min(mqtt.firstQos1, mqtt.firstQos2) < mqtt.firstQos1 + mqtt.firstQos2 &&
      `${mqtt.firstQos1} messages came with QoS 1 and ${mqtt.firstQos2} with QoS 2, expected about as many`,
    run.refused > 0 && `${run.refused} publishes of devices failed`,
  ];
}

/** The figures of the last line. */
export function resultOf(run: RunRecord): Readonly<Record<string, number>> {
  return {
    published: run.published,
    stored: run.stored,
    deadLettered: run.deadLettered.length,
    lost: run.lost.length,
    duplicates: run.duplicates,
    acknowledgedWithoutReceipt: run.acknowledgedWithoutReceipt.length,
    outOfOrderAcknowledgements: run.mqtt.outOfOrder,
    maxRunning: most(run),
    maxUnacknowledged: run.mqtt.maxUnacknowledged,
    kills: run.faults.runningAtKill.length,
    runningAtKill: run.faults.runningAtKill.reduce((sum, running) => sum + running, 0),
    redelivered: run.mqtt.redelivered,
    heapGrowthBytes: run.heapGrowth,
  };
}

/** The violation that says what a sabotage did, and not what followed from it. */
export const SEEN_AS: Readonly<Record<SabotageName, RegExp>> = {
  'acknowledge-first': /^acknowledged without a receipt: /,
  'drop-one': /^lost: /,
  'swap-two': /^\d+ acknowledgements out of order$/,
  'double-run': /^emitted again without a delivery since: /,
};

const most = (run: RunRecord): number => Math.max(0, ...run.handlers.map((one) => one.maxRunning));
const list = (ids: readonly number[]): string =>
  ids.length > 20 ? `${ids.slice(0, 20).join(', ')} and ${ids.length - 20} more` : ids.join(', ');
