import { backoffDelay, DEFAULT_BACKOFF } from '../../../lib/net/backoff.js';

describe('backoffDelay', () => {
  it('is a uniform share of a bound that doubles up to the maximum', () => {
    const at = (attempt: number) => backoffDelay(DEFAULT_BACKOFF, attempt, 0.5);
    expect([0, 1, 2, 3].map(at)).toEqual([50, 100, 200, 400]);
    expect(at(20)).toBe(15_000);
    expect(at(5000)).toBe(15_000);
  });

  it('never comes near zero, however small the random number', () => {
    expect(backoffDelay(DEFAULT_BACKOFF, 0, 0)).toBe(10);
    expect(backoffDelay(DEFAULT_BACKOFF, 9, 0)).toBe(10);
  });
});
