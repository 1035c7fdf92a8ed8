import { ClosedError, TransportError } from '../../errors.js';
import { Outcomes } from './outcomes.js';
import { type Fifo } from './fifo.js';
import { FrameFlow, type FrameFlowConfig } from './frame-flow.js';
import { type FrameCodec, tooLarge } from './frame-maker.js';
import { type MemoryBudget, type MemoryWaiter } from './memory-budget.js';
import { noAnswer, occupied, receiptMismatch, silentLink } from './producer-errors.js';
import {
  type DialHint,
  type LinkEvent,
  type LinkInfo,
  type ProducerAction,
  type ProducerInput,
} from './producer-events.js';
import { ProducerLink, type RetryBackoff } from './producer-link.js';
import { type ProducerPhase } from './producer-table.js';
import { type Receipt, Receipts } from './receipts.js';
import { markRefused, OpState, type SealedFrame, type SendOp, type Settlement } from './send-op.js';
import { BrokerError, failureKind, isBusy, serverErrorRule } from './server-errors.js';

type SendRefusal = Extract<LinkEvent, { readonly kind: 'sendError' }>;

export interface ProducerCoreConfig extends FrameFlowConfig {
  /** Milliseconds; 0 = none. */
  readonly sendTimeout: number;
  readonly backoff: RetryBackoff;
  /** Access mode Exclusive: whoever finds the topic taken when it comes does not wait for it. Default false. */
  readonly exclusive?: boolean;
}

/**
 * One partition's producer, without I/O. Inputs are appended to one inbox; `step()` takes them in order, then looks at the
 * deadlines, then makes and writes frames. The driver afterwards drains `writes`, `actions` and `settlements`.
 */
export class ProducerState<O extends SendOp> {
  readonly actions: ProducerAction[] = [];

  submitted = 0;
  lateReceipts = 0;
  staleEvents = 0;
  orderBroken = 0;
  /** How messages ended, and the outcomes to tell. */
  readonly outcomes: Outcomes<O>;

  private readonly inbox: ProducerInput<O>[] = [];
  private readonly link: ProducerLink;
  private readonly flow: FrameFlow<O>;
  private readonly receipts: Receipts<O>;

  // valid for one step
  private now = 0;
  private random = 0;

  /** Why everything is rejected; undefined while messages are taken. */
  private refusal: TransportError | undefined = undefined;
  private closeDeadline = Infinity;
  private createDeadline = Infinity;
  /** The link that was left because of a refusal, or closed by the broker, until the next one is up. */
  private leftGeneration = -1;
  /** What ends the producer, once everything that came with it was taken: other frames may have been refused too. */
  private ending: TransportError | undefined = undefined;
  private nextExpiry = Infinity;

  constructor(
    private readonly config: ProducerCoreConfig,
    codec: FrameCodec<O['message']>,
    budget: MemoryBudget,
    waiter: MemoryWaiter,
  ) {
    this.link = new ProducerLink(config.backoff, this.actions);
    this.flow = new FrameFlow(config, codec, budget, waiter, (op, error) => this.outcomes.fail(op, error));
    this.outcomes = new Outcomes(config.topic, this.flow, this.actions);
    this.receipts = new Receipts(this.flow.pending, this.outcomes);
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
    return this.flow.pending.length;
  }
  /** Outcomes to tell, in order. */
  get settlements(): Fifo<Settlement<O>> {
    return this.outcomes.settlements;
  }
  get pendingMessages(): number {
    return this.flow.admission.permits;
  }
  get pendingBytes(): number {
    return this.flow.admission.bytes;
  }
  get waitingMessages(): number {
    return this.flow.admission.waitingCount;
  }
  get resentFrames(): number {
    return this.flow.resentFrames;
  }
  /** Frames to write on the current link, in order. */
  get writes(): SealedFrame<O>[] {
    return this.flow.writes;
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
    this.outcomes.flush(this.submitted, token);
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
    return Math.min(
      this.link.dialAt,
      this.link.checkAt,
      this.flow.batchDeadline,
      this.nextExpiry,
      this.closeDeadline,
      this.createDeadline,
    );
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
    for (let index = 0; index < inbox.length; index++) this.take(inbox[index]);
    inbox.length = 0;
    if (this.ending !== undefined) this.terminate(this.ending);
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
        this.flow.seal();
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
        this.flow.seal();
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
        if (this.isCurrent(input.generation)) this.down('lost', input.error);
        return;
      case 'brokerClose':
        if (this.isCurrent(input.generation)) {
          this.leftGeneration = input.generation;
          this.down('lost', input.error, input.hint);
        }
        return;
      case 'sendError':
        if (input.generation === this.leftGeneration) this.takeLateSendError(input);
        else if (this.isCurrent(input.generation)) this.takeSendError(input);
        return;
      case 'left':
        if (input.generation === this.leftGeneration) this.flow.pending.clearDoubts();
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
    const error = op.problem ?? this.flow.admission.enter(op);
    if (error !== undefined) return this.outcomes.fail(op, error);
    if (this.config.sendTimeout > 0) {
      this.nextExpiry = Math.min(this.nextExpiry, op.submittedAt + this.config.sendTimeout);
    }
  }

  private takeLinkUp(info: LinkInfo): void {
    this.createDeadline = Infinity;
    const reopened = this.leftGeneration >= 0;
    this.leftGeneration = -1;
    // Resending and becoming ready are one step: nothing new can come between them.
    this.flow.linkUp(info, (frame, limit) => this.outcomes.failFrame(frame, tooLarge(frame.bodySize, limit)));
    this.link.up(this.now, reopened);
  }

  private down(cause: 'lost' | 'restart' | 'failed', error: TransportError, hint?: DialHint): void {
    this.flow.linkDown();
    this.link.down(cause, error, this.now, this.random, hint);
  }

  private takeFailure(error: TransportError): void {
    const ghost = this.link.isKeptOutByItself(error, this.flow.maker.producerName, this.now);
    const kind = ghost ? 'retry' : failureKind(error);
    if (kind === 'terminal') return this.terminate(error);
    if (this.config.exclusive === true && !this.link.everUp && isBusy(error)) {
      return this.terminate(occupied(this.config.topic, error));
    }
    this.down('failed', error);
    if (kind === 'failPending' && this.link.everUp) this.outcomes.failAll(error);
  }

  private takeReceipt(receipt: Receipt): void {
    const { head } = this.flow.pending;
    switch (this.link.ready ? this.receipts.take(receipt) : 'late') {
      case 'taken':
        return this.link.receiptSeen(this.now);
      case 'late':
        this.lateReceipts += 1;
        return;
      case 'mismatch':
        return this.restart('disconnect', receiptMismatch(this.config.topic, receipt, head!));
    }
  }

  private takeSendError({ sequenceId, code, message }: SendRefusal): void {
    const error = new BrokerError(`SEND ${sequenceId} to '${this.config.topic}'`, code, message);
    const frame = this.flow.pending.find(sequenceId);
    if (frame === undefined || !this.link.ready) {
      this.lateReceipts += 1;
      return;
    }
    markRefused(frame);
    const rule = serverErrorRule(code);
    switch (rule.send) {
      case 'item':
        return this.outcomes.failFrame(frame, error);
      case 'terminal':
        this.ending ??= error;
        return;
      case 'restart':
        if (this.flow.pending.hasAfter(frame)) {
          this.orderBroken += 1;
          this.actions.push({ kind: 'orderBroken', sequenceId: frame.sequenceId, error });
        }
        this.leftGeneration = this.generation;
        this.flow.pending.doubtAllBut(frame);
        return this.restart('closeProducer', error);
    }
  }

  /**
   * The link was left because of another frame, or the broker has closed the producer (then the end of a topic is told in no
   * other way): the frame is marked, and sent again if that can help.
   */
  private takeLateSendError({ sequenceId, code, message }: SendRefusal): void {
    const frame = this.flow.pending.find(sequenceId);
    if (frame === undefined) return;
    markRefused(frame);
    if (serverErrorRule(code).send !== 'terminal') return;
    this.ending ??= new BrokerError(`SEND ${sequenceId} to '${this.config.topic}'`, code, message);
  }

  /** Leaves the link and opens the producer again; all pending frames will be sent once more. */
  private restart(how: 'closeProducer' | 'disconnect', error: TransportError): void {
    this.actions.push({ kind: 'leave', generation: this.generation, how });
    this.down('restart', error);
  }

  private terminate(error: TransportError): void {
    this.ending = undefined;
    if (this.phase === 'terminated' || this.phase === 'closed') return;
    this.flow.linkDown();
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
    if (this.link.checkSilence(now) && this.pendingFrames > 0) {
      this.restart('disconnect', silentLink(this.config.topic));
    }
    if (now >= this.link.dialAt) this.link.dial('elapsed');
  }

  private pump(wallTime: number): void {
    const { flow, outcomes, link } = this;
    if (this.phase === 'closed' || this.phase === 'terminated' || !link.everUp) return;
    if (!link.ready) return flow.wait();
    let settled: number;
    do {
      settled = outcomes.settled;
      flow.pump(this.now, wallTime);
      // What could not be encoded has given its permit back: somebody may wait for it.
    } while (outcomes.settled !== settled && flow.admission.waitingCount > 0);
    flow.pumped(outcomes.flushing || this.draining);
  }

  private finish(): void {
    this.outcomes.tellFlushes();
    if (this.draining && this.phase !== 'closed' && this.outcomes.settled === this.submitted) {
      this.link.end('close');
      this.flow.admission.end();
      this.closeDeadline = Infinity;
      this.createDeadline = Infinity;
      this.actions.push({ kind: 'closed' });
    }
  }
}
