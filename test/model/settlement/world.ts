/** One seeded schedule of what follows failures: policies, letters and replies that take their time, on a link that is cut. */
import { type ClientProxy } from '@nestjs/microservices';
import { type Packet } from 'mqtt-packet';
import { from, Observable } from 'rxjs';
import { type FailureDecision } from '../../../lib/nest/failure-policy.js';
import { type MqttMessageContext } from '../../../lib/nest/mqtt-message.context.js';
import { MqttServerStrategy } from '../../../lib/nest/mqtt-server.strategy.js';
import { check } from '../session/observer.js';
import { SeededRandom } from '../session/random.js';
import { VirtualClock } from '../strategy/virtual-clock.js';
import { HandlerOfMessage, MessageOfModel, type Verdict } from './message.js';
import { GrantingBroker, ModelWire } from '../model-wire.js';

/** Something outside that has not ended yet. */
interface Open {
  end(): void;
}

const DECISIONS = ['retry', 'redeliver', 'deadLetter', 'reject', 'discard', 'halt'] as const;
const REJECTED = 0x97;

export class SettlementWorld {
  readonly log: string[] = [];
  readonly seen = new Map<string, number>();
  readonly strategy: MqttServerStrategy;

  private readonly random: SeededRandom;
  private readonly clock: VirtualClock;
  private readonly broker: GrantingBroker;
  private readonly wire: ModelWire;
  private readonly concurrency: number;
  private readonly messages = new Map<number, MessageOfModel>();
  private readonly reached = new Set<number>();
  private nextUid = 1;

  // what is open outside
  private readonly runs: Open[] = [];
  private readonly policies: Open[] = [];
  private readonly letters: Open[] = [];
  private healed = false;
  private closing: Promise<void> | undefined = undefined;
  private violation: Error | undefined = undefined;

  constructor(seed: number) {
    const random = new SeededRandom(seed);
    this.random = random;
    this.clock = new VirtualClock(() => random.next());
    this.concurrency = 1 + random.below(4);
    const version = random.chance(0.5) ? 5 : 4;
    this.broker = new GrantingBroker(
      {
        version,
        setsDup: true,
        shufflesRedelivery: random.chance(0.2),
        overruns: false,
        // A copy on the same connection can cross its PUBACK; the session's model has those.
        resends: false,
        receiveMaximum: random.pick([1, 10]),
        topicAliasMaximum: 0,
      },
      random,
    );
    this.wire = new ModelWire(this.broker, {
      fromClient: (packet) => this.fromClient(packet),
      lost: (packet) => this.lostOfClient(packet),
    });
    this.strategy = new MqttServerStrategy({
      url: 'mqtt://model:1',
      clientId: 'model',
      protocolVersion: version,
      envelope: 'nest',
      qos: 2,
      receiveMaximum: random.pick([3, 8, 20]),
      concurrency: this.concurrency,
      order: random.chance(0.3) ? 'topic' : 'none',
      handlerTimeout: 0,
      redeliverAfter: 500,
      shutdownTimeout: 1_000,
      keepAlive: 0,
      ...(random.chance(0.3) && { publishQueue: { maxMessages: 1 } }),
      deadLetter: { client: this.target(), pattern: 'dead' },
      clock: this.clock,
      dialer: () => (handlers) => this.wire.dial(handlers),
    });
    for (const name of ['t/+', 't/e', 't/r']) {
      const handle = (uid: number, context: MqttMessageContext): unknown => this.run(uid, name, context);
      const extras = { failure: (failed: { error: unknown }) => this.decide(failed.error, name) };
      this.strategy.addHandler(name, handle as never, name !== 't/r', extras);
    }
  }

  async start(): Promise<void> {
    const listening = new Promise((resolve) => this.strategy.listen(resolve));
    for (let turn = 0; turn < 10; turn++) await this.turn();
    check((await listening) === undefined, 'listen() failed');
  }

  async step(): Promise<void> {
    const { random } = this;
    const dice = random.next();
    if (dice < 0.15) this.publish();
    else if (dice < 0.45) this.wire.exchange(1 + random.below(4));
    else if (dice < 0.6) this.endOne(this.runs);
    else if (dice < 0.68) this.endOne(this.policies);
    else if (dice < 0.78) this.endOne(this.letters);
    else if (dice < 0.92) await this.clock.pass(random.below(400), () => this.settle());
    else if (dice < 0.95) this.cut(true);
    else if (dice < 0.96) this.cut(false);
    else if (dice < 0.99) this.resume();
    else if (random.chance(0.2)) this.end();
    await this.settle();
    this.rethrow();
    check(this.strategy.gate.runningCount <= this.concurrency, 'M6: more places are taken than there are');
  }

  /** Everything outside goes well again: what came must be settled, or the strategy is closed and leaves the rest. */
  async finish(): Promise<void> {
    this.healed = true;
    for (let turn = 0; turn < 600; turn++) {
      for (const open of [this.runs, this.policies, this.letters]) while (open.length > 0) open.shift()!.end();
      this.resume();
      await this.turn();
      if (turn > 20 && this.isDone() && this.unsettled().length === 0) break;
    }
    if (this.closing === undefined) {
      const open = this.unsettled();
      check(open.length === 0, `messages ${open.join(', ')} came and are not settled: ${this.describe(open[0])}`);
      check(this.isDone(), `the broker is left with ${this.broker.inflight.size} messages under way`);
      check(this.strategy.openRounds === 0, `${this.strategy.openRounds} rounds are open`);
      const { runningCount, waitingCount, keyCount } = this.strategy.gate;
      check(runningCount + waitingCount + keyCount === 0, 'places or keys are still taken');
      this.closing = this.strategy.close();
    }
    const { closing } = this;
    let closed = false;
    void closing.then(() => (closed = true));
    for (let turn = 0; turn < 60 && !closed; turn++) await this.turn();
    check(closed, 'close() does not end');
  }

  private async turn(): Promise<void> {
    await this.settle();
    this.wire.exchange(100);
    await this.clock.pass(300, () => this.settle());
    this.wire.exchange(100);
    await this.settle();
    this.rethrow();
  }

  private isDone(): boolean {
    const { broker } = this;
    return this.closing !== undefined || (broker.connected && broker.inflight.size === 0 && broker.queue.length === 0);
  }

  /** What came to the client and is not done, unless close() leaves it. */
  private unsettled(): number[] {
    if (this.closing !== undefined) return [];
    return [...this.reached].filter((uid) => !this.messages.get(uid)!.handlers.every(({ settled }) => settled));
  }

  private describe(uid: number | undefined): string {
    return uid === undefined ? '' : JSON.stringify(this.messages.get(uid)!.handlers);
  }

  private note(what: string, count = what): void {
    this.log.push(`${this.clock.now()} ${what}`);
    this.seen.set(count, (this.seen.get(count) ?? 0) + 1);
  }

  private settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  private publish(): void {
    if (!this.broker.hasSession || this.closing !== undefined) return;
    const uid = this.nextUid++;
    const topic = this.random.pick(['t/e', 't/r']);
    this.messages.set(uid, this.message(uid, topic));
    // To an event handler it is an event with an id, which no one minds.
    const payload = JSON.stringify({ pattern: topic, data: uid, id: String(uid) });
    this.broker.queue.push({ uid, topic, payload, qos: this.random.pick([1, 2] as const) });
    this.broker.pump();
    this.note(`publish ${uid} to ${topic}`, 'publish');
  }

  private cut(keepSession: boolean): void {
    if (!this.wire.connected) return;
    if (!keepSession) this.wire.loseSession();
    this.wire.cut();
    this.note(keepSession ? 'cut' : 'session lost');
  }

  private resume(): void {
    if (this.strategy.state !== 'halted') return;
    this.note('resume');
    this.strategy.resume();
  }

  /** close() or destroy() with whatever is open. */
  private end(): void {
    if (this.closing !== undefined) return;
    const gentle = this.random.chance(0.6);
    this.note(gentle ? 'close' : 'destroy');
    if (gentle) this.closing = this.strategy.close();
    else {
      this.strategy.destroy();
      this.closing = Promise.resolve();
    }
  }

  private endOne(open: Open[]): void {
    if (open.length > 0) open.splice(this.random.below(open.length), 1)[0].end();
  }

  // The client's packets

  private fromClient(packet: Packet): void {
    this.observe(() => this.watch(packet));
  }

  private watch(packet: Packet): void {
    if (packet.cmd === 'publish') {
      const { id, err } = JSON.parse(packet.payload.toString()) as { id: string; err?: unknown };
      const isError = err !== undefined;
      const handler = this.handler(Number(id), 't/r');
      // A copy of what came already is the same reply.
      const known = packet.dup && (isError ? handler.errors : handler.values) > 0;
      if (!known) handler.replied(`reply to ${id}`, isError);
      this.note(`${isError ? 'error' : 'value'} for ${id}`, isError ? 'error reply' : 'value');
    }
    if (packet.cmd !== 'puback' && packet.cmd !== 'pubrec') return;
    const entry = this.broker.inflight.get(packet.messageId ?? 0);
    if (entry === undefined || entry.released) return;
    this.note(`${packet.cmd} ${entry.message.uid}`, 'acknowledgement');
    this.messages.get(entry.message.uid)!.acknowledged(packet.reasonCode ?? 0, this.broker.traits.version);
  }

  /** What was written is done with here: the broker's next copy is a new message, but for QoS 2 [MQTT-4.3.3-9]. */
  private lostOfClient(packet: Packet): void {
    if (packet.cmd !== 'puback' && !(packet.cmd === 'pubrec' && (packet.reasonCode ?? 0) >= 0x80)) return;
    const entry = this.broker.inflight.get(packet.messageId ?? 0);
    if (entry === undefined) return;
    const { uid, topic } = entry.message;
    this.messages.set(uid, this.message(uid, topic));
    this.reached.delete(uid);
    this.note(`${packet.cmd} ${uid} is lost`, 'acknowledgement lost');
  }

  /** What is seen inside of the strategy's calls is thrown outside of them: it would count as a failure of a handler there. */
  private observe(what: () => void): void {
    try {
      what();
    } catch (error) {
      this.violation ??= error as Error;
    }
  }

  private rethrow(): void {
    if (this.violation !== undefined) throw this.violation;
  }

  private message(uid: number, topic: string): MessageOfModel {
    const handlers = ['t/+', topic].map((name) => new HandlerOfMessage(name, name === 't/r'));
    return new MessageOfModel(uid, topic, handlers);
  }

  // The handlers' side

  private handler(uid: number, name: string): HandlerOfMessage {
    return this.messages.get(uid)!.handlers.find((one) => one.name === name)!;
  }

  private run(uid: number, name: string, context: MqttMessageContext): Promise<unknown> {
    const handler = this.handler(uid, name);
    this.reached.add(uid);
    this.observe(() => handler.begin(`${name} of ${uid}`));
    this.note(`run ${name} of ${uid}`, 'run');
    return new Promise((resolve, reject) => {
      const end = (): void => {
        const dice = this.healed ? 0 : this.random.next();
        if (dice < 0.4) handler.verdict = 'succeeded';
        else if (dice < 0.75) handler.verdict = 'deciding';
        else {
          resolve(this.directing(uid, name, context));
          return;
        }
        this.note(`${name} of ${uid} ended: ${handler.verdict}`, `ended: ${handler.verdict}`);
        if (handler.verdict === 'deciding') reject(new Error(`${uid} ${name}`));
        else resolve(uid);
      };
      this.runs.push({ end });
    });
  }

  /** A value, the directive, another value: neither may leave. */
  private directing(uid: number, name: string, context: MqttMessageContext): Observable<unknown> {
    return new Observable((subscriber) => {
      subscriber.next(uid);
      const verdict = this.direct(uid, name, context);
      this.handler(uid, name).verdict = verdict;
      this.note(`${name} of ${uid} asked for ${verdict}`, `asked for ${verdict}`);
      subscriber.next(uid);
      // A value is held back for some microtasks, so that the last one can be told: the end comes after that.
      process.nextTick(() => subscriber.complete());
    });
  }

  private direct(uid: number, name: string, context: MqttMessageContext): Verdict {
    const verdict = this.random.pick(['retry', 'deadLetter', 'reject'] as const);
    if (verdict === 'retry') context.retryLater(this.random.below(300));
    else if (verdict === 'deadLetter') context.deadLetter(`${uid} ${name}`);
    else context.reject(REJECTED);
    return verdict;
  }

  /** The failure policy, at once or later. */
  private decide(error: unknown, name: string): FailureDecision | Promise<FailureDecision> {
    const decision = this.healed ? 'retry' : this.random.pick(DECISIONS);
    const said = /^(\d+) t/.exec((error as Error).message);
    // A value that could not be delivered: the handler itself has succeeded.
    if (said === null) return 'redeliver';
    const handler = this.handler(Number(said[1]), name);
    const decided = (): FailureDecision => {
      handler.verdict = decision;
      this.note(`${name} of ${said[1]} is to ${decision}`, decision);
      return decision === 'reject' ? { action: 'reject', reasonCode: REJECTED } : decision;
    };
    if (this.random.chance(0.5)) return decided();
    return new Promise((resolve) => this.policies.push({ end: () => resolve(decided()) }));
  }

  /** The dead-letter target. */
  private target(): ClientProxy {
    const emit = (_pattern: string, record: Record<string, string>): Observable<unknown> => {
      const said = record['dead-letter-error'] === 'undefined' ? undefined : record['dead-letter-error'];
      const [uid, name] = (said ?? record['dead-letter-reason']).split(' ');
      return from(
        new Promise<void>((resolve, reject) => {
          const end = (): void => {
            const taken = this.healed || this.random.chance(0.6);
            this.note(
              `letter of ${name} for ${uid} ${taken ? 'taken' : 'refused'}`,
              taken ? 'letter' : 'letter refused',
            );
            if (taken) this.observe(() => this.handler(Number(uid), name).letterTaken(`${name} of ${uid}`));
            if (taken) resolve();
            else reject(new Error('not now'));
          };
          this.letters.push({ end });
        }),
      );
    };
    return { emit } as unknown as ClientProxy;
  }
}
