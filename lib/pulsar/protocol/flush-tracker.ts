import { type TransportError } from '../../errors.js';

interface Flush {
  /** It covers the messages up to this ordinal. */
  readonly upTo: number;
  /** Of those, the ones without an outcome. */
  remaining: number;
  error: TransportError | undefined;
  readonly tokens: unknown[];
}

/** Counts, for every flush, the messages before it that have no outcome yet, and remembers the first failure among them. */
export class FlushTracker {
  private readonly flushes: Flush[] = [];

  get active(): boolean {
    return this.flushes.length > 0;
  }

  /**
   * @param unsettled how many messages up to `upTo` have no outcome
   * @param error of a message that it covers and that failed already
   */
  add(upTo: number, unsettled: number, token: unknown, error: TransportError | undefined): void {
    const last = this.flushes.at(-1);
    if (last?.upTo === upTo && last.error === error) last.tokens.push(token);
    else this.flushes.push({ upTo, remaining: unsettled, error, tokens: [token] });
  }

  settled(ordinal: number, error: TransportError | undefined): void {
    for (const flush of this.flushes) {
      if (ordinal > flush.upTo) continue;
      flush.remaining -= 1;
      if (error !== undefined) flush.error ??= error;
    }
  }

  /** The oldest flush whose messages all have an outcome, taken out. */
  takeFinished(): Flush | undefined {
    return this.flushes.length > 0 && this.flushes[0].remaining === 0 ? this.flushes.shift() : undefined;
  }
}
