import { ClosedError, TransportError } from '../../errors.js';
import { Admission } from './admission.js';
import { Outcomes } from './outcomes.js';
import { type FrameCodec, FrameMaker, type FrameMakerConfig, tooLarge } from './frame-maker.js';
import { type MemoryBudget, type MemoryWaiter } from './memory-budget.js';
import { PendingQueue } from './pending-queue.js';
import { noAnswer, receiptMismatch } from './producer-errors.js';
import { type LinkEvent, type LinkInfo, type ProducerAction, type ProducerInput } from './producer-events.js';
import { ProducerLink, type RetryBackoff } from './producer-link.js';
import { type ProducerPhase } from './producer-table.js';
import { OpState, type SealedFrame, type SendOp, type Settlement } from './send-op.js';
import { BrokerError, failureKind, serverErrorRule } from './server-errors.js';

export interface ProducerCoreConfig extends FrameMakerConfig {
  /** For errors. */
  readonly topic: string;
  readonly maxPendingMessages: number;
  readonly rejectWhenFull: boolean;
  /** Milliseconds; 0 = none. */
  readonly sendTimeout: number;
  /** Milliseconds that an open batch waits while other frames are under way. */
  readonly batchDelay: number;
  readonly backoff: RetryBackoff;
}

/**
 * One partition's producer, without I/O. Inputs are appended to one inbox; `step()` takes them in order, then looks at the
 * deadlines, then makes and writes frames. The driver afterwards drains `writes`, `actions` and `settlements`.
 */
export class ProducerState<O extends SendOp> {
  /** Frames to write on the current link, in order. */
  readonly writes: SealedFrame<O>[] = [];
  readonly actions: ProducerAction[] = [];

  submitted = 0;
  resentFrames = 0;
  lateReceipts = 0;
  staleEvents = 0;
  orderBroken = 0;
  /** How messages ended, and the outcomes to tell. */
  readonly outcomes: Outcomes<O>;

  private readonly inbox: ProducerInput<O>[] = [];
  private readonly pending = new PendingQueue<O>();
  private readonly link: ProducerLink;
  private readonly admission: Admission<O>;
  private readonly maker: FrameMaker<O>;

  // valid for one step
  private now = 0;
  private random = 0;

  /** Why everything is rejected; undefined while messages are taken. */
  private refusal: TransportError | undefined = undefined;
  private closeDeadline = Infinity;
  private createDeadline = Infinity;
  private maxMessageSize = 0;
  /** Seal the open batch in this step whatever is under way. */
  private sealNow = false;
  private batchDeadline = Infinity;
  private nextExpiry = Infinity;

  constructor(
    private readonly config: ProducerCoreConfig,
    codec: FrameCodec<O['message']>,
    budget: MemoryBudget,
    waiter: MemoryWaiter,
  ) {
    this.link = new ProducerLink(config.backoff, this.actions);
    this.admission = new Admission(config, budget, waiter);
    this.maker = new FrameMaker(config, codec, {
      frame: (frame) => this.write(frame),
      failed: (op, error) => this.outcomes.fail(op, error),
    });
    const { pending, maker, admission } = this;
    this.outcomes = new Outcomes(config.topic, { pending, maker, admission }, this.actions);
  }

  get phase(): ProducerPhase {
    return this.link.phase;
  }
  get draining(): boolean {
    return this.closeDeadline < Infinity;
  }
  get generation(): number {
    return this.link.generation;
  }
  get connects(): number {
    return this.link.connects;
  }
  get pendingFrames(): number {
    return this.pending.length;
  }
  /** Outcomes to tell, in order. */
  get settlements(): Settlement<O>[] {
    return this.outcomes.settlements;
  }
  get pendingMessages(): number {
    return this.admission.permits;
  }
  get pendingBytes(): number {
    return this.admission.bytes;
  }
  get waitingMessages(): number {
    return this.admission.waitingCount;
  }
  get hasInput(): boolean {
    return this.inbox.length > 0;
  }

  // Inputs: they only append.

  submit(op: O): void {
    op.ordinal = ++this.submitted;
    this.inbox.push(op);
  }

  /** True: nothing of it was written and nothing will be; its outcome is ERR_ABORTED. */
  cancel(op: O): boolean {
    if (op.cancelled || op.state === OpState.sealed || op.state === OpState.settled) return false;
    op.cancelled = true;
    this.inbox.push({ kind: 'cancel', op });
    return true;
  }

  flush(token: unknown): void {
    this.outcomes.flushes.add(this.submitted, this.submitted - this.outcomes.settled, token);
    this.inbox.push({ kind: 'flush' });
  }

  /** @param deadline until when the first link must be up; Infinity = no bound */
  start(deadline: number): void {
    this.inbox.push({ kind: 'start', deadline });
  }

  /** Drains what was accepted until `deadline`, then fails the rest. */
  close(deadline: number): void {
    this.inbox.push({ kind: 'close', deadline });
  }

  /** There may be memory now. */
  wake(): void {
    this.inbox.push({ kind: 'wake' });
  }

  /** What came from the link, or happened to it. */
  post(event: LinkEvent): void {
    this.inbox.push(event);
  }

  /** When `step()` must be called at the latest, on the clock of `now`; Infinity = no need. */
  nextDeadline(): number {
    return Math.min(this.link.dialAt, this.batchDeadline, this.nextExpiry, this.closeDeadline, this.createDeadline);
  }

  /**
   * @param now monotonic milliseconds
   * @param wallTime milliseconds since 1970, for the publish time
   * @param random in [0, 1), for the jitter of a retry
   */
  step(now: number, wallTime: number, random: number): void {
    this.now = now;
    this.random = random;
    const { inbox } = this;
    for (let index = 0; index < inbox.length; index++) this.take(inbox[index]!);
    inbox.length = 0;
    this.deadlines();
    this.pump(wallTime);
    this.finish();
  }

  private take(input: ProducerInput<O>): void {
    switch (input.kind) {
      case 'send':
        return this.takeSend(input);
      case 'receipt':
        if (this.isCurrent(input.generation)) this.takeReceipt(input);
        return;
      case 'cancel':
        return this.outcomes.fail(
          input.op,
          new TransportError('ERR_ABORTED', 'The send was cancelled before it was written'),
        );
      case 'flush':
        this.sealNow = true;
        return;
      case 'wake':
        return;
      case 'start':
        if (this.phase !== 'idle') return;
        this.createDeadline = input.deadline;
        return this.link.dial('start');
      case 'close':
        if (this.phase === 'closed') return;
        this.closeDeadline = Math.min(this.closeDeadline, input.deadline);
        this.refusal ??= new ClosedError(`The producer of '${this.config.topic}' is closed`);
        this.sealNow = true;
        return;
      case 'linkUp':
        if (this.isCurrent(input.generation) && !this.link.ready) this.takeLinkUp(input.info);
        return;
      case 'linkQueued':
        if (!this.isCurrent(input.generation)) return;
        this.createDeadline = Infinity;
        return this.link.queued();
      case 'linkFailed':
        if (this.isCurrent(input.generation)) this.takeFailure(input.error);
        return;
      case 'linkDown':
        if (this.isCurrent(input.generation)) this.link.down('lost', input.error, this.now, this.random);
        return;
      case 'brokerClose':
        if (this.isCurrent(input.generation)) {
          this.link.down('lost', input.error, this.now, this.random, input.hint);
        }
        return;
      case 'sendError':
        if (this.isCurrent(input.generation)) this.takeSendError(input.sequenceId, input.code, input.message);
        return;
    }
  }

  private isCurrent(generation: number): boolean {
    if (this.link.concerns(generation)) return true;
    this.staleEvents += 1;
    return false;
  }

  private takeSend(op: O): void {
    if (op.state !== OpState.submitted) return;
    if (this.refusal !== undefined) return this.outcomes.fail(op, this.refusal);
    const error = op.problem ?? this.admission.enter(op);
    if (error !== undefined) return this.outcomes.fail(op, error);
    if (this.config.sendTimeout > 0) {
      this.nextExpiry = Math.min(this.nextExpiry, op.submittedAt + this.config.sendTimeout);
    }
  }

  private takeLinkUp(info: LinkInfo): void {
    this.maxMessageSize = info.maxMessageSize;
    this.createDeadline = Infinity;
    this.maker.linkUp(info);
    this.admission.linkUp(info.maxMessageSize);
    // Resending and becoming ready are one step: nothing new can come between them.
    for (const frame of [...this.pending]) {
      if (frame.ops[0]?.state === OpState.settled) continue;
      if (frame.bodySize > this.maxMessageSize)
        this.outcomes.failFrame(frame, tooLarge(frame.bodySize, this.maxMessageSize));
      else this.writeAgain(frame);
    }
    this.link.up(this.now);
  }

  private takeFailure(error: TransportError): void {
    const kind = failureKind(error);
    if (kind === 'terminal') return this.terminate(error);
    this.link.down('failed', error, this.now, this.random);
    if (kind === 'failPending' && this.link.everUp) this.outcomes.failAll(error);
  }

  private takeReceipt(receipt: {
    readonly sequenceId: number;
    readonly highestSequenceId: number;
    readonly ledgerId: number;
    readonly entryId: number;
  }): void {
    const frame = this.pending.head;
    if (!this.link.ready || frame === undefined || receipt.sequenceId < frame.sequenceId) {
      this.lateReceipts += 1;
      return;
    }
    const { sequenceId, highestSequenceId } = receipt;
    if (
      sequenceId > frame.sequenceId ||
      (frame.batch && highestSequenceId > sequenceId && highestSequenceId !== frame.highestSequenceId)
    ) {
      return this.restart('disconnect', receiptMismatch(this.config.topic, receipt, frame));
    }
    this.link.receiptSeen();
    this.pending.shift();
    if (receipt.ledgerId === -1 && receipt.entryId === -1) return this.outcomes.notStored(frame);
    this.outcomes.stored(frame, receipt.ledgerId, receipt.entryId);
  }

  private takeSendError(sequenceId: number, code: number, message: string): void {
    const error = new BrokerError(`SEND ${sequenceId} to '${this.config.topic}'`, code, message);
    const frame = this.pending.find(sequenceId);
    if (frame === undefined || !this.link.ready) {
      this.lateReceipts += 1;
      return;
    }
    frame.refused = true;
    const rule = serverErrorRule(code);
    switch (rule.send) {
      case 'item':
        return this.outcomes.failFrame(frame, error);
      case 'terminal':
        return this.terminate(error);
      case 'restart':
      case 'disconnect':
        if (this.pending.hasAfter(frame)) {
          this.orderBroken += 1;
          this.actions.push({ kind: 'orderBroken', sequenceId: frame.sequenceId, error });
        }
        return this.restart(rule.send === 'restart' ? 'closeProducer' : 'disconnect', error);
    }
  }

  /** Leaves the link and opens the producer again; all pending frames will be sent once more. */
  private restart(how: 'closeProducer' | 'disconnect', error: TransportError): void {
    this.actions.push({ kind: 'leave', generation: this.generation, how });
    this.link.down('restart', error, this.now, this.random);
  }

  private terminate(error: TransportError): void {
    this.link.end('terminate');
    this.refusal = error;
    this.createDeadline = Infinity;
    this.outcomes.failAll(error);
    this.actions.push({ kind: 'terminated', error });
  }

  private deadlines(): void {
    const { now } = this;
    if (now >= this.nextExpiry) this.nextExpiry = this.outcomes.expire(now, this.config.sendTimeout);
    if (now >= this.createDeadline) {
      this.createDeadline = Infinity;
      this.terminate(this.link.lastError ?? noAnswer(this.config.topic));
    }
    if (now >= this.closeDeadline && this.phase !== 'closed') {
      this.outcomes.failAll(
        new ClosedError(`The producer of '${this.config.topic}' was closed before the send was settled`),
      );
    }
    if (now >= this.link.dialAt) this.link.dial('elapsed');
  }

  /** Admits, makes frames, writes. The only place where frames are made, after all inputs of the step were taken. */
  private pump(wallTime: number): void {
    if (this.phase === 'closed' || this.phase === 'terminated') return;
    const { admission, maker } = this;
    if (!this.link.everUp) return;
    admission.admit();
    if (!this.link.ready) {
      this.batchDeadline = Infinity;
      return;
    }
    for (let op = admission.nextAccepted(); op !== undefined; op = admission.nextAccepted()) {
      maker.add(op, wallTime);
    }
    if (maker.openCount === 0) {
      this.batchDeadline = Infinity;
    } else if (this.sealNow || this.pending.length === 0 || this.now >= this.batchDeadline) {
      // An idle link gains nothing by waiting; a busy one fills the batch meanwhile.
      maker.seal(wallTime);
      this.batchDeadline = Infinity;
    } else if (this.batchDeadline === Infinity) {
      this.batchDeadline = this.now + this.config.batchDelay;
    }
    // Whoever waits for a permit was submitted before the flush as well: it must not sit in an open batch later.
    this.sealNow = this.sealNow && (this.outcomes.flushes.active || this.draining);
  }

  private finish(): void {
    this.outcomes.tellFlushes();
    if (this.draining && this.phase !== 'closed' && this.outcomes.settled === this.submitted) {
      this.link.end('close');
      this.admission.end();
      this.closeDeadline = Infinity;
      this.createDeadline = Infinity;
      this.actions.push({ kind: 'closed' });
    }
  }

  private write(frame: SealedFrame<O>): void {
    this.pending.push(frame);
    frame.writes = 1;
    this.writes.push(frame);
  }

  private writeAgain(frame: SealedFrame<O>): void {
    frame.writes += 1;
    this.resentFrames += 1;
    this.writes.push(frame);
  }
}
