/** A first-in, first-out list with O(1) at both ends and access by position. */
export class Fifo<T> {
  private items: (T | undefined)[] = [];
  private head = 0;

  get length(): number {
    return this.items.length - this.head;
  }

  push(item: T): void {
    this.items.push(item);
  }

  peek(): T | undefined {
    return this.items[this.head];
  }

  at(index: number): T | undefined {
    return this.items[this.head + index];
  }

  shift(): T | undefined {
    if (this.head === this.items.length) return undefined;
    const item = this.items[this.head];
    this.items[this.head++] = undefined;
    if (this.head === this.items.length) {
      this.items.length = 0;
      this.head = 0;
    } else if (this.head > 1024 && this.head * 2 > this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return item;
  }

  /** Takes out one item wherever it stands; O(n). False: it is not here. */
  remove(item: T): boolean {
    const index = this.items.indexOf(item, this.head);
    if (index < 0) return false;
    this.items.splice(index, 1);
    return true;
  }

  /** Takes out all but what `keep` wants; O(n). */
  retain(keep: (item: T) => boolean): void {
    this.items = this.items.slice(this.head).filter((item) => keep(item!));
    this.head = 0;
  }

  /** Takes everything out, in order. */
  drain(): T[] {
    const all = this.items.slice(this.head) as T[];
    this.items = [];
    this.head = 0;
    return all;
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let index = this.head; index < this.items.length; index++) yield this.items[index]!;
  }
}
