import { type Failure, type ResolvedDecision } from './failure-policy.js';
import { type HandlerRun } from './handler-run.js';
import { type ReplyOutcome } from './reply-stream.js';

/** What a decision asks of the message; `answered`: nothing more, its requester has the error reply. */
export type EndAction = ResolvedDecision['action'] | 'answered';

/**
 * The end of a handler that does not run again in this attempt: what was decided, and what of it is done. What is done is
 * never done again, however often the rest has to be tried: one error reply, one dead letter.
 */
export class RunEnd {
  /** There is a requester, and it is told of the error. */
  private readonly answers: boolean;
  private replied = false;
  private letterTaken = false;

  constructor(
    readonly run: HandlerRun,
    readonly decision: ResolvedDecision,
  ) {
    // A halted one runs again. So does one whose value could not be delivered: nothing is wrong with its handler.
    const runsAgain = decision.action === 'halt' || (decision.action === 'redeliver' && run.unanswered);
    this.answers = run.reply !== undefined && !runsAgain;
  }

  get action(): EndAction {
    return this.answers && this.decision.action === 'redeliver' ? 'answered' : this.decision.action;
  }

  /** Something is done, so that its handler cannot run again. */
  get begun(): boolean {
    return this.replied || this.letterTaken;
  }

  get owesLetter(): boolean {
    return this.decision.action === 'deadLetter' && !this.letterTaken;
  }

  describeFailure(): Failure {
    return this.run.describeFailure();
  }

  letterWasTaken(): void {
    this.letterTaken = true;
  }

  /** Tells the requester, if there is one to tell and it was not told. `undefined`: nothing is owed. */
  async reply(): Promise<ReplyOutcome | undefined> {
    if (!this.answers || this.replied) return undefined;
    const outcome = await this.run.reply!.error(errorFor(this.run));
    this.replied = typeof outcome === 'string';
    return outcome;
  }
}

/** The strongest that one of the handlers asks for is what happens to the message. Of at least one. */
export function strongestEnd(ends: readonly RunEnd[]): RunEnd {
  return ends.reduce((strongest, end) => (rank(end) < rank(strongest) ? end : strongest));
}

function rank({ action }: RunEnd): number {
  return STRONGEST_FIRST.indexOf(action);
}

const STRONGEST_FIRST: readonly EndAction[] = ['halt', 'redeliver', 'deadLetter', 'reject', 'discard', 'answered'];

/** What Nest's filters made of the error, else as much as a requester may know. */
function errorFor(run: HandlerRun): unknown {
  if (run.filtered !== undefined) return run.filtered.error;
  const undecodable = run.describeFailure().kind === 'undecodable';
  return { status: 'error', message: undecodable ? 'The payload could not be decoded' : 'Internal server error' };
}
