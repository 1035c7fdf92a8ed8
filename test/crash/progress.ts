import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Until `done()` holds. Rejects when `measure()` has not changed for `stillMs`: slow is no fault, standing still is.
 */
export async function untilDone(
  what: string,
  done: () => boolean,
  measure: () => number,
  stillMs = 60_000,
): Promise<void> {
  let last = measure();
  let since = Date.now();
  while (!done()) {
    await sleep(50);
    const now = measure();
    if (now !== last) {
      last = now;
      since = Date.now();
    } else if (Date.now() - since > stillMs) {
      throw new Error(`${what}: nothing moved for ${stillMs} ms (at ${now})`);
    }
  }
}
