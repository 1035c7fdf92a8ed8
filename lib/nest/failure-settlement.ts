import { type Logger } from '@nestjs/common';
import { lastValueFrom } from 'rxjs';
import { isTransportError, TimeoutError } from '../errors.js';
import { type MqttDelivery } from '../mqtt/index.js';
import { CallbackDeadline } from './deadline-queue.js';
import { runOutsideScopes } from './delivery-scope.js';
import { deadLetterOf } from './dead-letter.js';
import { type DeliveryTask, type FinalStepOfRun } from './delivery-task.js';
import { checkedDecision, decideByTable, type Failure, fullForm, type ResolvedDecision } from './failure-policy.js';
import { type HoldReason, holdReason } from './hold-reason.js';
import { type HandlerRun } from './handler-run.js';
import { type DeadLetterOptions } from './mqtt-server-options.js';
import { loggedByNest } from './nest-log.js';
import { isPromiseLike } from './promise-like.js';
import { type TaskHost } from './task-host.js';

/** What the settlement of failures needs of the strategy. */
export interface FailureHost extends TaskHost {
  readonly logger: Logger;
  readonly deadLetter: DeadLetterOptions | undefined;
  /** Acknowledges with this reason code and frees place and key. */
  settle(
    task: DeliveryTask,
    outcome: 'succeeded' | 'discarded' | 'rejected' | 'deadLettered',
    reasonCode?: number,
  ): void;
  /** Stays un-acknowledged until it is redelivered or run again. */
  hold(task: DeliveryTask, reason: HoldReason, failure: Failure, again?: () => void): void;
  /** Something of the shutdown may wait for this. */
  roundEnded(): void;
  halt(task: DeliveryTask, failure: Failure): void;
}

/** From the failed runs of a round to what happens to the delivery. */
export class FailureSettlement {
  constructor(private readonly host: FailureHost) {}

  failed(task: DeliveryTask, runs: readonly HandlerRun[]): void {
    const { host } = this;
    host.stats.failedRuns += runs.length;
    const decisions = runs.map((run) => this.decide(run, run.describeFailure()));
    if (decisions.some((decision) => decision instanceof Promise)) void this.applyLater(task, runs, decisions);
    else this.apply(task, runs, decisions as ResolvedDecision[]);
  }

  /** The shutdown waits for it; a running place is not needed meanwhile. */
  private async applyLater(
    task: DeliveryTask,
    runs: readonly HandlerRun[],
    decisions: readonly (ResolvedDecision | Promise<ResolvedDecision>)[],
  ): Promise<void> {
    const { host } = this;
    host.openRounds += 1;
    this.setAside(task);
    const resolved = await Promise.all(decisions.map((decision) => Promise.resolve(decision)));
    host.openRounds -= 1;
    this.apply(task, runs, resolved);
    host.roundEnded();
  }

  /** It keeps key and window place, and frees its running place. */
  private setAside(task: DeliveryTask): void {
    if (task.delivery.state === 'running') this.host.client.retry(task.delivery);
    this.host.gate.yieldSlot(task);
  }

  private decide(run: HandlerRun, failure: Failure): ResolvedDecision | Promise<ResolvedDecision> {
    const policy = run.entry.options.failure;
    const random = this.host.clock.random();
    this.report(run, failure);
    if (run.directive !== undefined) return run.directive;
    if (policy.decide === undefined) return decideByTable(policy, failure, random);
    const complete = (given: unknown): ResolvedDecision => fullForm(checkedDecision(given), policy, failure, random);
    const broken = (error: unknown): ResolvedDecision => {
      this.host.logger.error(
        `The failure policy of ${failure.handler} failed, the message is redelivered: ${text(error)}`,
      );
      return { action: 'redeliver' };
    };
    try {
      const given = policy.decide(failure, run.context);
      if (!isPromiseLike(given)) return complete(given);
      return this.bounded(given, run.entry.options.handlerTimeout).then(complete).catch(broken);
    } catch (error) {
      return broken(error);
    }
  }

  /** A policy that never decides must not keep the message for ever. */
  private bounded(given: PromiseLike<unknown>, limit: number): Promise<unknown> {
    if (limit === 0) return Promise.resolve(given);
    const { clock, deadlines } = this.host;
    return new Promise((resolve, reject) => {
      const deadline = new CallbackDeadline(() =>
        reject(new TimeoutError(`no decision within ${limit} ms`, limit, { code: 'ERR_HANDLER_TIMEOUT' })),
      );
      deadlines.add(deadline, clock.now(), limit);
      Promise.resolve(given)
        .finally(() => deadlines.remove(deadline))
        .then(resolve, reject);
    });
  }

  private apply(task: DeliveryTask, runs: readonly HandlerRun[], decisions: readonly ResolvedDecision[]): void {
    const { host } = this;
    const now = host.clock.now();
    if (task.run === 1) task.firstRunAt = now;
    let delay = -1;
    const again = runs.filter((run, index) => {
      const decision = decisions[index];
      if (
        decision.action === 'retry' &&
        // A requester that got values would get them twice.
        (run.reply === undefined || run.reply.sent === 0) &&
        now - task.firstRunAt + decision.delayMs <= run.entry.options.failure.maxHold
      ) {
        delay = Math.max(delay, decision.delayMs);
        return true;
      }
      (task.finals ??= []).push({ run, decision: this.permitted(run, decision) });
      return false;
    });
    if (again.length === 0) {
      void this.finish(task, task.finals ?? []);
      return;
    }
    task.pending = again.map((run) => run.entry);
    host.stats.retries += 1;
    this.setAside(task);
    host.deadlines.add(new CallbackDeadline(() => host.gate.enter(task)), now, delay);
  }

  /** What may be unknown to us may be stored: it is never treated as if it were not. And QoS 0 cannot come again. */
  private permitted(run: HandlerRun, decision: ResolvedDecision): ResolvedDecision {
    const { policy, failure } = { policy: run.entry.options.failure, failure: run.describeFailure() };
    let step: ResolvedDecision = decision;
    // The time for local retries is over: what the table says for the end.
    if (step.action === 'retry') step = fullForm(policy.then, policy, failure, 0);
    const ambiguous = isTransportError(failure.error) && failure.error.ambiguous;
    const lost = failure.qos === 0 && step.action === 'deadLetter';
    if (ambiguous && run.directive === undefined && step.action !== 'halt' && !lost) step = { action: 'redeliver' };
    if (step.action === 'deadLetter' && this.host.deadLetter === undefined) step = { action: 'redeliver' };
    if (failure.qos === 0 && (step.action === 'redeliver' || step.action === 'reject')) return { action: 'discard' };
    return step;
  }

  /** The shutdown waits for it: a dead letter on its way is not left without its acknowledgement. */
  private async finish(task: DeliveryTask, finals: readonly FinalStepOfRun[]): Promise<void> {
    this.host.openRounds += 1;
    try {
      await this.perform(task, finals);
    } finally {
      this.host.openRounds -= 1;
      this.host.roundEnded();
    }
  }

  private async perform(task: DeliveryTask, finals: readonly FinalStepOfRun[]): Promise<void> {
    const { host } = this;
    // A request is settled by its error reply; only one that cannot be delivered now keeps it.
    const open: FinalStepOfRun[] = [];
    for (const final of finals) {
      const { run, decision } = final;
      if (run.reply === undefined || decision.action === 'halt') open.push(final);
      else {
        const outcome = await run.reply.error(run.filtered === undefined ? INTERNAL_ERROR : run.filtered.error);
        if (typeof outcome === 'object') open.push({ run, decision: { action: 'redeliver' } });
        else if (decision.action === 'deadLetter') open.push(final);
      }
    }
    const strongest = ORDER.find((action) => open.some(({ decision }) => decision.action === action));
    const first = open.find(({ decision }) => decision.action === strongest);
    if (first === undefined) {
      host.settle(task, 'succeeded');
      return;
    }
    const failure = first.run.describeFailure();
    task.pending = open.map(({ run }) => run.entry);
    switch (first.decision.action) {
      case 'halt':
        host.halt(task, failure);
        return;
      case 'deadLetter':
        await this.deadLetter(task, open);
        return;
      case 'reject':
        host.settle(task, 'rejected', host.client.protocolVersion === 5 ? first.decision.reasonCode : 0);
        return;
      case 'discard':
        host.settle(task, 'discarded');
        return;
      default:
        host.hold(task, holdReason(open.map(({ run }) => run.describeFailure())), failure);
    }
  }

  private async deadLetter(task: DeliveryTask, open: readonly FinalStepOfRun[]): Promise<void> {
    const { host } = this;
    const target = host.deadLetter as DeadLetterOptions;
    // A slow target takes no running places. A copy that the broker sends meanwhile starts nothing.
    this.setAside(task);
    try {
      for (const { run, decision } of open) {
        if (decision.action !== 'deadLetter') continue;
        const failure = run.describeFailure();
        await sendDeadLetter(target, task.delivery, failure, decision.reason, host);
      }
    } catch (error) {
      host.stats.deadLetterFailures += 1;
      const failure = open[0].run.describeFailure();
      host.logger.error(
        `The dead letter of a message on '${failure.topic}' was not taken, the message is kept: ${text(error)}`,
      );
      // Only the dead letter is tried again, not the handlers.
      host.hold(task, 'deadLetter', failure, () => void this.finish(task, open));
      return;
    }
    host.settle(task, 'deadLettered');
  }

  /** The error itself is said once: by Nest, with its stack, or here. */
  private report({ filtered }: HandlerRun, failure: Failure): void {
    const { handler, topic, attempt, run, kind, error } = failure;
    const what = kind === 'handler' && loggedByNest(filtered, error) ? '' : `: ${text(error)}`;
    this.host.logger.error(
      `${handler} failed (${kind}) for a message on '${topic}', attempt ${attempt}, run ${run}${what}`,
    );
  }
}

/** The strongest step that one of the failed handlers asks for is what happens to the message. */
const ORDER = ['halt', 'redeliver', 'deadLetter', 'reject', 'discard'] as const;

/** Emits the dead letter and waits for its receipt. */
export async function sendDeadLetter(
  target: DeadLetterOptions,
  delivery: MqttDelivery,
  failure: Pick<Failure, 'error' | 'attempt' | 'run' | 'kind'> | undefined,
  reason: string | undefined,
  host: Pick<TaskHost, 'clock' | 'wallTimeAt'>,
): Promise<void> {
  const { topic } = delivery.message;
  const pattern = typeof target.pattern === 'function' ? target.pattern(topic) : target.pattern;
  const record = deadLetterOf(
    target.client,
    delivery,
    failure,
    reason,
    host.wallTimeAt(delivery.receivedAt),
    host.clock.wallTime(),
  );
  await runOutsideScopes(() => lastValueFrom(target.client.emit(pattern, record), { defaultValue: undefined }));
}

/** What Nest tells a requester of an error that is not meant for it: here what failed outside of the handler's result. */
const INTERNAL_ERROR = { status: 'error', message: 'Internal server error' };

function text(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
