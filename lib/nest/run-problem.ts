import { errorText } from '../error-text.js';
import { TimeoutError, TransportError } from '../errors.js';
import { type Failure } from './failure-policy.js';
import { type HandlerRun } from './handler-run.js';

/** What went wrong in a run of a handler; the first thing counts. */
export interface RunProblem {
  readonly error: unknown;
  readonly kind: Failure['kind'];
  /** See `Failure.masked`. */
  readonly masked: boolean;
}

/** @param what is not done within `limit` ms */
export function timedOut({ entry, task }: HandlerRun, what: string, limit: number): RunProblem {
  const text = `${entry.name} on '${task.topic}': ${what} within ${limit} ms`;
  const error = new TimeoutError(text, limit, { code: 'ERR_HANDLER_TIMEOUT' });
  return { error, kind: 'timeout', masked: false };
}

export function undecodable({ task }: HandlerRun, cause: unknown): RunProblem {
  const text = `The payload on '${task.topic}' could not be decoded: ${errorText(cause)}`;
  const error = new TransportError('ERR_SERIALIZATION', text, { cause });
  return { error, kind: 'undecodable', masked: false };
}

/** @param problem `undefined`: the handler itself asked for something else than success */
export function describeFailure(run: HandlerRun, problem: RunProblem | undefined): Failure {
  const { task, entry, attempt } = run;
  const { delivery, host } = task;
  const { error, kind, masked } = problem ?? { error: undefined, kind: 'handler', masked: false };
  return {
    error,
    kind,
    masked,
    handler: entry.name,
    pattern: entry.filter,
    topic: task.topic,
    qos: delivery.message.qos,
    attempt,
    run: run.run,
    ageMs: host.clock.now() - delivery.receivedAt,
    request: run.reply !== undefined,
  };
}
