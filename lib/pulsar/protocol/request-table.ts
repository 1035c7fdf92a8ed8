/** Requests without an answer, by id, each with a deadline. */
export class RequestTable<T> {
  private nextId = 0;
  private readonly open = new Map<number, { readonly token: T; deadline: number }>();
  /** Never later than the earliest deadline. */
  private earliest = Infinity;

  get size(): number {
    return this.open.size;
  }

  add(token: T, deadline: number): number {
    const id = this.nextId++;
    this.open.set(id, { token, deadline });
    this.earliest = Math.min(this.earliest, deadline);
    return id;
  }

  peek(id: number): T | undefined {
    return this.open.get(id)?.token;
  }

  take(id: number): T | undefined {
    const entry = this.open.get(id);
    this.open.delete(id);
    return entry?.token;
  }

  /** The request may take as long as it likes from here on. */
  waitForever(id: number): void {
    const entry = this.open.get(id);
    if (entry !== undefined) entry.deadline = Infinity;
  }

  takeExpired(now: number): T[] {
    if (now < this.earliest) return [];
    const expired: T[] = [];
    this.earliest = Infinity;
    for (const [id, { token, deadline }] of this.open) {
      if (now >= deadline) {
        this.open.delete(id);
        expired.push(token);
      } else {
        this.earliest = Math.min(this.earliest, deadline);
      }
    }
    return expired;
  }

  takeAll(): T[] {
    const all = [...this.open.values()].map((entry) => entry.token);
    this.open.clear();
    this.earliest = Infinity;
    return all;
  }

  nextDeadline(): number {
    return this.open.size === 0 ? Infinity : this.earliest;
  }
}
