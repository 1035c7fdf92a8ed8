import { Fifo } from './fifo.js';

/** Somebody who waits for memory: told when it is worth trying again. */
export interface MemoryWaiter {
  memoryFreed(): void;
}

/**
 * The bytes of all messages a client has taken in and not settled. Producers that found no room wait in line; the first in
 * line is the only one that gets memory until it has what it needs, so that a large message is not starved by small ones.
 */
export class MemoryBudget {
  used = 0;
  private readonly line = new Fifo<MemoryWaiter>();
  private readonly inLine = new Set<MemoryWaiter>();
  /** Something was given back, or the line moved, since the last wake-up. */
  private changed = false;

  /** @param limit bytes; 0 = none */
  constructor(readonly limit: number) {}

  /** Takes `bytes`, or puts the waiter in line and answers false. */
  take(waiter: MemoryWaiter, bytes: number): boolean {
    if (this.limit === 0) {
      this.used += bytes;
      return true;
    }
    const first = this.line.peek();
    const mine = first === undefined || first === waiter;
    if (mine && this.used + bytes <= this.limit) {
      this.used += bytes;
      if (first === waiter) this.leave(waiter);
      return true;
    }
    if (!this.inLine.has(waiter)) {
      this.inLine.add(waiter);
      this.line.push(waiter);
    }
    return false;
  }

  release(bytes: number): void {
    this.used -= bytes;
    this.changed = true;
  }

  /** Must be called by a waiter that does not want memory any more. */
  leave(waiter: MemoryWaiter): void {
    if (!this.inLine.delete(waiter)) return;
    this.line.remove(waiter);
    this.changed = true;
  }

  /** Tells the first in line if it is worth trying; drivers call this after every step. */
  wakeFirst(): void {
    if (!this.changed) return;
    this.changed = false;
    this.line.peek()?.memoryFreed();
  }
}
