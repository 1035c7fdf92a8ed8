/** One seeded schedule: the whole strategy, its handlers, a wire and a broker, a step at a time under a virtual clock. */
import { Logger } from '@nestjs/common';
import { type Packet } from 'mqtt-packet';
import { type MqttDelivery } from '../../../lib/mqtt/index.js';
import { MqttServerStrategy } from '../../../lib/nest/mqtt-server.strategy.js';
import { GrantingBroker, ModelWire } from '../model-wire.js';
import { type ModelBroker } from '../session/model-broker.js';
import { check } from '../session/observer.js';
import { SeededRandom } from '../session/random.js';
import { VirtualClock } from './virtual-clock.js';

const TOPICS = ['t/a', 't/b', 't/c'];

interface Run {
  readonly uid: number;
  readonly end: (error?: Error) => void;
}

/** A message as the client got it, in this session. */
interface Received {
  readonly uid: number;
  readonly topic: string;
  readonly epoch: number;
}

export class StrategyWorld {
  readonly random: SeededRandom;
  readonly strategy: MqttServerStrategy;
  readonly log: string[] = [];
  readonly seen = new Map<string, number>();

  private readonly clock: VirtualClock;
  private readonly broker: GrantingBroker;
  private readonly wire: ModelWire;
  private readonly concurrency: number;
  private readonly ordered: boolean;
  private readonly failRate: number;
  private nextUid = 1;

  // what is known from outside
  /** Rises with every session. */
  private epoch = 0;
  private readonly running: Run[] = [];
  /** In the order in which the client got them for the first time in a session. */
  private readonly received: Received[] = [];
  private readonly succeeded = new Set<number>();
  /** QoS 2: successes in this session. */
  private readonly succeededHere = new Set<number>();
  private healed = false;
  /** Seen inside of a handler's call, where an error would count as a failure of the handler. */
  private violation: string | undefined = undefined;
  private listening: Promise<unknown> = Promise.resolve();

  constructor(seed: number) {
    const random = new SeededRandom(seed);
    this.random = random;
    this.clock = new VirtualClock(() => random.next());
    this.concurrency = 1 + random.below(4);
    this.ordered = random.chance(0.6);
    this.failRate = random.pick([0, 0.2, 0.5]);
    const version = random.chance(0.5) ? 5 : 4;
    this.broker = new GrantingBroker(
      {
        version,
        setsDup: true,
        shufflesRedelivery: random.chance(0.2),
        overruns: random.chance(0.2),
        resends: random.chance(0.3),
        receiveMaximum: 10,
        topicAliasMaximum: 0,
      },
      random,
    );
    this.note(JSON.stringify(this.broker.traits));
    this.wire = new ModelWire(this.broker, {
      fromClient: (packet) => this.fromClient(packet),
      toClient: (packet) => this.toClient(packet),
      dialled: () => this.note('dial', true),
    });
    this.strategy = new MqttServerStrategy({
      url: 'mqtt://model:1',
      clientId: 'model',
      protocolVersion: version,
      qos: 2,
      receiveMaximum: random.pick([3, 8, 20]),
      concurrency: this.concurrency,
      order: this.ordered ? 'topic' : 'none',
      handlerTimeout: 0,
      redeliverAfter: 500,
      keepAlive: 0,
      failure: { retry: { attempts: random.pick([1, 1, 3]) } },
      clock: this.clock,
      dialer: () => (handlers) => this.wire.dial(handlers),
    });
    this.strategy.addHandler('t/+', (data: Buffer) => this.handle(data) as never, true, {});
  }

  async start(): Promise<void> {
    this.listening = new Promise((resolve) => this.strategy.listen(resolve));
    const { client } = this.strategy;
    const handOut = client.onDelivery;
    client.onDelivery = (delivery) => {
      this.reach(delivery);
      handOut?.(delivery);
    };
    for (let turn = 0; turn < 10; turn++) {
      await this.settle();
      this.wire.exchange(100);
    }
    check((await this.listening) === undefined, 'listen() failed');
  }

  /** A random step. */
  async step(): Promise<void> {
    const { random } = this;
    const dice = random.next();
    if (dice < 0.22) this.publish();
    else if (dice < 0.55) this.wire.exchange(1 + random.below(4));
    else if (dice < 0.8) this.endOne(random.chance(this.failRate));
    else if (dice < 0.94) await this.clock.pass(random.below(400), () => this.settle());
    else if (dice < 0.97) this.cut('cut');
    else if (dice < 0.98) {
      this.wire.loseSession();
      this.cut('session lost');
    } else if (this.broker.traits.resends) this.broker.resendOne();
    await this.settle();
    this.checkRunning();
  }

  /** Everything is well again: whatever the client has got must end in a success, and the broker must be rid of it. */
  async finish(): Promise<void> {
    this.healed = true;
    for (let turn = 0; turn < 400; turn++) {
      this.wire.exchange(100);
      while (this.running.length > 0) this.endOne(false);
      await this.settle();
      this.wire.exchange(100);
      await this.clock.pass(300, () => this.settle());
      this.checkRunning();
      if (turn > 20 && this.isDone()) break;
    }
    const open = this.received.filter(({ uid }) => !this.succeeded.has(uid));
    check(open.length === 0, `messages ${open.map(({ uid }) => uid).join(', ')} were received and never handled`);
    check(this.isDone(), `the broker is left with ${this.broker.inflight.size} messages under way`);
    const closed = this.strategy.close();
    for (let turn = 0; turn < 5; turn++) {
      await this.settle();
      this.wire.exchange(100);
      await this.clock.pass(1000, () => this.settle());
    }
    await closed;
  }

  private isDone(): boolean {
    return this.broker.connected && this.broker.inflight.size === 0 && this.broker.queue.length === 0;
  }

  private note(what: string, count = false): void {
    this.log.push(`${this.clock.now()} ${what}`);
    if (count) this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  /** Every promise reaction and everything planned for the end of the turn. */
  private settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  // The broker's side

  private publish(): void {
    if (!this.broker.hasSession) return;
    const uid = this.nextUid++;
    const topic = this.random.pick(TOPICS);
    this.broker.queue.push({ uid, topic, payload: String(uid), qos: this.random.pick([1, 2] as const) });
    this.broker.pump();
    this.note(`publish ${uid} to ${topic}`);
  }

  private toClient({ cmd, bytes, message }: ModelBroker['out'][number]): void {
    if (cmd === 'connack') this.newSession(bytes);
    if (message !== undefined && this.known(message.uid)) this.note('copy', true);
  }

  /** Which session it is, as far as the client knows. */
  private newSession(connack: Buffer): void {
    if ((connack[2] & 1) === 1) return;
    this.epoch += 1;
    this.succeededHere.clear();
  }

  private known(uid: number): boolean {
    return this.received.some((one) => one.uid === uid && one.epoch === this.epoch);
  }

  /** The client hands a message out. */
  private reach({ message }: MqttDelivery): void {
    const uid = Number(message.payload.toString());
    if (!this.known(uid)) this.received.push({ uid, topic: message.topic, epoch: this.epoch });
  }

  private fromClient(packet: Packet): void {
    const { broker } = this;
    // A copy sent on the same connection can cross its PUBACK; the one for the copy then hits whatever the broker has given
    // the identifier to since. Nothing can be done about that here.
    if (!broker.traits.resends && (packet.cmd === 'puback' || packet.cmd === 'pubrec')) {
      const entry = broker.inflight.get(packet.messageId ?? 0);
      // A repeated PUBREC after the end of the exchange stands for nothing.
      if (entry !== undefined) {
        const { uid } = entry.message;
        check(this.succeeded.has(uid), `M1: ${packet.cmd} for message ${uid}, which no handler has finished`);
      }
    }
  }

  private cut(what: string): void {
    if (!this.wire.connected) return;
    this.note(what, true);
    this.wire.cut();
  }

  // The handlers' side

  private handle(data: Buffer): Promise<void> {
    const uid = Number(data.toString());
    if (this.running.some((run) => run.uid === uid)) this.violation ??= `message ${uid} runs twice at the same time`;
    this.note(`run ${uid}`);
    return new Promise((resolve, reject) => {
      this.running.push({ uid, end: (error) => (error === undefined ? resolve() : reject(error)) });
      const running = this.running.length;
      if (running > this.concurrency) this.violation ??= `M6: ${running} handlers run, allowed are ${this.concurrency}`;
    });
  }

  private endOne(failing: boolean): void {
    if (this.running.length === 0) return;
    const [run] = this.running.splice(this.random.below(this.running.length), 1);
    this.note(failing ? 'failure' : 'success', true);
    this.note(`end ${run.uid} ${failing ? 'badly' : 'well'}`);
    if (!failing) this.success(run.uid);
    run.end(failing ? new Error('by chance') : undefined);
  }

  private success(uid: number): void {
    const place = this.received.findIndex((one) => one.uid === uid);
    const mine = this.received[place];
    if (this.ordered && !this.succeeded.has(uid)) {
      const before = this.received
        .slice(0, place)
        .find((one) => one.topic === mine.topic && one.epoch === mine.epoch && !this.succeeded.has(one.uid));
      check(
        before === undefined,
        `M9: ${uid} of ${mine.topic} succeeded before ${before?.uid}, which was received first`,
      );
    }
    const entry = [...this.broker.inflight.values()].find(({ message }) => message.uid === uid);
    if (entry?.message.qos === 2) {
      check(!this.succeededHere.has(uid), `M8: the QoS 2 message ${uid} succeeded twice in one session`);
      this.succeededHere.add(uid);
    }
    this.succeeded.add(uid);
  }

  private checkRunning(): void {
    check(this.violation === undefined, this.violation ?? '');
    check(this.strategy.gate.runningCount <= this.concurrency, 'M6: more places are taken than there are');
    if (this.healed) return;
    if (this.strategy.state === 'stalled') this.seen.set('stalled', (this.seen.get('stalled') ?? 0) + 1);
  }
}

/** The handlers that fail on purpose would fill the log. */
export function silence(): void {
  Logger.overrideLogger(false);
}
