import { type Unsubscribable } from 'rxjs';
import { CallbackDeadline } from './deadline-queue.js';
import { type EmitScope } from './emit-scope.js';
import { type HandlerEntry } from './handler-registry.js';
import { cancelOutcome, type OutcomeSink, runHandler } from './handler-outcome.js';
import { type HandlerRun } from './handler-run.js';
import { MqttBatchContext } from './mqtt-batch.context.js';
import { type TaskHost } from './task-host.js';

/**
 * Gathers the runs of one batch handler until a batch is full or its first message has waited long enough. With ordering keys
 * a batch holds one message per key; it starts with the end of the turn once another message waits for one of its keys, so
 * that a device that sends alone is not slowed down to one message per `delay`, and others that are there still join.
 */
export class BatchCollector {
  private open: BatchRun | undefined = undefined;
  private readonly timer = new CallbackDeadline(() => this.flush());
  private hurried = false;

  constructor(
    private readonly host: TaskHost,
    private readonly entry: HandlerEntry,
    private readonly size: number,
    private readonly delay: number,
  ) {}

  /** The run goes on when the batch has ended. */
  add(run: HandlerRun, data: unknown): void {
    if (this.open === undefined) {
      const batch = new BatchRun(this.host, this.entry, () => {
        if (this.open === batch) this.flush();
      });
      this.open = batch;
      this.host.deadlines.add(this.timer, this.host.clock.now(), this.delay);
    }
    this.open.join(run, data);
    if (this.hurried || this.open.runs.length >= this.size) this.flush();
    else if (this.host.gate.isAwaited(run.task)) this.open.startSoon();
    else run.task.awaitedBy(this.open);
  }

  /** Nothing more comes for now (`true`): what is there starts at once, however few. */
  hurry(on: boolean): void {
    this.hurried = on;
    if (on) this.flush();
  }

  private flush(): void {
    this.host.deadlines.remove(this.timer);
    const batch = this.open;
    this.open = undefined;
    if (batch !== undefined && !batch.ended) batch.start();
  }
}

/** One call of a batch handler. Its emits belong to all of its messages. */
export class BatchRun implements OutcomeSink {
  outcome: Unsubscribable | undefined = undefined;
  ended = false;
  /** In received order once it has started. */
  readonly runs: HandlerRun[] = [];

  private data: unknown[] = [];
  private startsSoon = false;
  private startedAt: number | undefined = undefined;
  private readonly failures = new Map<number, unknown>();
  private scope: EmitScope | undefined = undefined;
  private recorded: { error: unknown } | undefined = undefined;
  private abandoned = false;

  constructor(
    private readonly host: TaskHost,
    private readonly entry: HandlerEntry,
    private readonly flush: () => void,
  ) {}

  /** Another message waits for the key of one of these. */
  startSoon(): void {
    if (this.startsSoon || this.startedAt !== undefined) return;
    this.startsSoon = true;
    this.host.clock.endOfTurn(this.flush);
  }

  join(run: HandlerRun, data: unknown): void {
    this.runs.push(run);
    this.data.push(data);
    run.batch = this;
  }

  start(): void {
    const { host, entry } = this;
    this.startedAt = host.clock.now();
    this.sort();
    const context = new MqttBatchContext(
      this.runs.map((run) => run.context),
      this,
    );
    this.scope = host.openScope(entry);
    const call = (): void => runHandler(entry.callback, this.data, context, host.hooks, this);
    if (this.scope === undefined) call();
    else {
      this.scope.owner = this;
      this.scope.run(call);
    }
  }

  /** Each of its messages is told of, so that none counts as done once it has aborted. */
  get signal(): AbortSignal {
    const signals = this.runs.map(({ signal }) => signal);
    return signals[0];
  }

  failMember(index: number, error: unknown): void {
    this.failures.set(index, error);
  }

  recordFailure(error: unknown): void {
    this.recorded = { error };
  }

  /** When the handler's time began; `now` while the batch is not full. */
  beganAt(now: number): number {
    return this.startedAt ?? now;
  }

  stoppedMs(now: number): number {
    return this.scope?.stoppedMs(now) ?? 0;
  }

  /**
   * The time of one of its runs is over; the others' is as well or will be. However the handler ends now, perhaps early
   * because its signal told it, counts for none of them.
   */
  abandon(): void {
    this.abandoned = this.ended = true;
    cancelOutcome(this);
    this.scope?.cancelUnwritten();
  }

  handlerValue(): void {
    // An event has no answer.
  }

  handlerSucceeded(): void {
    this.scope?.complete();
    this.whenIdle(() => this.endAll(this.scope?.failure(), undefined));
  }

  handlerFailed(error: unknown): void {
    this.whenIdle(() => {
      const masked = this.recorded === undefined;
      // Behind a masked error of a handler whose emit failed stands that emit.
      const emit = masked ? this.scope?.observedFailure() : undefined;
      this.endAll(emit, { error: masked ? error : this.recorded!.error, masked });
    });
  }

  /** Every message has its own end: what was said of it alone, then a failed emit, then how the handler ended. */
  private endAll(emit: { error: unknown } | undefined, failed: { error: unknown; masked: boolean } | undefined): void {
    this.scope?.close();
    if (this.abandoned) return;
    this.ended = true;
    for (const [index, run] of this.runs.entries()) {
      if (this.failures.has(index)) run.batchFailed(this.failures.get(index), 'handler', false);
      else if (emit !== undefined) run.batchFailed(emit.error, 'emit', false);
      else if (failed !== undefined) run.batchFailed(failed.error, 'handler', failed.masked);
      else run.handlerSucceeded();
    }
  }

  /** Decoders that take their time let messages join in another order than they were received in. */
  private sort(): void {
    const { runs, data } = this;
    const sequences = runs.map(({ task }) => task.sequence);
    if (sequences.every((sequence, index) => index === 0 || sequences[index - 1] < sequence)) return;
    const places = [...sequences.keys()].sort((a, b) => sequences[a] - sequences[b]);
    const members = places.map((place) => runs[place]);
    this.data = places.map((place) => data[place]);
    runs.splice(0, runs.length, ...members);
  }

  private whenIdle(callback: () => void): void {
    if (this.scope === undefined || this.scope.pending === 0) callback();
    else this.scope.whenIdle(callback);
  }
}
