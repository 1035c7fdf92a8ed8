/** Bytes that the producers of one client may hold; who does not fit waits, in order, and is called when there is room. */
export class MemoryBudget {
  #used = 0;
  readonly #waiting = new Set<() => void>();

  /** @param limit bytes; Infinity: no limit */
  constructor(readonly limit: number) {}

  get used(): number {
    return this.#used;
  }

  /** Takes `bytes` or nothing. */
  tryAcquire(bytes: number): boolean {
    if (this.#used + bytes > this.limit) return false;
    this.#used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }

  /** `retry` is called once by {@link wake}, in the order of registration. */
  wait(retry: () => void): void {
    this.#waiting.add(retry);
  }

  forget(retry: () => void): void {
    this.#waiting.delete(retry);
  }

  /** Calls those that wait, oldest first, while there is room. Called by a driver after its core released bytes. */
  wake(): void {
    for (const retry of [...this.#waiting]) {
      if (this.#used >= this.limit) return;
      this.#waiting.delete(retry);
      retry();
    }
  }
}
