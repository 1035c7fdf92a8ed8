/** Exponential backoff with full jitter. */
export interface BackoffOptions {
  /** The upper bound of the first delay, in ms. Default 100. */
  readonly initial: number;
  /** The upper bound of every delay, in ms. Default 30,000. */
  readonly max: number;
  /** How much the bound grows each time. Default 2. */
  readonly factor: number;
}

export const DEFAULT_BACKOFF: BackoffOptions = { initial: 100, max: 30_000, factor: 2 };

/**
 * The delay before try number `attempt` (0 = the first retry), in ms: a uniform share of the bound (full jitter), but
 * never under a tenth of `initial`, so that an unlucky series of small numbers is no hot loop.
 *
 * @param random a number in [0, 1)
 */
export function backoffDelay(options: BackoffOptions, attempt: number, random: number): number {
  const bound = Math.min(options.max, options.initial * options.factor ** Math.min(attempt, 64));
  return Math.max(options.initial / 10, bound * random);
}
