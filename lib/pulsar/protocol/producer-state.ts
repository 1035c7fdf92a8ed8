/**
 * Theory of operation. One object owns everything that can race in a producer: the link's generation, the open batch, the
 * pending frames, the sequence ids and the order of calls. Every input is a synchronous method that runs to its end and only
 * appends to the outbox, so inputs are one ordered sequence by construction: a reconnect cannot run beside a send, a flush
 * cannot overtake one, and a timeout is never starved. Nothing is awaited here.
 *
 * A message is `waiting` for room, then in the `open` batch, then in a sealed `pending` frame, then settled. Sequence ids are
 * given when a frame is sealed, not before the first link told the broker's last one. Bytes are written only while ready; on
 * link-up all pending frames are written in order and the state becomes ready in the same step.
 */
import { ClosedError, RemoteProtocolError, TimeoutError, TransportError } from '../../errors.js';
import { Deque } from './deque.js';
import { type MemoryBudget } from './memory-budget.js';
import { MessageId } from './message-id.js';
import { OpenBatch, type BatchingConfig } from './open-batch.js';
import { type FrameSealer, PendingFrame } from './pending-frame.js';
import { type FlushMarker, ProducerOutbox } from './producer-outbox.js';
import { nextProducerState, type ProducerCause, type ProducerStateName } from './producer-states.js';
import { type SendOp } from './send-op.js';
import { type BrokerError, CHECKSUM_ERROR, NOT_ALLOWED_ERROR, TOPIC_TERMINATED_ERROR } from './server-errors.js';

export interface ProducerConfig {
  /** For errors. */
  readonly topic: string;
  readonly partition: number;
  readonly batching: BatchingConfig;
  /** Messages that may be open or pending; further ones wait. */
  readonly maxPendingMessages: number;
  /** Milliseconds from `submit`; 0: none. */
  readonly sendTimeout: number;
}

/** What PRODUCER_SUCCESS told. */
export interface LinkInfo {
  readonly producerName: string;
  /** `last_sequence_id`; -1: none. */
  readonly lastSequenceId: number;
}

export interface Receipt {
  readonly sequenceId: number;
  /** Only compared for batches, and only where the broker set it. */
  readonly highestSequenceId: number;
  readonly ledgerId: number;
  readonly entryId: number;
}

export class ProducerState {
  readonly outbox = new ProducerOutbox();
  readonly stats = { submitted: 0, stored: 0, failed: 0, deduplicated: 0, resent: 0, ignoredReceipts: 0, staleEvents: 0, timedOut: 0, orderBroken: 0, possibleDuplicates: 0 }; // prettier-ignore

  // valid for the producer's life
  #state: ProducerStateName = 'connecting';
  #terminal: TransportError | undefined;
  #name: string | undefined;
  #lastSequenceId = -1;
  /** The broker's last one at the first link: what it may already have from an earlier process. */
  #inheritedSequenceId = -1;
  #lastCallerSequenceId = -1;
  #ordinal = 0;
  #unsettled = 0;
  #bytes = 0;
  /** Messages that hold a permit: open and pending. */
  #permits = 0;
  readonly #waiting = new Deque<SendOp>();
  readonly #open: OpenBatch;
  readonly #pending = new Deque<PendingFrame>();
  #flushes: FlushMarker[] = [];
  #closeDeadline: number | undefined;
  #finished = false;

  // valid for one connection
  #generation = 0;
  #dialing = false;
  #redialAt: number | undefined;
  #dialAttempt = 0;
  #linkedAt = 0;
  /** We asked for its end: nothing of it counts any more. */
  #brokenGeneration = 0;

  constructor(
    private readonly config: ProducerConfig,
    private readonly budget: MemoryBudget,
    private readonly seal: FrameSealer,
  ) {
    this.#open = new OpenBatch(config.batching);
  }

  get state(): ProducerStateName {
    return this.#state;
  }
  get generation(): number {
    return this.#generation;
  }
  get name(): string | undefined {
    return this.#name;
  }
  get lastSequenceId(): number {
    return this.#lastSequenceId;
  }
  /** Messages accepted and not settled, and how many of them wait for room. */
  get usage(): {
    readonly messages: number;
    readonly waiting: number;
    readonly bytes: number;
    readonly permits: number;
  } {
    return { messages: this.#unsettled, waiting: this.#waiting.length, bytes: this.#bytes, permits: this.#permits };
  }
  /** How many dials failed in a row: the argument of the backoff. */
  get dialAttempt(): number {
    return this.#dialAttempt;
  }

  /** The first dial. */
  start(now: number): void {
    this.#redialAt = now;
    this.#dialIfDue(now);
  }

  /** Accepts a message, in the order of calls; its callback comes exactly once, after the step. */
  submit(op: SendOp, now: number, wallTime: number): void {
    op.submittedAt = now;
    op.ordinal = ++this.#ordinal;
    this.stats.submitted += 1;
    this.#unsettled += 1;
    const refusal = this.#refuse(op);
    if (refusal !== undefined) this.#settle(op, refusal);
    else if (this.#waiting.length > 0 || !this.#admit(op)) this.#waiting.push(op);
    else this.#enter(op, now, wallTime);
  }

  /** Takes a message back that was not written. False: it was, or it is settled. */
  cancel(op: SendOp, reason: TransportError, now: number, wallTime: number): boolean {
    if (op.state === 'waiting') this.#waiting.remove(op);
    else if (op.state === 'open') this.#open.remove(op);
    else if (op.state === 'settled' || !this.#removeUnwritten(op)) return false;
    this.#settle(op, reason);
    this.#afterRelease(now, wallTime);
    return true;
  }

  flush(callback: FlushMarker['callback'], now: number, wallTime: number): void {
    const marker: FlushMarker = { ordinal: this.#ordinal, remaining: this.#unsettled, error: undefined, callback };
    if (marker.remaining === 0) {
      this.outbox.flushed.push(marker);
      return;
    }
    this.#flushes.push(marker);
    this.#sealOpen(now, wallTime);
  }

  /** No new messages; what was accepted is sent until `deadline` (clock time), then it fails. Ends in a `finish` action. */
  close(deadline: number, now: number, wallTime: number): void {
    this.#closeDeadline = Math.min(deadline, this.#closeDeadline ?? Infinity);
    this.#enterState('close');
    this.#sealOpen(now, wallTime);
    this.#finishIfDrained();
    this.handleTimeout(now, wallTime);
  }

  /** The producer exists on this generation: everything pending goes out again, in order, and then new ones. */
  linkUp(generation: number, link: LinkInfo, now: number, wallTime: number): void {
    if (this.#isStale(generation) || !this.#dialing) return;
    this.#dialing = false;
    this.#linkedAt = now;
    if (this.#name === undefined) {
      this.#name = link.producerName;
      this.#inheritedSequenceId = link.lastSequenceId;
      this.#lastSequenceId = Math.max(this.#lastSequenceId, link.lastSequenceId);
    }
    this.#enterState('linkUp');
    for (const frame of this.#pending) this.#write(frame);
    if (this.#flushes.length > 0 || this.#state === 'draining' || this.#open.isFull) this.#sealOpen(now, wallTime);
    this.#finishIfDrained();
  }

  /** The link is gone, or could not be made. `redialAt` (clock time) is when the next one may be tried. */
  linkDown(generation: number, redialAt: number, now: number): void {
    if (generation !== this.#generation || this.#finished) return void (this.stats.staleEvents += 1);
    if (!this.#dialing && this.#redialAt !== undefined) return;
    // A link that held for a while starts a new series of attempts; one that ends at once goes on with the old one.
    this.#dialAttempt = !this.#dialing && now - this.#linkedAt > SETTLED_LINK_MS ? 1 : this.#dialAttempt + 1;
    this.#dialing = false;
    this.#redialAt = redialAt;
    this.#enterState('linkDown');
  }

  receipt(generation: number, receipt: Receipt, now: number, wallTime: number): void {
    if (this.#isStale(generation)) return;
    const head = this.#pending.peek();
    if (head === undefined || receipt.sequenceId < head.sequenceId) {
      this.stats.ignoredReceipts += 1;
      return;
    }
    const highest = receipt.highestSequenceId;
    const wrongBatch = head.ops.length > 1 && highest > 0 && highest !== head.highestSequenceId;
    if (receipt.sequenceId > head.sequenceId || wrongBatch) {
      const expected = `${head.sequenceId}${head.ops.length > 1 ? `..${head.highestSequenceId}` : ''}`;
      this.#disconnect(`a receipt for ${receipt.sequenceId}..${highest} came, ${expected} was expected`);
      return;
    }
    this.#dialAttempt = 0;
    this.#pending.shift();
    if (receipt.ledgerId === -1) this.#settleDropped(head);
    else this.#settleStored(head, receipt);
    this.#afterRelease(now, wallTime);
  }

  sendError(generation: number, sequenceId: number, error: BrokerError, now: number, wallTime: number): void {
    if (this.#isStale(generation)) return;
    let laterInFlight = false;
    let refused: PendingFrame | undefined;
    for (const frame of this.#pending) {
      if (refused !== undefined && frame.writes > 0) laterInFlight = true;
      if (frame.sequenceId === sequenceId) refused = frame;
    }
    if (
      error.serverError === TOPIC_TERMINATED_ERROR ||
      (error.effect === 'terminal' && error.serverError !== NOT_ALLOWED_ERROR)
    ) {
      this.terminate(error);
      return;
    }
    if (refused === undefined) {
      this.stats.ignoredReceipts += 1;
      return;
    }
    refused.refused = true;
    if (laterInFlight) {
      // The frames behind it may be stored before its repetition is: order is broken, and said so.
      this.stats.orderBroken += 1;
      this.outbox.actions.push({ kind: 'orderBroken', sequenceId, error });
    }
    if (error.serverError === NOT_ALLOWED_ERROR) {
      this.#pending.remove(refused);
      for (const op of refused.ops) this.#settle(op, error);
      this.#afterRelease(now, wallTime);
      return;
    }
    const why = error.serverError === CHECKSUM_ERROR ? 'a frame arrived damaged' : 'a frame was refused';
    this.#disconnect(`${why}: ${error.message}`);
  }

  /** Rejects all that was accepted; later messages are tried (a quota that is exceeded, for instance). */
  failAccepted(error: TransportError): void {
    for (let frame = this.#pending.shift(); frame !== undefined; frame = this.#pending.shift()) {
      for (const op of frame.ops) this.#settle(op, frame.writes > 0 ? asAmbiguous(error) : error);
    }
    for (const op of this.#open.take()) this.#settle(op, error);
    for (let op = this.#waiting.shift(); op !== undefined; op = this.#waiting.shift()) this.#settle(op, error);
    this.#finishIfDrained();
  }

  /** The end: everything accepted is rejected, nothing dials again, later messages are rejected with the same error. */
  terminate(error: TransportError): void {
    if (this.#finished) return;
    this.#terminal ??= error;
    this.#enterState('terminate');
    this.failAccepted(error);
    this.#finish(error);
  }

  nextDeadline(): number | undefined {
    if (this.#finished) return undefined;
    let next = this.#closeDeadline ?? Infinity;
    if (!this.#dialing && this.#redialAt !== undefined) next = Math.min(next, this.#redialAt);
    if (this.#name !== undefined && this.#open.deadline !== undefined) next = Math.min(next, this.#open.deadline);
    const oldest = this.config.sendTimeout > 0 ? this.#oldest() : undefined;
    if (oldest !== undefined) next = Math.min(next, oldest.submittedAt + this.config.sendTimeout);
    return next === Infinity ? undefined : next;
  }

  handleTimeout(now: number, wallTime: number): void {
    if (this.#finished) return;
    if (this.#closeDeadline !== undefined && now >= this.#closeDeadline) {
      this.failAccepted(
        new ClosedError(`producer of ${this.config.topic}: closed before the broker had stored the message`),
      );
      this.#finishIfDrained();
      return;
    }
    this.#expire(now, wallTime);
    if (this.#open.deadline !== undefined && now >= this.#open.deadline) this.#sealOpen(now, wallTime);
    this.#dialIfDue(now);
  }

  // ---- entering

  #refuse(op: SendOp): TransportError | undefined {
    const { topic } = this.config;
    if (this.#terminal !== undefined) return this.#terminal;
    if (this.#state !== 'connecting' && this.#state !== 'ready')
      return new ClosedError(`producer of ${topic}: it is closed`);
    if (op.bytes > this.budget.limit) {
      return new TransportError(
        'ERR_QUEUE_FULL',
        `producer of ${topic}: a message of ${op.bytes} bytes is larger than the whole memory limit of ${this.budget.limit}`,
      );
    }
    const { sequenceId } = op.message;
    if (sequenceId === undefined) return undefined;
    if (sequenceId <= this.#lastCallerSequenceId) {
      return new TransportError(
        'ERR_SEQUENCE',
        `producer of ${topic}: sequence id ${sequenceId} does not ascend, the last one was ${this.#lastCallerSequenceId}`,
      );
    }
    this.#lastCallerSequenceId = sequenceId;
    return undefined;
  }

  #admit(op: SendOp): boolean {
    if (this.#permits >= this.config.maxPendingMessages || !this.budget.tryAcquire(op.bytes)) return false;
    this.#permits += 1;
    this.#bytes += op.bytes;
    return true;
  }

  #enter(op: SendOp, now: number, wallTime: number): void {
    if (!this.#open.accepts(op)) this.#sealOpen(now, wallTime);
    op.state = 'open';
    this.#open.add(op, now);
    if (this.#open.isFull || this.#flushes.length > 0) this.#sealOpen(now, wallTime);
  }

  /** Lets waiting messages in after room was made; also called by the driver when the client's budget has room again. */
  admitWaiting(now: number, wallTime: number): void {
    for (let op = this.#waiting.peek(); op !== undefined && this.#admit(op); op = this.#waiting.peek()) {
      this.#waiting.shift();
      this.#enter(op, now, wallTime);
    }
    if (this.#state === 'draining' || this.#state === 'drainingOffline') this.#sealOpen(now, wallTime);
  }

  /** Whether messages wait for the client's memory rather than for this producer's own permits. */
  get waitsForMemory(): boolean {
    return this.#waiting.length > 0 && this.#permits < this.config.maxPendingMessages;
  }

  #sealOpen(_now: number, wallTime: number): void {
    // Ids exist only after the first link told the broker's last one.
    if (this.#name === undefined) return;
    for (const ops of this.#open.takeFrames(this.#inheritedSequenceId)) this.#sealFrame(ops, wallTime);
  }

  #sealFrame(ops: SendOp[], wallTime: number): void {
    const before = this.#lastSequenceId;
    for (const op of ops) {
      const given = op.message.sequenceId;
      op.sequenceId = given ?? this.#lastSequenceId + 1;
      this.#lastSequenceId = Math.max(this.#lastSequenceId, op.sequenceId);
    }
    try {
      const frame = new PendingFrame(this.#sealOps(ops, wallTime), ops);
      for (const op of ops) op.state = 'pending';
      this.#pending.push(frame);
      if (this.#state === 'ready' || this.#state === 'draining') this.#write(frame);
    } catch (cause) {
      this.#lastSequenceId = before;
      const error =
        cause instanceof TransportError
          ? cause
          : new TransportError('ERR_SERIALIZATION', `producer of ${this.config.topic}: ${String(cause)}`, { cause });
      for (const op of ops) this.#settle(op, error);
    }
  }

  #sealOps(ops: readonly SendOp[], publishTime: number): Buffer {
    return this.seal(ops, {
      producerName: this.#name as string,
      sequenceId: ops[0].sequenceId,
      highestSequenceId: ops[ops.length - 1].sequenceId,
      publishTime,
    });
  }

  #write(frame: PendingFrame): void {
    if (frame.writes > 0) {
      this.stats.resent += frame.ops.length;
      if (!frame.refused) {
        this.stats.possibleDuplicates += frame.ops.length;
        this.outbox.actions.push({ kind: 'possibleDuplicate', sequenceId: frame.sequenceId });
      }
    }
    frame.writes += 1;
    this.outbox.writes.push(frame);
  }

  // ---- settling

  #settleStored(frame: PendingFrame, { ledgerId, entryId }: Receipt): void {
    const { ops } = frame;
    const { partition } = this.config;
    this.stats.stored += ops.length;
    for (let index = 0; index < ops.length; index += 1) {
      const op = ops[index];
      const messageId =
        ops.length === 1
          ? new MessageId(ledgerId, entryId, partition)
          : new MessageId(ledgerId, entryId, partition, index, ops.length);
      op.result = { messageId, sequenceId: op.sequenceId, deduplicated: false };
      this.#settle(op, undefined);
    }
  }

  /** -1:-1: the broker's deduplication dropped it. Harmless only if it can have it from an earlier write or process. */
  #settleDropped(frame: PendingFrame): void {
    const known = (frame.writes > 1 && !frame.refused) || frame.ops.every((op) => op.message.sequenceId !== undefined);
    for (const op of frame.ops) {
      if (known) {
        this.stats.deduplicated += 1;
        op.result = {
          messageId: new MessageId(-1, -1, this.config.partition),
          sequenceId: op.sequenceId,
          deduplicated: true,
        };
        this.#settle(op, undefined);
      } else {
        const what = `the broker dropped sequence id ${op.sequenceId} as a duplicate, though it was never sent before`;
        this.#settle(op, new TransportError('ERR_DEDUPLICATED', `producer of ${this.config.topic}: ${what}`));
      }
    }
  }

  #settle(op: SendOp, error: TransportError | undefined): void {
    if (op.state === 'open' || op.state === 'pending') {
      this.#permits -= 1;
      this.#bytes -= op.bytes;
      this.budget.release(op.bytes);
    }
    op.state = 'settled';
    op.error = error;
    this.#unsettled -= 1;
    if (error !== undefined) this.stats.failed += 1;
    this.outbox.settled.push(op);
    if (this.#flushes.length > 0) this.#countForFlushes(op);
  }

  #countForFlushes(op: SendOp): void {
    let done = 0;
    for (const marker of this.#flushes) {
      if (op.ordinal > marker.ordinal) continue;
      marker.error ??= op.error;
      if (--marker.remaining === 0) done += 1;
    }
    if (done === 0) return;
    this.outbox.flushed.push(...this.#flushes.filter((marker) => marker.remaining === 0));
    this.#flushes = this.#flushes.filter((marker) => marker.remaining > 0);
  }

  #afterRelease(now: number, wallTime: number): void {
    if (this.#waiting.length > 0) this.admitWaiting(now, wallTime);
    this.#finishIfDrained();
  }

  #removeUnwritten(op: SendOp): boolean {
    for (const frame of this.#pending) {
      if (!frame.ops.includes(op)) continue;
      if (frame.writes > 0) return false;
      if (frame.ops.length === 1) return this.#pending.remove(frame);
      const rest = frame.ops.filter((other) => other !== op);
      frame.bytes = this.#sealOps(rest, op.submittedAt);
      frame.ops = rest;
      return true;
    }
    return false;
  }

  #oldest(): SendOp | undefined {
    return this.#pending.peek()?.ops[0] ?? this.#open.first ?? this.#waiting.peek();
  }

  #expire(now: number, wallTime: number): void {
    const { sendTimeout, topic } = this.config;
    if (sendTimeout === 0) return;
    let expired = false;
    for (let op = this.#oldest(); op !== undefined && now - op.submittedAt >= sendTimeout; op = this.#oldest()) {
      expired = true;
      const frame = op.state === 'pending' ? this.#pending.shift() : undefined;
      const ambiguous = frame !== undefined && frame.writes > 0;
      if (op.state === 'open') this.#open.remove(op);
      if (op.state === 'waiting') this.#waiting.shift();
      for (const each of frame?.ops ?? [op]) {
        this.stats.timedOut += 1;
        const message = `producer of ${topic}: no receipt within ${sendTimeout} ms${ambiguous ? '; the broker may have stored it' : ''}`;
        this.#settle(each, new TimeoutError(message, sendTimeout, { code: 'ERR_SEND_TIMEOUT', ambiguous }));
      }
    }
    if (expired) this.#afterRelease(now, wallTime);
  }

  // ---- the link

  #isStale(generation: number): boolean {
    if (generation === this.#generation && generation !== this.#brokenGeneration && !this.#finished) return false;
    this.stats.staleEvents += 1;
    return true;
  }

  #dialIfDue(now: number): void {
    if (this.#dialing || this.#redialAt === undefined || now < this.#redialAt || this.#finished) return;
    this.#redialAt = undefined;
    this.#dialing = true;
    this.#generation += 1;
    this.outbox.actions.push({ kind: 'dial', generation: this.#generation });
  }

  #disconnect(what: string): void {
    this.#brokenGeneration = this.#generation;
    const error = new RemoteProtocolError(`producer of ${this.config.topic}: ${what}`);
    this.outbox.actions.push({ kind: 'disconnect', generation: this.#generation, error });
  }

  #enterState(cause: ProducerCause): void {
    this.#state = nextProducerState(this.#state, cause);
  }

  #finishIfDrained(): void {
    if ((this.#state !== 'draining' && this.#state !== 'drainingOffline') || this.#unsettled > 0) return;
    const linked = this.#state === 'draining';
    this.#enterState('drained');
    this.#finish(undefined, linked);
  }

  #finish(error: TransportError | undefined, linked = !this.#dialing && this.#redialAt === undefined): void {
    this.#finished = true;
    this.outbox.actions.push({ kind: 'finish', generation: this.#generation, linked, error });
  }
}

/** A link that held this long was a good one. */
const SETTLED_LINK_MS = 10_000;

function asAmbiguous(error: TransportError): TransportError {
  if (error.ambiguous) return error;
  const message = `${error.message} (the message had been written: the broker may have stored it)`;
  return new TransportError(error.code, message, { retriable: error.retriable, ambiguous: true, cause: error });
}
