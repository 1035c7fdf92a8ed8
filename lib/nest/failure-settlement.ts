import { errorText } from '../error-text.js';
import { CallbackDeadline } from './deadline-queue.js';
import { sendDeadLetter } from './dead-letter.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { type DeliveryTask } from './delivery-task.js';
import { type DecisionHost, endInWords, FailureDecision } from './failure-decision.js';
import { type Failure, type ResolvedDecision } from './failure-policy.js';
import { type HandlerRun } from './handler-run.js';
import { type HoldReason, holdReason } from './hold-reason.js';
import { RunEnd, strongestEnd } from './run-end.js';
import { type TaskHost } from './task-host.js';

/** What the settlement of failures needs of the strategy. */
export interface FailureHost extends TaskHost, DecisionHost {
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

/**
 * From the failed runs of a round to what happens to the delivery. First every failed handler is decided about: another
 * run, or an end (`RunEnd`). When none runs again, the ends are performed in this order: error replies, then the strongest
 * action of all, dead letters before the acknowledgement. What cannot be done now is tried again, and only that.
 */
export class FailureSettlement {
  private readonly decision: FailureDecision;

  constructor(private readonly host: FailureHost) {
    this.decision = new FailureDecision(host);
  }

  failed(task: DeliveryTask, runs: readonly HandlerRun[]): void {
    this.host.stats.failedRuns += runs.length;
    const decisions = runs.map((run) => this.decision.decide(run));
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

  /** It keeps key and window place, and frees its running place. A copy that the broker sends meanwhile starts nothing. */
  private setAside(task: DeliveryTask): void {
    if (task.delivery.state === 'running') this.host.client.retry(task.delivery);
    this.host.gate.yieldSlot(task);
  }

  private apply(task: DeliveryTask, runs: readonly HandlerRun[], decisions: readonly ResolvedDecision[]): void {
    const { host } = this;
    const now = host.clock.now();
    let delay = -1;
    const again = runs.filter((run, index) => {
      const decision = decisions[index];
      if (
        decision.action === 'retry' &&
        // A requester that got values would get them twice.
        run.reply?.started !== true &&
        now - task.firstRunAt + decision.delayMs <= run.entry.options.failure.maxHold
      ) {
        delay = Math.max(delay, decision.delayMs);
        run.reply?.mute();
        return true;
      }
      (task.ends ??= []).push(new RunEnd(run, this.decision.final(run, decision)));
      return false;
    });
    this.report(task, runs, again, delay);
    if (again.length === 0) {
      void this.finish(task);
      return;
    }
    task.pending = again.map((run) => run.entry);
    host.stats.retries += 1;
    this.setAside(task);
    host.deadlines.add(new CallbackDeadline(() => host.gate.enter(task)), now, delay);
  }

  private report(task: DeliveryTask, runs: readonly HandlerRun[], again: readonly HandlerRun[], delay: number): void {
    // The others of its handlers succeeded in this round; what ends was said before.
    if (runs.length === 0) return;
    const { decision, host } = this;
    const end =
      again.length > 0
        ? 'waits for a handler that runs again'
        : endInWords(strongestEnd(task.ends!), host.client.protocolVersion);
    for (const run of runs) {
      const goesOn = again.includes(run);
      decision.report(run, goesOn ? `again in ${Math.round(delay)} ms` : end, goesOn);
    }
  }

  /** The shutdown waits for it: a dead letter on its way is not left without its acknowledgement. */
  private async finish(task: DeliveryTask): Promise<void> {
    this.host.openRounds += 1;
    try {
      await this.perform(task, task.ends ?? []);
    } finally {
      this.host.openRounds -= 1;
      this.host.roundEnded();
    }
  }

  private async perform(task: DeliveryTask, ends: readonly RunEnd[]): Promise<void> {
    const { host } = this;
    const unreachable = await this.reply(ends);
    const strongest = strongestEnd(ends);
    const { action } = strongest;
    if (action === 'halt') {
      host.halt(task, strongest.describeFailure());
      return;
    }
    if (action === 'redeliver') {
      const failures = ends.filter(({ begun }) => !begun).map((end) => end.describeFailure());
      host.hold(task, holdReason(failures), strongest.describeFailure());
      return;
    }
    if (unreachable !== undefined) {
      this.keep(task, 'message', `The error reply to a request on '${task.topic}'`, ends[0], unreachable.error);
      return;
    }
    const letters = await this.sendLetters(task, ends);
    if (letters !== undefined) {
      host.stats.deadLetterFailures += 1;
      this.keep(task, 'deadLetter', `The dead letter of a message on '${task.topic}'`, strongest, letters.error);
      return;
    }
    const { decision } = strongest;
    if (decision.action === 'reject') {
      host.settle(task, 'rejected', host.client.protocolVersion === 5 ? decision.reasonCode : 0);
    } else
      host.settle(task, action === 'deadLetter' ? 'deadLettered' : action === 'discard' ? 'discarded' : 'succeeded');
  }

  /** A request is settled by its error reply; only one that cannot be delivered now keeps it. @returns why one could not */
  private async reply(ends: readonly RunEnd[]): Promise<{ readonly error: unknown } | undefined> {
    let unreachable: { readonly error: unknown } | undefined;
    for (const end of ends) {
      const outcome = await end.reply();
      if (typeof outcome === 'object') unreachable ??= outcome;
    }
    return unreachable;
  }

  /** One for each handler that asks for it. @returns why one was not taken; the others behind it were not tried then */
  private async sendLetters(
    task: DeliveryTask,
    ends: readonly RunEnd[],
  ): Promise<{ readonly error: unknown } | undefined> {
    for (const end of ends) {
      if (!end.owesLetter) continue;
      // A slow target takes no running places.
      this.setAside(task);
      const { decision } = end;
      const reason = decision.action === 'deadLetter' ? decision.reason : undefined;
      try {
        const target = this.host.deadLetter as DeadLetterTarget;
        await sendDeadLetter(target, task.delivery, end.describeFailure(), reason, this.host);
      } catch (error) {
        return { error };
      }
      end.letterWasTaken();
    }
    return undefined;
  }

  /** What is missing is tried again, the handlers are not. */
  private keep(task: DeliveryTask, reason: HoldReason, what: string, end: RunEnd, error: unknown): void {
    this.setAside(task);
    this.host.logger.error(`${what} was not taken, the message is kept: ${errorText(error)}`);
    this.host.hold(task, reason, end.describeFailure(), () => void this.finish(task));
  }
}
