/** A first-in first-out queue on a ring: constant time at both ends, no element is moved when the head leaves. */
export class Deque<T> {
  private items: (T | undefined)[] = new Array<T | undefined>(16).fill(undefined);
  private head = 0;
  private count = 0;

  get length(): number {
    return this.count;
  }

  push(item: T): void {
    if (this.count === this.items.length) this.resize(this.count * 2);
    this.items[(this.head + this.count) & (this.items.length - 1)] = item;
    this.count += 1;
  }

  unshift(item: T): void {
    if (this.count === this.items.length) this.resize(this.count * 2);
    this.head = (this.head - 1) & (this.items.length - 1);
    this.items[this.head] = item;
    this.count += 1;
  }

  peek(): T | undefined {
    return this.count === 0 ? undefined : this.items[this.head];
  }

  shift(): T | undefined {
    if (this.count === 0) return undefined;
    const item = this.items[this.head];
    this.items[this.head] = undefined;
    this.head = (this.head + 1) & (this.items.length - 1);
    this.count -= 1;
    if (this.count === 0 && this.items.length > SHRINK_OVER) this.clear();
    return item;
  }

  clear(): void {
    this.items = new Array<T | undefined>(16).fill(undefined);
    this.head = 0;
    this.count = 0;
  }

  /** Keeps only what `keep` accepts, in order. */
  filter(keep: (item: T) => boolean): void {
    const kept = [...this].filter(keep);
    this.clear();
    for (const item of kept) this.push(item);
  }

  *[Symbol.iterator](): Generator<T> {
    for (let i = 0; i < this.count; i++) yield this.items[(this.head + i) & (this.items.length - 1)] as T;
  }

  private resize(size: number): void {
    const larger = new Array<T | undefined>(size).fill(undefined);
    for (let i = 0; i < this.count; i++) larger[i] = this.items[(this.head + i) & (this.items.length - 1)];
    this.items = larger;
    this.head = 0;
  }
}

/** An emptied ring larger than this gives its memory back. */
const SHRINK_OVER = 4096;
