import { check } from '../session/observer.js';

/** What a handler, or its policy, said last. */
export type Verdict =
  | 'not run'
  | 'running'
  | 'deciding'
  | 'succeeded'
  | 'retry'
  | 'redeliver'
  | 'deadLetter'
  | 'reject'
  | 'discard'
  | 'halt';

/** One handler of one message, as it is seen from outside. */
export class HandlerOfMessage {
  verdict: Verdict = 'not run';
  lettersTaken = 0;
  /** Error replies and values that the broker has got. */
  errors = 0;
  values = 0;

  constructor(
    readonly name: string,
    readonly isRequest: boolean,
  ) {}

  /** Another run begins. */
  begin(what: string): void {
    check(this.verdict !== 'running', `${what}: runs twice at the same time`);
    check(this.lettersTaken === 0, `${what}: runs although its letter was taken`);
    check(this.errors === 0, `${what}: runs although its requester has an error reply`);
    check(this.isRequest || this.verdict !== 'succeeded', `${what}: runs although it succeeded`);
    this.verdict = 'running';
  }

  letterTaken(what: string): void {
    check(this.verdict === 'deadLetter', `${what}: a letter although it was ${this.verdict}`);
    check(!this.isRequest || this.errors > 0, `${what}: the letter leaves before the error reply`);
    this.lettersTaken += 1;
    check(this.lettersTaken === 1, `${what}: ${this.lettersTaken} letters`);
  }

  replied(what: string, isError: boolean): void {
    if (!isError) {
      check(this.verdict === 'succeeded', `${what}: a value although it was ${this.verdict}`);
      check(this.errors === 0, `${what}: a value behind an error reply`);
      this.values += 1;
      return;
    }
    const ended = ['redeliver', 'deadLetter', 'reject', 'discard'].includes(this.verdict);
    check(ended, `${what}: an error reply although it was ${this.verdict}`);
    this.errors += 1;
  }

  /** Nothing of it forbids the acknowledgement. */
  get settled(): boolean {
    if (this.verdict === 'succeeded') return !this.isRequest || this.values > 0;
    if (this.isRequest && this.errors === 0) return false;
    if (this.verdict === 'deadLetter') return this.lettersTaken === 1;
    return this.verdict === 'reject' || this.verdict === 'discard' || (this.verdict === 'redeliver' && this.isRequest);
  }
}

/** A message that the broker has made, and its handlers. */
export class MessageOfModel {
  constructor(
    readonly uid: number,
    readonly topic: string,
    readonly handlers: readonly HandlerOfMessage[],
  ) {}

  /** The client acknowledges it. */
  acknowledged(reasonCode: number, version: 4 | 5): void {
    for (const handler of this.handlers) {
      check(handler.settled, `M1: message ${this.uid} is acknowledged, but ${JSON.stringify(handler)}`);
    }
    const verdicts = this.handlers.map(({ verdict }) => verdict);
    if (version === 4) return;
    const rejected = verdicts.includes('reject') && !verdicts.includes('deadLetter');
    check(rejected === reasonCode >= 0x80, `message ${this.uid}: reason code ${reasonCode} for ${verdicts.join()}`);
  }
}
