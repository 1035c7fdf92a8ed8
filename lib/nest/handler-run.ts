import { isObservable, type Observable, type Unsubscribable } from 'rxjs';
import { LocalProtocolError, TransportError } from '../errors.js';
import { type MqttMessage } from '../mqtt/index.js';
import { describeValue } from '../option-checks.js';
import { type BatchRun } from './batch-run.js';
import { Deadline } from './deadline-queue.js';
import { type DeliveryTask } from './delivery-task.js';
import { DetachedHandle } from './detached-handle.js';
import { type EmitScope } from './emit-scope.js';
import { type Failure } from './failure-policy.js';
import { type PayloadDecoder } from './handler-options.js';
import { type HandlerEntry } from './handler-registry.js';
import { cancelOutcome, type OutcomeSink, runHandler } from './handler-outcome.js';
import {
  type DetachedDelivery,
  type DetachOptions,
  type Directive,
  MqttMessageContext,
  type RunControl,
} from './mqtt-message.context.js';
import { isPromiseLike } from './promise-like.js';
import { type ReplyStream } from './reply-stream.js';
import { describeFailure, type RunProblem, timedOut, undecodable } from './run-problem.js';

/**
 * One run of one handler for one delivery: from the decoded payload to the end of everything it started. It ended well
 * when the handler's result is complete, its emits have their receipts, its `waitUntil` work is done, its replies are
 * accepted and its detached handle, if it took one, was acknowledged. It is its own entry in the deadline queue.
 */
export class HandlerRun extends Deadline implements OutcomeSink, RunControl {
  outcome: Unsubscribable | undefined = undefined;
  context!: MqttMessageContext;
  reply: ReplyStream | undefined = undefined;
  /** The call that it shares with other messages. */
  batch: BatchRun | undefined = undefined;
  /** What Nest's exception filters made of the error: for the requester. */
  filtered: { readonly error: unknown } | undefined = undefined;
  /** What the handler asked for instead of what the failure policy says. */
  directive: Directive | undefined = undefined;
  /** Its handler has ended while its detached handle is open: it needs no running place. */
  parked = false;
  /** Of its task when it began. */
  readonly run: number;
  readonly attempt: number;

  private startedAt = 0;
  private limit = 0;
  private handlerEnded = false;
  private ended = false;
  private holds = 0;
  private problem: RunProblem | undefined = undefined;
  private recorded: { error: unknown } | undefined = undefined;
  private scope: EmitScope | undefined = undefined;
  private awaitingScope = false;
  private handle: DetachedHandle | undefined = undefined;
  private replyUndelivered = false;
  private controller: AbortController | undefined = undefined;

  constructor(
    readonly task: DeliveryTask,
    readonly entry: HandlerEntry,
  ) {
    super();
    this.run = task.run;
    this.attempt = task.delivery.attempt;
  }

  get failed(): boolean {
    return this.problem !== undefined || this.directive !== undefined;
  }

  /** A value could not be delivered now, and the requester has none: only a further run can give it one. */
  get unanswered(): boolean {
    return this.replyUndelivered && this.reply?.started !== true;
  }

  start(): void {
    const { task, entry } = this;
    const { host } = task;
    this.context = new MqttMessageContext(task.delivery, entry.filter, this, host.wallTimeAt);
    const { failure, handlerTimeout, decode } = entry.options;
    this.limit = failure.perAttemptTimeout ?? handlerTimeout;
    if (this.limit > 0) {
      this.startedAt = task.begunAt;
      host.deadlines.add(this, this.startedAt, this.limit);
    }
    const { message } = task.delivery;
    if (entry.isEvent && decode === undefined) {
      this.invoke(message.payload);
      return;
    }
    try {
      const opened = entry.isEvent ? undefined : host.openReply(this);
      this.reply = opened?.reply;
      if (this.reply !== undefined && task.expired) {
        this.expire();
        return;
      }
      const data = opened?.data === undefined ? decoded(message, decode) : opened.data.value;
      if (isPromiseLike(data)) {
        data.then(
          (value) => this.invoke(value),
          (error: unknown) => this.notDecoded(error),
        );
      } else {
        this.invoke(data);
      }
    } catch (error) {
      this.notDecoded(error);
    }
  }

  /** What a policy sees. Only after `failed`. */
  describeFailure(): Failure {
    return describeFailure(this, this.problem);
  }

  // What the handler's result says (OutcomeSink).

  handlerValue(value: unknown): void {
    if (!this.handlerEnded && this.directive === undefined) this.reply?.next(value);
  }

  handlerSucceeded(): void {
    if (this.handlerEnded) {
      this.late();
      return;
    }
    this.handlerEnded = true;
    this.scope?.complete();
    if (this.ended) {
      this.task.host.abortable.delete(this);
      this.reply?.complete();
      return;
    }
    // The common case: nothing else of this run is open.
    if (this.scope === undefined && this.holds === 0 && this.handle === undefined && this.reply === undefined)
      this.end();
    else {
      this.reply?.end();
      this.check();
    }
  }

  handlerFailed(error: unknown): void {
    if (this.handlerEnded) {
      this.late();
      return;
    }
    this.handlerEnded = true;
    if (this.ended) {
      this.task.host.abortable.delete(this);
      void this.reply?.error(error);
      return;
    }
    if (this.handle?.pending === true) this.handle.close();
    this.filtered = { error };
    this.problem ??= {
      error: this.recorded === undefined ? error : this.recorded.error,
      kind: 'handler',
      masked: this.recorded === undefined,
    };
    this.check();
  }

  /** The handler's time or the detached handle's time is over. While an emit is pending the clock stands still. */
  override onDeadline(now: number): void {
    const limit = this.parked ? this.handle!.timeout : this.limit;
    const stopped = (this.scope ?? this.batch)?.stoppedMs(now) ?? 0;
    // The time that a batch takes to fill is not the handler's.
    const began = this.batch?.beganAt(now) ?? this.startedAt;
    const left = began + stopped + limit - now;
    if (!this.parked && left > 0) {
      this.task.host.deadlines.add(this, now, left);
      return;
    }
    const what = this.parked ? 'its detached handle was not used' : 'not finished';
    this.problem ??= timedOut(this, what, limit);
    this.task.host.stats.timedOut += 1;
    this.abandonHandler(this.problem.error);
    this.check();
  }

  /** The call that it shared with other messages failed for this one. */
  batchFailed(error: unknown, kind: 'handler' | 'emit', masked: boolean): void {
    if (this.handlerEnded) {
      this.late();
      return;
    }
    this.handlerEnded = true;
    this.problem ??= { error, kind, masked };
    this.check();
  }

  // What the context asks for (RunControl).

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      const { abortReason } = this.task.host;
      if (abortReason !== undefined) {
        // Behind the bound of the shutdown: what a handler gives up now has not succeeded.
        if (!this.ended) this.problem ??= { error: abortReason, kind: 'timeout', masked: false };
        this.controller.abort(abortReason);
      } else if (this.ended) this.controller.abort(new TransportError('ERR_ABORTED', 'The run of the handler is over'));
      else this.task.host.abortable.add(this);
    }
    return this.controller.signal;
  }

  /** The end of `shutdownTimeout`, or `destroy()`. However the handler ends now, perhaps because its signal told it, counts for nothing. */
  abort(reason: unknown): void {
    if (!this.ended) {
      this.problem ??= { error: reason, kind: 'timeout', masked: false };
      this.abandonHandler(reason);
      this.check();
      return;
    }
    // A stream that goes on after its request was acknowledged.
    this.controller?.abort(reason);
    cancelOutcome(this);
  }

  waitUntil(work: PromiseLike<unknown> | Observable<unknown>): void {
    if (this.ended) throw new LocalProtocolError('waitUntil(): the run of the handler is over');
    if (!isObservable(work) && !isPromiseLike(work)) {
      throw new LocalProtocolError(`waitUntil(): expected a promise or an Observable, received ${describeValue(work)}`);
    }
    this.holds += 1;
    const done = (): void => {
      this.holds -= 1;
      this.check();
    };
    const failed = (error: unknown): void => {
      this.problem ??= { error, kind: 'handler', masked: false };
      done();
    };
    if (isObservable(work)) work.subscribe({ error: failed, complete: done });
    else work.then(done, failed);
  }

  detach(options: DetachOptions): DetachedDelivery {
    if (this.ended || this.handlerEnded) throw new LocalProtocolError('detach(): the run of the handler is over');
    if (this.handle !== undefined) throw new LocalProtocolError('detach(): the run has its handle already');
    const { timeout = this.entry.options.detachTimeout } = options;
    if (!(timeout >= 0)) throw new LocalProtocolError(`detach(): expected timeout in ms >= 0, received ${timeout}`);
    this.handle = new DetachedHandle(timeout, (failure) => this.handleUsed(failure));
    return this.handle;
  }

  direct(directive: Directive): boolean {
    if (this.ended || this.reply?.completed === true) return false;
    this.directive = directive;
    this.reply?.mute();
    return true;
  }

  recordFailure(error: unknown): void {
    this.recorded = { error };
  }

  /** @internal a reply was accepted, or cannot be delivered now (`failure`). */
  replyProgress(failure: { error: unknown } | undefined): void {
    if (failure !== undefined && this.ended) this.task.host.stats.replyFailed += 1;
    else if (failure !== undefined) {
      this.problem ??= { error: failure.error, kind: 'handler', masked: false };
      this.replyUndelivered = true;
      this.reply!.freeze();
    }
    if (this.entry.options.acknowledge === 'onFirstReply' && !this.ended && !this.failed && this.reply!.accepted > 0) {
      this.end();
      // The stream goes on by itself; only shutdown ends it.
      if (!this.handlerEnded) this.task.host.abortable.add(this);
    }
    this.check();
  }

  private invoke(data: unknown): void {
    if (this.handlerEnded) return;
    const { host } = this.task;
    const { callback } = this.entry;
    if (this.entry.collector !== undefined) {
      this.entry.collector.add(this, data);
      return;
    }
    const scope = host.openScope(this.entry);
    if (scope === undefined) {
      runHandler(callback, data, this.context, host.hooks, this);
    } else {
      this.scope = scope;
      scope.owner = this;
      scope.run(() => runHandler(callback, data, this.context, host.hooks, this));
    }
  }

  private notDecoded(error: unknown): void {
    if (this.handlerEnded) return;
    this.handlerEnded = true;
    this.problem = undecodable(this, error);
    this.check();
  }

  /** The requester has given up: nobody reads the reply [MQTT5 3.3.2.3.3]. */
  private expire(): void {
    this.task.host.stats.expired += 1;
    this.handlerEnded = true;
    this.reply = undefined;
    this.check();
  }

  private handleUsed(failure: { error: unknown } | undefined): void {
    if (failure !== undefined) this.problem ??= { error: failure.error, kind: 'handler', masked: false };
    this.handlerEnded = true;
    this.check();
  }

  /** Nothing that the handler does from now on counts; what it left open is ended, unwritten emits are cancelled. */
  private abandonHandler(reason: unknown): void {
    this.handlerEnded = true;
    this.handle?.close();
    this.controller?.abort(reason);
    cancelOutcome(this);
    this.scope?.cancelUnwritten();
    this.batch?.abandon();
  }

  /** Ends the run if nothing of it is open any more. */
  private check(): void {
    if (!this.handlerEnded || this.ended) return;
    if (this.problem === undefined) {
      if (this.handle?.pending === true) {
        this.park();
        return;
      }
      if (this.holds > 0) return;
    }
    // Written emits are awaited also after a failure: a retry must not overtake them.
    if (this.scope !== undefined && this.scope.pending > 0) {
      if (this.awaitingScope) return;
      this.awaitingScope = true;
      this.scope.whenIdle(() => {
        this.awaitingScope = false;
        this.check();
      });
      return;
    }
    // Behind a masked error of a handler whose emit failed stands that emit.
    const emit = this.problem?.masked === true ? this.scope?.observedFailure() : this.scope?.failure();
    if (emit !== undefined && (this.problem === undefined || this.problem.masked)) {
      this.problem = { error: emit.error, kind: 'emit', masked: false };
    }
    if (this.reply !== undefined && !this.failed) {
      // The last reply leaves when everything else is done. A broker that is away then does not make the handler slow.
      this.task.host.deadlines.remove(this);
      this.reply.complete();
      if (this.reply.pending) return;
    }
    this.end();
  }

  private park(): void {
    if (this.parked) return;
    this.parked = true;
    const { host } = this.task;
    const { timeout } = this.handle!;
    host.deadlines.remove(this);
    if (timeout > 0) {
      this.startedAt = host.clock.now();
      host.deadlines.add(this, this.startedAt, timeout);
    }
    this.task.runParked();
  }

  private end(): void {
    this.ended = true;
    const { host } = this.task;
    if (this.failed) this.reply?.freeze();
    if (this.lane !== undefined) host.deadlines.remove(this);
    if (this.controller !== undefined) host.abortable.delete(this);
    this.scope?.close();
    this.handle?.close();
    this.task.runEnded(this);
  }

  private late(): void {
    this.task.host.stats.lateCompletions += 1;
  }
}

function decoded(message: MqttMessage, decode: PayloadDecoder | undefined): unknown {
  return decode === undefined ? message.payload : decode(message.payload, message);
}
