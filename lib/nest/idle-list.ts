/** An entry carries its own links, so that moving one costs no allocation. */
export interface IdleEntry<T> {
  idlePrevious: T | undefined;
  idleNext: T | undefined;
  isIdle: boolean;
}

/** What is idle, the longest idle first; every operation takes constant time. */
export class IdleList<T extends IdleEntry<T>> {
  size = 0;
  private head: T | undefined = undefined;
  private tail: T | undefined = undefined;

  /** To the end; an entry that is in the list moves there. */
  push(entry: T): void {
    this.remove(entry);
    entry.isIdle = true;
    entry.idlePrevious = this.tail;
    if (this.tail === undefined) this.head = entry;
    else this.tail.idleNext = entry;
    this.tail = entry;
    this.size += 1;
  }

  remove(entry: T): void {
    if (!entry.isIdle) return;
    const { idlePrevious, idleNext } = entry;
    if (idlePrevious === undefined) this.head = idleNext;
    else idlePrevious.idleNext = idleNext;
    if (idleNext === undefined) this.tail = idlePrevious;
    else idleNext.idlePrevious = idlePrevious;
    entry.idlePrevious = entry.idleNext = undefined;
    entry.isIdle = false;
    this.size -= 1;
  }

  /** Takes the longest idle one out. */
  shift(): T | undefined {
    const { head } = this;
    if (head !== undefined) this.remove(head);
    return head;
  }
}
