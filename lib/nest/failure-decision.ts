import { type Logger } from '@nestjs/common';
import { errorText } from '../error-text.js';
import { isTransportError, TimeoutError } from '../errors.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { CallbackDeadline } from './deadline-queue.js';
import { checkedDecision, decideByTable, fullForm, hasRunsLeft, type ResolvedDecision } from './failure-policy.js';
import { type HandlerRun } from './handler-run.js';
import { type Directive } from './mqtt-message.context.js';
import { loggedByNest } from './nest-log.js';
import { isPromiseLike } from './promise-like.js';
import { type RunEnd } from './run-end.js';
import { type TaskHost } from './task-host.js';

/** What deciding needs of the strategy. */
export interface DecisionHost extends Pick<TaskHost, 'clock' | 'deadlines'> {
  readonly logger: Logger;
  readonly deadLetter: DeadLetterTarget | undefined;
}

/** From a failed run to what its policy, or the handler itself, says about it. Changes nothing. */
export class FailureDecision {
  constructor(private readonly host: DecisionHost) {}

  decide(run: HandlerRun): ResolvedDecision | Promise<ResolvedDecision> {
    const failure = run.describeFailure();
    const policy = run.entry.options.failure;
    const random = this.host.clock.random();
    if (run.directive !== undefined) return run.directive;
    if (policy.decide === undefined || hasRunsLeft(policy, failure)) return decideByTable(policy, failure, random);
    const complete = (given: unknown): ResolvedDecision => fullForm(checkedDecision(given), policy, failure, random);
    const broken = (error: unknown): ResolvedDecision => {
      this.host.logger.error(
        `The failure policy of ${failure.handler} failed, the message is redelivered: ${errorText(error)}`,
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

  /**
   * What a decision comes to where there is no further run. What may be stored although it failed is never treated as if it
   * were not, and QoS 0 cannot come again.
   */
  final(run: HandlerRun, decision: ResolvedDecision): ResolvedDecision {
    const { policy, failure } = { policy: run.entry.options.failure, failure: run.describeFailure() };
    let step: ResolvedDecision = decision;
    // The time for local retries is over: what the table says for the end.
    if (step.action === 'retry') step = fullForm(policy.then, policy, failure, 0);
    const ambiguous = isTransportError(failure.error) && failure.error.ambiguous;
    const lost = failure.qos === 0 && step.action === 'deadLetter';
    if (ambiguous && run.directive === undefined && step.action !== 'halt' && !lost) step = { action: 'redeliver' };
    if (step.action === 'deadLetter' && this.host.deadLetter === undefined) {
      this.host.logger.error(
        `No deadLetter target is configured for what ${failure.handler} dead-letters, a message on '${failure.topic}': ` +
          `treated as 'redeliver'`,
      );
      step = { action: 'redeliver' };
    }
    if (failure.qos !== 0) return step;
    // The error reply settles a request, whatever its QoS.
    const answered = step.action === 'redeliver' && run.reply !== undefined && !run.unanswered;
    return !answered && (step.action === 'redeliver' || step.action === 'reject') ? { action: 'discard' } : step;
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

  /**
   * Says once what is decided: which run failed and what comes next. The error itself is said by Nest, with its stack, or
   * here.
   *
   * @param goesOn there is a further run: no reason to wake anybody
   */
  report(run: HandlerRun, next: string, goesOn: boolean): void {
    const { filtered, directive, entry } = run;
    const failure = run.describeFailure();
    const { handler, topic, attempt, kind, error } = failure;
    const { attempts } = entry.options.failure;
    const of = attempts > 1 && failure.run <= attempts && kind !== 'undecodable' ? ` of ${attempts}` : '';
    const where = `for a message on '${topic}', attempt ${attempt}, run ${failure.run}${of}, ${next}`;
    const { logger } = this.host;
    if (directive !== undefined && error === undefined && filtered === undefined) {
      logger.warn(`${handler} asked for ${inWords(directive)} ${where}`);
      return;
    }
    const what = kind === 'handler' && loggedByNest(filtered, error) ? '' : `: ${errorText(error)}`;
    // An error's text may have lines; a topic with control characters does not get here.
    const line = `${handler} failed (${kind}) ${where}${what}`.replace(/\s*[\r\n]+\s*/g, ' ');
    if (goesOn) logger.warn(line);
    else logger.error(line);
  }
}

/** What follows for a message none of whose handlers runs again. */
export function endInWords({ action, decision }: RunEnd, protocolVersion: 4 | 5 | undefined): string {
  switch (action) {
    case 'halt':
      return 'halted';
    case 'redeliver':
      return 'held';
    case 'deadLetter':
      return 'goes to the dead-letter target';
    case 'reject':
      return decision.action === 'reject' && protocolVersion === 5
        ? `rejected with 0x${decision.reasonCode.toString(16)}`
        : 'rejected';
    case 'answered':
      return 'answered with an error reply';
    default:
      return 'discarded';
  }
}

function inWords(directive: Directive): string {
  switch (directive.action) {
    case 'retry':
      return `another run in ${directive.delayMs} ms`;
    case 'deadLetter':
      return directive.reason === undefined ? 'a dead letter' : `a dead letter (${directive.reason})`;
    case 'reject':
      return `a rejection (0x${directive.reasonCode.toString(16)})`;
  }
}
