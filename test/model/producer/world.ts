import { ConnectionError, type TransportError } from '../../../lib/errors.js';
import { MemoryBudget } from '../../../lib/pulsar/protocol/memory-budget.js';
import { type ProducerAction } from '../../../lib/pulsar/protocol/producer-events.js';
import { ProducerState } from '../../../lib/pulsar/protocol/producer-state.js';
import { OpState, type SealedFrame, SendOp } from '../../../lib/pulsar/protocol/send-op.js';
import { BrokerError } from '../../../lib/pulsar/protocol/server-errors.js';
import { SeededRandom } from '../session/random.js';
import { ModelCodec, type ModelMessage, readFrame } from './frames.js';
import { type BrokerAnswer, ModelBroker } from './model-broker.js';

export class ModelSend extends SendOp<ModelMessage> {
  outcomes = 0;
  error: TransportError | undefined = undefined;
  deduplicated = false;
  /** Since when it is in an open batch of a link that is up. */
  batchedAt = Infinity;
}

interface ModelFlush {
  /** Messages submitted before it without an outcome then. */
  readonly covers: ModelSend[];
  outcomes: number;
}

type ClientEvent = BrokerAnswer | { readonly kind: 'brokerClose' } | { readonly kind: 'left' };

interface Link {
  readonly generation: number;
  phase: 'dialing' | 'queued' | 'up' | 'gone';
  /** Written, not yet read by the broker. */
  readonly toBroker: (Buffer | 'CLOSE_PRODUCER')[];
  /** Sent by the broker, not yet read by the client. */
  readonly toClient: ClientEvent[];
  /** The broker has closed the producer: it ignores what comes. */
  ignores: boolean;
  /** We have sent CLOSE_PRODUCER. */
  left: boolean;
  /** Position in `sealed` of the last frame written on it. */
  last: number;
}

const BACKOFF = { initial: 100, max: 5000, factor: 2 };
const OBJECT_BYTES = 200;

/** A producer core, a broker and the links between them; every random choice comes from the seed. */
export class World {
  readonly log: string[] = [];
  readonly seen = new Map<string, number>();
  readonly core: ProducerState<ModelSend>;
  readonly sends: ModelSend[] = [];
  /** Those without an outcome. */
  private readonly open = new Set<ModelSend>();

  private readonly random: SeededRandom;
  private readonly broker: ModelBroker;
  private readonly budget: MemoryBudget;
  private readonly links: Link[] = [];
  private readonly flushes: ModelFlush[] = [];
  private readonly sealed: SealedFrame<ModelSend>[] = [];
  private readonly positions = new Map<SealedFrame<ModelSend>, { readonly position: number; readonly copy: Buffer }>();
  private now = 1000;
  private lastDialAt = -Infinity;
  private closeBy = Infinity;
  private closedAt = -1;
  private healing = false;
  private borrowed = 0;
  /** Refusals of which the producer cannot know: the order is broken then, and deduplication drops what was refused. */
  private unseenRefusals = 0;
  private nextGivenId: number;

  // the schedule's own settings
  private readonly maxPending: number;
  private readonly keyBased: boolean;
  private readonly batchDelay: number;
  private readonly sendTimeout: number;
  private readonly givesIds: boolean;
  private readonly chunking: boolean;
  private readonly harsh: boolean;
  private readonly initialLast: number;

  constructor(seed: number) {
    const random = (this.random = new SeededRandom(seed));
    this.maxPending = random.pick([1, 2, 5, 20, 1000]);
    this.keyBased = random.chance(0.25);
    this.batchDelay = random.pick([0, 1, 50]);
    this.sendTimeout = random.chance(0.25) ? 3000 : 0;
    this.givesIds = random.chance(0.2);
    this.chunking = random.chance(0.3);
    this.harsh = random.chance(0.5);
    this.initialLast = random.chance(0.3) ? random.below(20) : -1;
    this.nextGivenId = random.below(15);
    const deduplicates = random.chance(0.5);
    this.broker = new ModelBroker(deduplicates, deduplicates ? this.initialLast : -1);
    this.budget = new MemoryBudget(random.pick([0, 3000, 100_000]));
    this.core = new ProducerState<ModelSend>(
      {
        topic: 'model',
        producerId: 1,
        batching: random.chance(0.75)
          ? { maxMessages: random.pick([2, 5, 50]), maxBytes: 400, keyBased: this.keyBased }
          : undefined,
        batchDelay: this.batchDelay,
        initialSequenceId: random.chance(0.2) ? random.below(30) : -1,
        chunkBytes: this.chunking ? 0 : undefined,
        maxPendingMessages: this.maxPending,
        rejectWhenFull: random.chance(0.1),
        sendTimeout: this.sendTimeout,
        backoff: BACKOFF,
      },
      new ModelCodec(),
      this.budget,
      { memoryFreed: () => this.core.wake() },
    );
    this.core.start(random.chance(0.2) ? this.now + 2000 : Infinity);
    this.settleAll();
  }

  // What a schedule does.

  step(): void {
    const { random } = this;
    const choice = random.below(100);
    if (choice < 30) this.submitSome();
    else if (choice < 34) this.flush();
    else if (choice < 38) this.cancelOne();
    else if (choice < 58) this.brokerReads(random.below(4) + 1);
    else if (choice < 76) this.clientReads(random.below(4) + 1);
    else if (choice < 84) this.dialOutcome();
    else if (choice < 94) this.passTime();
    else if (choice < 96) this.borrowMemory();
    else this.fault();
    // Inputs may pile up: the driver runs the core at the end of a turn.
    if (random.chance(0.7)) this.settleAll();
  }

  /** All faults end; everything must settle, then close. */
  finish(): void {
    this.healing = true;
    this.returnMemory();
    this.flush();
    this.untilQuiet(() => this.unsettled().length === 0);
    check(this.unsettled().length === 0, `P1: ${this.unsettled().length} sends hang`);
    if (this.core.phase !== 'terminated' && this.core.phase !== 'closed') this.close(5000);
    else this.core.close(this.now);
    this.untilQuiet(() => this.core.phase === 'closed');
    this.settleAll();
    check(this.core.phase === 'closed', `P6: close did not end, phase ${this.core.phase}`);
    this.verifyEnd();
  }

  private untilQuiet(done: () => boolean): void {
    for (let round = 0; round < 400 && !done(); round++) {
      this.settleAll();
      this.dialOutcome();
      this.brokerReads(1000);
      this.clientReads(1000);
      this.settleAll();
      if (!done()) this.passTime();
    }
  }

  private submitSome(): void {
    const { random } = this;
    for (let count = random.below(5) + 1; count > 0; count--) this.submit();
  }

  private submit(): void {
    const { random } = this;
    const id = this.sends.length;
    let size = random.below(100) + 1;
    if (random.chance(0.03)) size = 450 + random.below(500);
    if (random.chance(0.03)) size = 1600 + random.below(2500);
    let givenId: number | undefined;
    if (this.givesIds && random.chance(0.7)) {
      if (!random.chance(0.05)) this.nextGivenId += random.below(3) + 1;
      givenId = this.nextGivenId;
    }
    const message = { id, size, key: random.pick(['a', 'b', 'c']), poison: random.chance(0.01) };
    const send = new ModelSend(message, size, givenId, random.chance(0.1), this.now);
    this.sends.push(send);
    this.open.add(send);
    this.note(`submit ${id} size ${size}${givenId === undefined ? '' : ` id ${givenId}`}`);
    this.core.submit(send);
  }

  private flush(): void {
    const flush: ModelFlush = { covers: this.unsettled(), outcomes: 0 };
    this.flushes.push(flush);
    this.note(`flush ${this.flushes.length - 1} over ${flush.covers.length}`);
    this.core.flush(flush);
  }

  private cancelOne(): void {
    const open = this.unsettled();
    if (open.length === 0) return;
    const send = this.random.pick(open);
    const cancelled = this.core.cancel(send);
    this.note(`cancel ${send.message.id}: ${cancelled}`);
    if (cancelled) this.count('cancelled');
  }

  private close(timeout: number): void {
    this.note(`close within ${timeout}`);
    this.closeBy = Math.min(this.closeBy, this.now + timeout);
    this.core.close(this.now + timeout);
  }

  private brokerReads(limit: number): void {
    for (const link of this.links) {
      for (let count = limit; count > 0 && link.toBroker.length > 0; count--) this.brokerRead(link);
    }
  }

  private brokerRead(link: Link, refusal?: number): void {
    const next = link.toBroker.shift()!;
    if (next === 'CLOSE_PRODUCER') {
      link.ignores = true;
      link.toClient.push({ kind: 'left' });
      return;
    }
    const frame = readFrame(next);
    if (link.ignores) return;
    const answer = refusal === undefined ? this.broker.receive(frame) : this.broker.refuse(frame, refusal);
    this.note(`broker ${refusal === undefined ? 'takes' : `refuses (${refusal})`} ${frame.sequenceIds.join()}`);
    this.answer(link, answer);
    if (answer.kind === 'sendError') this.unseenRefusals += 1;
  }

  /** What deduplication drops is answered at once, ahead of what is being stored. */
  private answer({ toClient }: Link, answer: BrokerAnswer): void {
    let at = toClient.length;
    if (answer.kind === 'receipt' && answer.entryId < 0 && this.random.chance(0.5)) {
      for (; at > 0; at--) {
        const before = toClient[at - 1];
        if (before.kind !== 'receipt' || before.entryId < 0) break;
      }
      if (at < toClient.length) this.count('overtaking receipt');
    }
    toClient.splice(at, 0, answer);
  }

  private clientReads(limit: number): void {
    for (const link of this.links) {
      // An older link's events come late; they must change nothing.
      for (let count = limit; count > 0 && link.toClient.length > 0; count--) this.clientRead(link);
    }
  }

  private clientRead(link: Link): void {
    const event = link.toClient.shift()!;
    const { generation } = link;
    if (generation !== this.core.generation) this.count('stale event');
    switch (event.kind) {
      case 'receipt': {
        const { sequenceId, highest, entryId } = event;
        this.note(`receipt ${sequenceId} entry ${entryId} (link ${generation})`);
        const ledgerId = entryId < 0 ? -1 : 1;
        const highestSequenceId = this.random.chance(0.5) ? highest : 0;
        this.core.post({ kind: 'receipt', generation, sequenceId, highestSequenceId, ledgerId, entryId });
        return;
      }
      case 'sendError':
        // On a link that is up, or on one that was left because of an earlier refusal, it is heard.
        if (generation === this.core.generation && (link.phase === 'up' || link.left)) this.unseenRefusals -= 1;
        this.note(`send error ${event.code} for ${event.sequenceId} (link ${generation})`);
        this.core.post({ kind: 'sendError', generation, sequenceId: event.sequenceId, code: event.code, message: '' });
        return;
      case 'left':
        this.note(`link ${generation} is left`);
        this.core.post({ kind: 'left', generation });
        return;
      case 'brokerClose':
        this.note(`broker closes link ${generation}`);
        link.phase = 'gone';
        this.core.post({ kind: 'brokerClose', generation, error: new ConnectionError('closed'), hint: undefined });
    }
  }

  private dialOutcome(): void {
    const link = this.links.at(-1);
    if (link === undefined || (link.phase !== 'dialing' && link.phase !== 'queued')) return;
    const { generation } = link;
    const roll = this.healing ? 1 : this.random.next();
    if (roll < 0.25) return this.dialFails(link, 6);
    if (roll < 0.28 && this.harsh) return this.dialFails(link, 8);
    if (roll < 0.285 && this.harsh) return this.dialFails(link, this.random.pick([11, 15, 25]));
    if (roll < 0.35 && link.phase === 'dialing') {
      link.phase = 'queued';
      this.note(`link ${generation} queued`);
      this.core.post({ kind: 'linkQueued', generation });
      return;
    }
    // The broker has only one producer of this name: what older links have not delivered is gone.
    for (const older of this.links) if (older !== link) older.toBroker.length = 0;
    link.phase = 'up';
    const maxMessageSize = this.random.chance(0.9) ? 1500 : 600;
    this.note(`link ${generation} up, limit ${maxMessageSize}, last ${this.broker.lastSequenceId}`);
    const lastSequenceId = this.broker.lastSequenceId;
    this.core.post({
      kind: 'linkUp',
      generation,
      info: { producerName: 'p', lastSequenceId, schemaVersion: undefined, maxMessageSize },
    });
  }

  private dialFails(link: Link, code: number): void {
    link.phase = 'gone';
    this.note(`link ${link.generation} fails with ${code}`);
    this.count(`dial ${code}`);
    const error = new BrokerError('PRODUCER', code, '');
    this.core.post({ kind: 'linkFailed', generation: link.generation, error });
  }

  private passTime(): void {
    // A turn of the event loop ends before a timer rings: what was put in is taken.
    this.settleAll();
    const deadline = this.core.nextDeadline();
    const jump = this.random.chance(0.5) || this.healing ? deadline - this.now : this.random.below(300);
    // The timer rings at the deadline: no time passes without it.
    this.now += Math.min(Number.isFinite(jump) ? Math.max(0, jump) : this.random.below(50), deadline - this.now);
    this.settleAll();
  }

  private borrowMemory(): void {
    if (this.borrowed > 0) return this.returnMemory();
    const other = { memoryFreed: () => undefined };
    if (this.budget.limit > 0 && this.budget.take(other, this.budget.limit / 2)) this.borrowed = this.budget.limit / 2;
    this.budget.leave(other);
    this.budget.wakeFirst();
  }

  private returnMemory(): void {
    if (this.borrowed > 0) this.budget.release(this.borrowed);
    this.borrowed = 0;
    this.budget.wakeFirst();
  }

  private fault(): void {
    const { random } = this;
    const link = this.links.at(-1);
    if (link?.phase !== 'up') return;
    const { generation } = link;
    switch (random.below(this.harsh ? 7 : 4)) {
      case 0:
      case 1: {
        // The broker still reads some of what is under way, but its answers are lost.
        for (let count = random.below(link.toBroker.length + 1); count > 0; count--) this.brokerRead(link);
        link.phase = 'gone';
        if (random.chance(0.8)) link.toClient.length = 0;
        this.note(`link ${generation} cut`);
        this.count('cut');
        this.core.post({ kind: 'linkDown', generation, error: new ConnectionError('cut') });
        return;
      }
      case 2:
        link.ignores = true;
        link.toClient.push({ kind: 'brokerClose' });
        return this.count('broker close');
      case 3:
        return this.lateEvent();
      case 4:
        if (link.toBroker.length === 0) return;
        this.count('refusal');
        return this.brokerRead(link, random.pick([2, 6, 9, 9, 22, 22]));
      case 5:
        this.note('a receipt out of the future');
        this.count('future receipt');
        this.core.post({ kind: 'receipt', generation, sequenceId: 1e6, highestSequenceId: 0, ledgerId: 1, entryId: 1 });
        return;
      case 6:
        if (random.chance(0.1)) this.close(random.below(2000));
        else if (random.chance(0.05) && link.toBroker.length > 0) this.brokerRead(link, 15);
    }
  }

  /** Anything at all of an older link, or a receipt from before everything: nothing may change. */
  private lateEvent(): void {
    this.settleAll();
    const { core, random } = this;
    const state = (): string =>
      JSON.stringify([core.phase, core.generation, core.pendingFrames, core.outcomes.settled, core.orderBroken]);
    const before = state();
    const generation = random.below(core.generation);
    const error = new ConnectionError('late');
    this.note(`an event of link ${generation}`);
    switch (random.below(6)) {
      case 0:
        core.post({ kind: 'linkDown', generation, error });
        break;
      case 1:
        core.post({ kind: 'brokerClose', generation, error, hint: undefined });
        break;
      case 2:
        core.post({ kind: 'receipt', generation, sequenceId: 1e6, highestSequenceId: 0, ledgerId: 1, entryId: 1 });
        break;
      case 3:
        core.post({ kind: 'linkFailed', generation, error: new BrokerError('late', 15, '') });
        break;
      case 4:
        core.post({ kind: 'linkQueued', generation });
        break;
      default: {
        const past = { sequenceId: -5, highestSequenceId: 0, ledgerId: 1, entryId: 1 };
        core.post({ kind: 'receipt', generation: core.generation, ...past });
      }
    }
    this.settleAll();
    check(state() === before, `P5: a late event changed ${before} to ${state()}`);
  }

  // The driver.

  private settleAll(): void {
    for (const { message, batchedAt } of this.open) {
      check(this.now <= batchedAt + this.batchDelay, `send ${message.id} waits in its batch beyond the delay`);
    }
    do {
      this.core.step(this.now, 1e12 + this.now, this.random.next());
      for (const frame of this.core.writes.splice(0)) this.written(frame);
      for (const action of this.core.actions.splice(0)) this.act(action);
      const { settlements } = this.core;
      for (let settlement = settlements.shift(); settlement !== undefined; settlement = settlements.shift()) {
        switch (settlement.kind) {
          case 'stored':
            for (const send of settlement.frame.ops) if (send !== undefined) this.settled(send, undefined, false);
            break;
          case 'deduplicated':
            this.settled(settlement.op, undefined, true);
            break;
          case 'failed':
            this.settled(settlement.op, settlement.error, false);
            break;
          case 'flushed':
            this.flushed(settlement.token as ModelFlush, settlement.error);
        }
      }
      this.budget.wakeFirst();
    } while (this.core.hasInput);
    this.verifyAccounts();
    check(
      this.core.nextDeadline() > this.now,
      `the core asks to be called at ${this.core.nextDeadline()}, it is ${this.now}`,
    );
  }

  private act(action: ProducerAction): void {
    this.count(action.kind);
    switch (action.kind) {
      case 'dial': {
        const gap = this.now - this.lastDialAt;
        check(gap >= BACKOFF.initial / 10, `P9: a dial ${gap} ms after the last one`);
        this.lastDialAt = this.now;
        const previous = this.links.at(-1)?.generation ?? 0;
        check(action.generation === previous + 1, `generation ${action.generation} after ${previous}`);
        check(this.closedAt < 0, 'P9: a dial after the end');
        this.links.push({
          generation: action.generation,
          phase: 'dialing',
          toBroker: [],
          toClient: [],
          ignores: false,
          left: false,
          last: -1,
        });
        return;
      }
      case 'leave': {
        const link = this.links.find(({ generation }) => generation === action.generation);
        this.note(`leaves link ${action.generation}: ${action.how}`);
        if (link === undefined) return;
        link.phase = 'gone';
        link.left = action.how === 'closeProducer';
        if (link.left) link.toBroker.push('CLOSE_PRODUCER');
        else link.toBroker.length = 0;
        return;
      }
      case 'closed':
        this.closedAt = this.now;
        check(this.now <= this.closeBy, `P6: closed at ${this.now}, promised ${this.closeBy}`);
        return;
      default:
    }
  }

  private written(frame: SealedFrame<ModelSend>): void {
    let known = this.positions.get(frame);
    if (known === undefined) {
      known = { position: this.sealed.push(frame) - 1, copy: Buffer.from(frame.bytes) };
      this.positions.set(frame, known);
    }
    const { position, copy } = known;
    check(copy.equals(frame.bytes), `P8: frame ${frame.sequenceId} has changed`);
    const link = this.links.at(-1);
    check(link?.phase === 'up' && link.generation === this.core.generation, 'P3: a SEND before the producer is ready');
    check(position > link.last, `P2: frame ${frame.sequenceId} after a later one`);
    for (let skipped = link.last + 1; skipped < position; skipped++) {
      const { ops, sequenceId } = this.sealed[skipped];
      const open = ops.some((op) => op !== undefined && op.state !== OpState.settled);
      check(!open || this.chunkDone(skipped), `P2: frame ${sequenceId} was skipped`);
    }
    link.last = position;
    this.note(`write ${readFrame(frame.bytes).sequenceIds.join()} on link ${link.generation}`);
    link.toBroker.push(frame.bytes);
  }

  /** A chunk with a receipt: its message is open until the last one has its receipt too. */
  private chunkDone(position: number): boolean {
    const { chunk } = this.sealed[position];
    return chunk !== undefined && chunk.stored.length > chunk.index;
  }

  private settled(send: ModelSend, error: TransportError | undefined, deduplicated: boolean): void {
    send.outcomes += 1;
    this.open.delete(send);
    send.error = error;
    send.deduplicated = deduplicated;
    const result = error === undefined ? (deduplicated ? 'a duplicate' : 'stored') : error.code;
    this.note(`send ${send.message.id} is ${result}${error?.ambiguous === true ? ' (ambiguous)' : ''}`);
    this.count(`outcome ${result}`);
    check(send.outcomes === 1, `P1: send ${send.message.id} settled twice`);
    if (error === undefined && !deduplicated) {
      check(this.isStored(send), `P1: send ${send.message.id} resolved, the broker does not have it`);
    }
    // User code calls back in.
    if (!this.healing && this.random.chance(0.05)) this.submit();
    if (!this.healing && this.random.chance(0.01)) this.flush();
  }

  private flushed(flush: ModelFlush, error: TransportError | undefined): void {
    flush.outcomes += 1;
    this.count('flushed');
    check(flush.outcomes === 1, 'P6: a flush settled twice');
    check(
      flush.covers.every(({ outcomes }) => outcomes === 1),
      'P6: a flush ended before a send it covers',
    );
    const failed = flush.covers.some((send) => send.error !== undefined);
    check(failed === (error !== undefined), `P6: a flush ${error ? 'failed' : 'succeeded'} although its sends did not`);
  }

  // What must hold.

  private verifyAccounts(): void {
    let permits = 0;
    let bytes = 0;
    let waiting = 0;
    for (const send of this.open) {
      if (send.state === OpState.waiting) waiting += 1;
      if (send.state === OpState.batched && this.core.phase === 'ready') {
        send.batchedAt = Math.min(send.batchedAt, this.now);
      } else {
        send.batchedAt = Infinity;
      }
      if (send.state < OpState.accepted || send.state > OpState.sealed) continue;
      permits += send.permits;
      bytes += send.size + OBJECT_BYTES;
    }
    const { core, budget } = this;
    check(core.pendingMessages === permits, `P7: ${core.pendingMessages} permits in use, ${permits} held`);
    check(core.pendingBytes === bytes, `P7: ${core.pendingBytes} bytes in use, ${bytes} held`);
    check(budget.used === bytes + this.borrowed, `P7: budget ${budget.used}, held ${bytes + this.borrowed}`);
    check(core.waitingMessages === waiting, `P7: ${core.waitingMessages} counted as waiting, ${waiting} wait`);
    check(permits <= this.maxPending, `P7: ${permits} permits of ${this.maxPending}`);
  }

  private verifyEnd(): void {
    const { core, broker } = this;
    check(
      this.flushes.every(({ outcomes }) => outcomes === 1),
      'P6: a flush hangs',
    );
    check(core.pendingMessages === 0 && core.pendingBytes === 0 && this.budget.used === 0, 'P7: permits are left');
    check(core.pendingFrames === 0, 'P7: frames are left');
    const stored = broker.firstStored();
    const isStored = new Set(stored);
    for (const send of this.sends) {
      const { id } = send.message;
      check(send.outcomes === 1, `P1: send ${id} has ${send.outcomes} outcomes`);
      const before = send.givenId !== undefined && send.givenId <= this.initialLast;
      if (send.deduplicated && this.unseenRefusals > 0) continue;
      if (send.error === undefined && !before) check(isStored.has(id), `P1: send ${id} resolved and is not stored`);
      if (send.error?.ambiguous === false) check(!isStored.has(id), `P1: send ${id} is stored, its error denies it`);
    }
    if (core.orderBroken > 0 || this.unseenRefusals > 0) {
      this.count('order broken');
    } else {
      const last = new Map<string, number>();
      for (const id of stored) {
        const key = this.keyBased ? this.sends[id].message.key : '';
        check(id > (last.get(key) ?? -1), `P4: ${id} is stored after ${last.get(key)}`);
        last.set(key, id);
      }
    }
    const late = this.core.generation;
    const before = JSON.stringify([core.phase, core.outcomes.settled, core.lateReceipts]);
    for (let generation = 0; generation <= late; generation++) {
      core.post({ kind: 'receipt', generation, sequenceId: 0, highestSequenceId: 0, ledgerId: 1, entryId: 1 });
      core.post({ kind: 'linkDown', generation, error: new ConnectionError('late') });
    }
    this.settleAll();
    check(
      before === JSON.stringify([core.phase, core.outcomes.settled, core.lateReceipts]),
      'P5: a late event counted',
    );
  }

  private isStored(send: ModelSend): boolean {
    return this.broker.has(send.message.id);
  }

  private unsettled(): ModelSend[] {
    return [...this.open];
  }

  private note(text: string): void {
    this.log.push(`${this.now} ${text}`);
  }

  private count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}
