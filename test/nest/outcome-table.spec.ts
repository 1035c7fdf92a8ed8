import { MqttClientProxy, PulsarClientProxy } from '../../lib/index.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';
import {
  DeadLetterTarget,
  FailingHandlers,
  PolicyHandlers,
  RequestHandlers,
  stage,
  SucceedingHandlers,
} from './support/outcome-handlers.js';
import { type OutcomeRow, outcomeRows, type WireAnswer } from './support/outcome-table.js';
import { holdPubacks } from './support/requester.js';

/** One message that a row of README's table speaks of. */
interface Scenario {
  readonly topic: string;
  /** What the cells name, and how the spec lets it happen. */
  readonly event?: readonly [words: string, happen: (played: Play) => unknown];
  /** Where the cells say "with the code". */
  readonly code?: number;
  /** It comes with a Response Topic (MQTT 5), or as a retained one, or with its expiry over. */
  readonly asks?: boolean;
  readonly retained?: boolean;
  readonly expired?: boolean;
  /** A message before it in the same lane, acknowledged before it. */
  readonly behind?: string;
  readonly deadLetterTargetDown?: boolean;
  /** A strategy of its own. */
  readonly strategy?: Partial<MqttServerOptions>;
}

const topics = (...names: string[]): Scenario[] => names.map((topic) => ({ topic }));
let acceptPublishes: () => void = () => undefined;
const receipt = (): void => {
  pulsarBroker.releaseReceipts();
  acceptPublishes();
};
const work = (): void => stage.work.open();
const deadLetter = ["the dead letter's receipt", () => stage.deadLetterReceipt.open()] as const;
const accepted = (words: string) => [words, () => acceptPublishes()] as const;
const rejecting = (topic: string, code: number): Scenario => ({ topic, code });
/** Where the filter that no handler has comes from: an earlier version could have left it in the session. */
const unmatched = (policy: 'hold' | 'acknowledge' | 'deadLetter'): Scenario => ({
  topic: 'nobody',
  strategy: { unmatched: policy },
  ...(policy === 'deadLetter' && { event: deadLetter }),
});

/** The first column of README's tables, and what is played for it. */
const ROWS: Readonly<Record<string, readonly Scenario[]>> = {
  'the handler returns a value or nothing, fulfils its promise, completes its Observable': [
    ...topics('value', 'promise', 'observable', 'empty'),
  ],
  'its promise or Observable ends later': [
    { topic: 'ends-later', event: ['its end', work] },
    { topic: 'completes-later', event: ['its end', work] },
  ],
  'an exception filter turns the error into a value': topics('filter-value'),
  'it emits through `PulsarClientProxy` or `MqttClientProxy`, awaited or not': [
    { topic: 'emit-pulsar', event: ['every receipt', receipt] },
    { topic: 'emit-pulsar-returned', event: ['every receipt', receipt] },
    { topic: 'emit-mqtt', event: ['every receipt', receipt] },
  ],
  'it emits a record with `holdsAcknowledgement: false`': [
    { topic: 'emit-pulsar-loose', event: ['the receipt', receipt] },
    { topic: 'emit-mqtt-loose', event: ['the receipt', receipt] },
  ],
  '`context.waitUntil(work)`': [{ topic: 'wait-until', event: ['the work', work] }],
  '`handle = context.detach()`': [
    { topic: 'detach', event: ['`handle.acknowledge()`', () => stage.handle?.acknowledge()] },
  ],
  'a batch handler ends': [{ topic: 'batch', event: ['the batch', work] }],
  'several handlers match': [{ topic: 'both', event: ['all of them', work] }],
  'a message before it is not acknowledged yet': [
    { topic: 'value', behind: 'ends-later', event: ['the one before it', work] },
  ],
  "it is a retained message, and the handler skips those (`retained: 'skip'`)": [{ topic: 'retained', retained: true }],
  'the handler throws, rejects, its Observable errors; a filter rethrows or decides nothing; a guard refuses; a pipe or an interceptor throws':
    topics(
      'throws',
      'rejects',
      'errors',
      'errors-late',
      'filter-rethrows',
      'filter-undecided',
      'guard',
      'pipe',
      'interceptor',
      'ours',
    ),
  'work given to `waitUntil()` fails; `handle.fail(error)`; `batch.fail(index, error)` for that message; a batch handler throws':
    topics('wait-until-fails', 'handle-fails', 'batch-fails', 'batch-throws'),
  'it does not end within `handlerTimeout` (60 s), or only after it; a handle is not used within `detachTimeout` (5 min)':
    topics('never', 'too-late', 'handle-unused'),
  'an emit fails: no receipt within a `sendTimeout`, too large, or the topic takes none any more (terminated, fenced)':
    topics('emit-times-out', 'emit-too-large', 'emit-terminated', 'emit-awaited'),
  'the payload cannot be decoded: no run': topics('undecodable'),
  'the policy retries, or `context.retryLater(ms)`': [
    ...['retried', 'later', 'decided'].map((topic) => ({ topic, event: ['the last run', work] as const })),
  ],
  'policy `discard`': topics('discard', 'discard-after-retries', 'discard-undecodable', 'discard-timeout'),
  'policy `reject`, or `context.reject(code)`': [
    rejecting('reject', 0x99),
    rejecting('reject-by-hand', 0x97),
    rejecting('reject-decided', 0x87),
  ],
  'policy `deadLetter`, or `context.deadLetter(reason)`': [
    { topic: 'dead', event: deadLetter },
    { topic: 'dead-by-hand', event: deadLetter },
  ],
  'the dead-letter target does not take it': [{ topic: 'dead', deadLetterTargetDown: true }],
  'policy `halt`: the intake stops': [
    {
      topic: 'halt',
      event: [
        '`resume()`, which runs it again',
        () => {
          stage.broken = false;
          running.strategy.resume();
        },
      ],
    },
  ],
  'a request handler ends (MQTT 5)': [
    { topic: 'request', asks: true, event: accepted('the broker has accepted the reply') },
    { topic: 'request/empty', asks: true, event: accepted('the broker has accepted the reply') },
  ],
  'a request handler fails (MQTT 5), policy `redeliver`: it is answered, not run again': [
    { topic: 'request/fails', asks: true, event: accepted('the broker has accepted the error reply') },
    { topic: 'request/late', asks: true, event: accepted('the broker has accepted the error reply') },
  ],
  'a request handler fails (MQTT 5), policy `discard`': [
    { topic: 'request/discard', asks: true, event: accepted('the broker has accepted the error reply') },
  ],
  'a request handler fails (MQTT 5), policy `reject`, or `context.reject(code)`': [
    { topic: 'request/reject', asks: true, code: 0x99, event: accepted('the broker has accepted the error reply') },
    { topic: 'request/by-hand', asks: true, code: 0x97, event: accepted('the broker has accepted the error reply') },
  ],
  'a request handler fails (MQTT 5), policy `deadLetter`': [
    {
      topic: 'request/dead',
      asks: true,
      event: [
        "the error reply and the dead letter's receipt",
        async (played) => {
          acceptPublishes();
          await quiet();
          expect(played.acknowledgements()).toEqual([]);
          stage.deadLetterReceipt.open();
        },
      ],
    },
  ],
  'a request is older than its expiry before its handler starts (MQTT 5): no run': [
    { topic: 'request', asks: true, expired: true },
  ],
  'a request handler gets a message without a Response Topic': topics('request', 'request/empty'),
  "no handler matches, `unmatched: 'hold'`": [unmatched('hold')],
  "no handler matches, `unmatched: 'deadLetter'`": [unmatched('deadLetter')],
  "no handler matches, `unmatched: 'acknowledge'`": [unmatched('acknowledge')],
};

const HANDLERS = [SucceedingHandlers, FailingHandlers, PolicyHandlers, RequestHandlers];
const rows = outcomeRows();

let running: RunningApp;
let pulsarBroker: InMemoryPulsarBroker;
const target = new DeadLetterTarget();

it('README has a row for every scenario, and the other way round', () => {
  expect(rows.map(({ what }) => what)).toEqual(Object.keys(ROWS));
});

describe.each([5, 4] as const)('MQTT %i', (version) => {
  let shared: RunningApp;
  let mqttBroker: InMemoryMqttBroker;

  const start = (strategy: Partial<MqttServerOptions> = {}, broker?: InMemoryMqttBroker): Promise<RunningApp> =>
    startApp(HANDLERS, {
      ...(broker !== undefined && { broker }),
      strategy: {
        protocolVersion: version,
        deadLetter: { client: target, pattern: 'dead' },
        redeliverAfter: 20,
        reconnect: { initial: 5, max: 20 },
        qos: 2,
        ...strategy,
      },
    });

  beforeAll(async () => {
    pulsarBroker = await InMemoryPulsarBroker.start();
    mqttBroker = await InMemoryMqttBroker.start();
    stage.pulsar = new PulsarClientProxy({ url: pulsarBroker.url });
    stage.impatientPulsar = new PulsarClientProxy({ url: pulsarBroker.url, producer: { sendTimeout: 20 } });
    stage.mqtt = new MqttClientProxy({ url: mqttBroker.url, protocolVersion: version });
    pulsarBroker.terminate('terminated');
    shared = await start();
  });
  afterAll(async () => {
    await shared.close();
    await stage.mqtt.close();
    await stage.pulsar.close();
    await stage.impatientPulsar.close();
    await mqttBroker.close();
    await pulsarBroker.close();
  });

  const cases = rows
    .filter(({ what }) => version === 5 || !what.includes('(MQTT 5)'))
    .flatMap((row) => (ROWS[row.what] ?? []).map((scenario) => [row.what, scenario.topic, row, scenario] as const));

  describe.each([1, 2, 0] as const)('QoS %i', (qos) => {
    let own: RunningApp | undefined;
    const restore: (() => void)[] = [];
    beforeEach(() => stage.reset());
    afterEach(async () => {
      for (const stop of restore.splice(0)) stop();
      await own?.close();
      own = undefined;
    });

    /** The strategy of the scenario, with nothing under way, and the message published. */
    async function play(scenario: Scenario): Promise<Play> {
      const { topic, behind, asks, retained, expired } = scenario;
      const published = { qos, ...(asks && { properties: { responseTopic: 'answers' } }) };
      stage.deadLetterTargetDown = scenario.deadLetterTargetDown === true;
      pulsarBroker.holdReceipts('out');
      pulsarBroker.holdReceipts('silent');
      if (retained) {
        const broker = await InMemoryMqttBroker.start();
        restore.push(() => void broker.close());
        broker.publish(topic, 'x', { qos, retain: true });
        own = await start({}, broker);
        running = own;
        return new Play(running, topic, 0, version, {});
      }
      if (scenario.strategy !== undefined) {
        own = await start(scenario.strategy);
        await own.strategy.unwrap<MqttClient>().subscribe([{ filter: topic, qos: 2 }]);
      }
      running = own ?? shared;
      const { broker, strategy } = running;
      acceptPublishes = holdPubacks(asks ? broker : mqttBroker);
      restore.push(acceptPublishes);
      if (expired) {
        restore.push(
          broker.onSend((packet) =>
            packet.cmd === 'publish'
              ? { ...packet, properties: { ...packet.properties, messageExpiryInterval: 0 } }
              : undefined,
          ),
        );
      }
      const played = new Play(running, topic, broker.log.position, version, { ...strategy.stats }, behind);
      if (behind !== undefined) broker.publish(behind, 'x', { qos });
      broker.publish(topic, 'x', published);
      return played;
    }

    it.each(cases)('%s: %s', async (_what, _topic, row, scenario) => {
      const played = await play(scenario);
      if (qos === 0) await playQos0(played, row, scenario);
      else await playAcknowledged(played, qos === 1 ? row.qos1 : row.qos2, row, scenario);
      expect(running.broker.violations).toEqual([]);
    });
  });
});

async function playAcknowledged(played: Play, answer: WireAnswer, row: OutcomeRow, scenario: Scenario): Promise<void> {
  if (answer.kind === 'kept') {
    await playKept(played, answer.next, row);
    return;
  }
  const { event } = answer;
  expect(event).toBe(scenario.event?.[0]);
  const code = answer.code ?? scenario.code;
  if (code === undefined) throw new Error(`'${row.what}': no scenario of ${scenario.topic} has a code`);
  if (answer.order === 'after') {
    await played.received();
    if (row.counted === 'held') await until(() => played.counted('held') > 0);
    await quiet();
    expect(played.acknowledgements()).toEqual([]);
    await scenario.event![1](played);
  }
  await played.acknowledged(answer.packet, code);
  if (answer.order === 'before') await scenario.event![1](played);
  await quiet();
  played.expectAcknowledged(answer.packet, code);
  expect(played.counted(row.counted)).toBeGreaterThan(0);
  expect(played.counted('reconnects')).toBe(0);
  if (scenario.asks && event !== undefined) played.expectReplyFirst(answer.packet);
}

/** It fails at least twice, is never acknowledged for it, and is once the cause is gone. */
async function playKept(
  played: Play,
  next: Extract<WireAnswer, { kind: 'kept' }>['next'],
  row: OutcomeRow,
): Promise<void> {
  const { running, topic } = played;
  const { strategy, broker } = running;
  await until(() => played.counted(row.counted) >= 1, `${row.counted} of ${topic}`);
  await until(() => strategy.state === 'stalled' && strategy.health().status === 'down');
  if (next === 'kept') {
    // Several times `redeliverAfter`.
    await settled(100);
    expect(played.copies()).toHaveLength(1);
    expect(played.acknowledgements()).toEqual([]);
    expect(played.connects()).toBe(0);
    return;
  }
  await until(() => played.counted(row.counted) >= 2, `${row.counted} of ${topic}, again`);
  expect(played.acknowledgements()).toEqual([]);
  stage.broken = false;
  stage.deadLetterReceipt.open();
  const packet = played.copies()[0].qos === 1 ? 'puback' : 'pubrec';
  await played.acknowledged(packet, 0);
  await quiet();
  played.expectAcknowledged(packet, 0);
  const redelivered = next === 'then redelivered';
  expect(played.counted('reconnects') > 0).toBe(redelivered);
  expect(played.connects()).toBe(played.counted('reconnects'));
  expect(
    played
      .copies()
      .slice(1)
      .every(({ dup }) => dup),
  ).toBe(true);
  expect(played.copies().length > 1).toBe(redelivered);
  // A controlled reconnect says goodbye, and keeps the session.
  expect(broker.log.received('disconnect', { since: played.since })).toHaveLength(played.connects());
  await until(() => strategy.state === 'connected');
}

async function playQos0(played: Play, row: OutcomeRow, scenario: Scenario): Promise<void> {
  const { event, asks } = scenario;
  const { qos1 } = row;
  if (qos1.kind === 'acknowledged' && qos1.order === 'after') {
    await played.received();
    if (row.counted === 'held') await until(() => played.counted('held') > 0);
    await quiet();
    // Replies to a QoS 0 request have QoS 0 themselves: no broker accepts those.
    if (!asks) expect(played.counted(row.qos0)).toBe(scenario.behind === undefined ? 0 : 1);
    await event![1](played);
  }
  await until(() => played.counted(row.qos0) > 0, `${row.qos0} of ${scenario.topic}`);
  stage.broken = false;
  stage.deadLetterReceipt.open();
  await quiet();
  expect(played.acknowledgements()).toEqual([]);
  expect(played.connects()).toBe(0);
  await until(() => running.strategy.state === 'connected');
}

/** What happened to one message, seen on the wire. */
class Play {
  constructor(
    readonly running: RunningApp,
    readonly topic: string,
    readonly since: number,
    private readonly version: 4 | 5,
    private readonly before: Partial<Record<string, number>>,
    private readonly behind?: string,
  ) {}

  counted(name: string): number {
    const now = (this.running.strategy.stats as unknown as Record<string, number>)[name];
    if (now === undefined) throw new Error(`the stats have no ${name}`);
    return now - (this.before[name] ?? 0);
  }

  async received(): Promise<void> {
    await until(() => this.counted('received') >= (this.behind === undefined ? 1 : 2));
  }

  copies(topic = this.topic) {
    return this.running.broker.log.sent('publish', { since: this.since }).filter((packet) => packet.topic === topic);
  }

  connects(): number {
    return this.running.broker.log.received('connect', { since: this.since }).length - (this.since === 0 ? 1 : 0);
  }

  /** The bytes of every PUBACK and PUBREC, in order. */
  acknowledgements(): string[] {
    return this.running.broker.log.entries
      .filter(({ order, direction, type }) => order >= this.since && direction === 'in' && ANSWERS.has(type))
      .map(({ bytes }) => bytes.toString('hex'));
  }

  async acknowledged(packet: 'puback' | 'pubrec', code: number): Promise<void> {
    const count = this.expected(packet, code).length;
    await this.running.broker.log.waitForReceived(packet, count, { since: this.since });
  }

  expectAcknowledged(packet: 'puback' | 'pubrec', code: number): void {
    const expected = this.expected(packet, code);
    expect(this.acknowledgements()).toEqual(expected);
    // QoS 2 goes on only after a PUBREC below 0x80 [MQTT-4.3.3-9].
    const completes = packet === 'pubrec' && (this.version === 4 || code < 0x80);
    const done = this.running.broker.log.received('pubcomp', { since: this.since });
    expect(done).toHaveLength(completes ? expected.length : 0);
  }

  /** The reply was accepted before the request was acknowledged. */
  expectReplyFirst(packet: 'puback' | 'pubrec'): void {
    const entries = this.running.broker.log.entries.filter(({ order }) => order >= this.since);
    const reply = entries.findIndex(({ type, direction }) => type === 'puback' && direction === 'out');
    const request = entries.findIndex(({ type, direction }) => type === packet && direction === 'in');
    expect(reply).toBeGreaterThanOrEqual(0);
    expect(reply).toBeLessThan(request);
  }

  private expected(packet: 'puback' | 'pubrec', code: number): string[] {
    const messages = [...(this.behind === undefined ? [] : [this.behind]), this.topic];
    return messages.map((topic) => bytesOf(packet, this.version, this.copies(topic).at(-1)?.messageId ?? 0, code));
  }
}

/** Long enough for what is on its way in a socket of this machine: this table has many rows. */
const quiet = (): Promise<void> => settled(8);
const ANSWERS: ReadonlySet<string> = new Set(['puback', 'pubrec']);

function bytesOf(kind: 'puback' | 'pubrec', version: 4 | 5, packetId: number, code: number): string {
  const first = kind === 'puback' ? 0x40 : 0x50;
  const id = [packetId >> 8, packetId & 0xff];
  // MQTT 5 leaves the reason code 0x00 out [3.4.2.1, 3.5.2.1]; 3.1.1 has none.
  const packet = version === 4 || code === 0 ? [first, 2, ...id] : [first, 3, ...id, code];
  return Buffer.from(packet).toString('hex');
}
