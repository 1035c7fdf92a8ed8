/** What the gate lets in: one delivery on its way to its handlers. The fields belong to the gate. */
export interface GateEntry {
  /** Place in received order; given by the gate at the first `enter()` or `enterFor()` and kept for ever. */
  sequence: number;
  /** Entries with the same key run one at a time, in received order; `undefined` has no such tie. */
  readonly key: unknown;
  /** Takes one of the running places. */
  hasSlot: boolean;
  /** Its key is reserved for it: set from its first start until `release()`, or until another one takes its place. */
  hasKey: boolean;
  /** Called when another one has to wait for its key. */
  onAwaited: (() => void) | undefined;
  /** A running place is there: go. Called synchronously from `enter()`, `yieldSlot()`, `release()` or `resume()`. */
  begin(): void;
}

/**
 * Bounds how many deliveries run and starts them in received order; with keys also one at a time per key, whose next
 * one starts only when the one before is settled. An entry gives its place back while it waits (`yieldSlot`: local
 * retry, detached, failed and waiting for its redelivery) and comes for a new one with `enter()`; it is older than what
 * came since, so it is served first.
 */
export class DeliveryGate<Entry extends GateEntry = GateEntry> {
  /** Entries that may start as soon as there is a place, ascending by sequence from `readyHead` on. */
  private ready: (Entry | undefined)[] = [];
  private readyHead = 0;
  /** The holder of the key, then those that wait for it. */
  private readonly waitingByKey = new Map<unknown, Entry[]>();
  private waitingForKey = 0;
  private nextSequence = 1;
  private running = 0;
  private paused = false;
  private starting = false;

  constructor(private readonly limit: number) {}

  /** Entries that hold a running place. */
  get runningCount(): number {
    return this.running;
  }

  /** Entries that wait for a place or for their key. */
  get waitingCount(): number {
    return this.ready.length - this.readyHead + this.waitingForKey;
  }

  /** Keys in use; 0 when nothing with a key is unsettled. */
  get keyCount(): number {
    return this.waitingByKey.size;
  }

  /** It holds a key that another one waits for. */
  isAwaited(entry: Entry): boolean {
    return entry.hasKey && this.waitingByKey.get(entry.key)!.length > 1;
  }

  /** Asks for a running place: the first time, or again after `yieldSlot()`. */
  enter(entry: Entry): void {
    if (entry.sequence === 0) entry.sequence = this.nextSequence++;
    if (entry.key !== undefined && !entry.hasKey && !this.takeKey(entry)) return;
    if (this.running < this.limit && !this.paused && this.readyHead === this.ready.length) {
      this.start(entry);
    } else {
      this.insert(entry);
      this.fill();
    }
  }

  /** The entry that is meant, if it waits here or has a key. */
  find(meant: (entry: Entry) => boolean): Entry | undefined {
    for (const line of this.waitingByKey.values()) {
      const found = line.find(meant);
      if (found !== undefined) return found;
    }
    return this.ready.find((entry) => entry !== undefined && meant(entry));
  }

  /**
   * `entry`, with the same key, is the message of `old` once more. Where `old` will not go on it takes over its place; where
   * `old` does go on it comes right behind it.
   */
  enterFor(old: Entry, entry: Entry, goesOn: boolean): void {
    entry.sequence = old.sequence;
    const sameKey = entry.key === undefined ? undefined : this.waitingByKey.get(entry.key);
    if (goesOn && sameKey !== undefined) {
      sameKey.splice(1, 0, entry);
      this.waitingForKey += 1;
      old.onAwaited?.();
      return;
    }
    if (!goesOn) {
      this.yieldSlot(old);
      entry.hasKey = old.hasKey;
      old.hasKey = false;
      const inLine = sameKey?.indexOf(old) ?? -1;
      if (inLine >= 0) sameKey![inLine] = entry;
      // It goes on waiting for the key.
      if (inLine > 0) return;
      const waiting = this.ready.indexOf(old, this.readyHead);
      if (waiting >= 0) {
        this.ready[waiting] = entry;
        return;
      }
    }
    this.insert(entry);
    this.fill();
  }

  /** Gives the running place back; the key stays. */
  yieldSlot(entry: Entry): void {
    if (!entry.hasSlot) return;
    entry.hasSlot = false;
    this.running -= 1;
    if (this.readyHead < this.ready.length) this.fill();
  }

  /** The entry is settled: place and key are free. */
  release(entry: Entry): void {
    if (entry.hasSlot) {
      entry.hasSlot = false;
      this.running -= 1;
    }
    if (entry.hasKey) this.passKeyOn(entry);
    if (this.readyHead < this.ready.length) this.fill();
  }

  /** Nothing starts until `resume()`; what runs goes on. */
  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.fill();
  }

  /** Takes out the oldest waiting entry that `eligible` accepts, as if it had never come. */
  dropOldest(eligible: (entry: Entry) => boolean): Entry | undefined {
    for (let i = this.readyHead; i < this.ready.length; i++) {
      const entry = this.ready[i]!;
      if (!eligible(entry)) continue;
      this.ready.splice(i, 1);
      if (entry.hasKey) this.passKeyOn(entry);
      this.fill();
      return entry;
    }
    for (const waiting of this.waitingByKey.values()) {
      const index = waiting.findIndex((entry, at) => at > 0 && eligible(entry));
      if (index < 0) continue;
      this.waitingForKey -= 1;
      return waiting.splice(index, 1)[0];
    }
    return undefined;
  }

  private start(entry: Entry): void {
    entry.hasSlot = true;
    this.running += 1;
    entry.begin();
  }

  /** Starts what may start. Re-entrant calls (an entry that settles while it begins) are left to the outer loop. */
  private fill(): void {
    if (this.starting) return;
    this.starting = true;
    try {
      while (!this.paused && this.running < this.limit && this.readyHead < this.ready.length) {
        const entry = this.ready[this.readyHead]!;
        this.ready[this.readyHead++] = undefined;
        if (this.readyHead === this.ready.length) this.compact();
        this.start(entry);
      }
      if (this.readyHead > 1024 && this.readyHead * 2 > this.ready.length) this.compact();
    } finally {
      this.starting = false;
    }
  }

  private compact(): void {
    this.ready = this.readyHead === this.ready.length ? [] : this.ready.slice(this.readyHead);
    this.readyHead = 0;
  }

  /** Keeps received order. New entries go to the end; old ones that come back belong near the front. */
  private insert(entry: Entry): void {
    const { ready } = this;
    const last = ready[ready.length - 1];
    if (last === undefined || last.sequence < entry.sequence) {
      ready.push(entry);
      return;
    }
    let at = this.readyHead;
    while (ready[at]!.sequence < entry.sequence) at += 1;
    if (at === this.readyHead && this.readyHead > 0) ready[--this.readyHead] = entry;
    else ready.splice(at, 0, entry);
  }

  private takeKey(entry: Entry): boolean {
    const waiting = this.waitingByKey.get(entry.key);
    if (waiting === undefined) {
      this.waitingByKey.set(entry.key, [entry]);
      entry.hasKey = true;
      return true;
    }
    waiting.push(entry);
    this.waitingForKey += 1;
    waiting[0].onAwaited?.();
    return false;
  }

  private passKeyOn(entry: Entry): void {
    entry.hasKey = false;
    const waiting = this.waitingByKey.get(entry.key)!;
    waiting.shift();
    const next = waiting.at(0);
    if (next === undefined) {
      this.waitingByKey.delete(entry.key);
      return;
    }
    this.waitingForKey -= 1;
    next.hasKey = true;
    this.insert(next);
  }
}
