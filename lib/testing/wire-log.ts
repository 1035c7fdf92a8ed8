/**
 * What went over the wire, in order: the evidence a test asserts on. Entries are recorded when a packet has been decoded
 * (received) or is handed to the socket (sent); a sent packet that the broker holds back is recorded when it leaves.
 */
export interface WireEntry<Map extends object, Type extends keyof Map = keyof Map> {
  /** Position in the log of this broker, from 0, over all connections. */
  readonly order: number;
  /** Milliseconds of a monotonic clock (`performance.now()`). */
  readonly at: number;
  /** Number of the connection at this broker, from 1. */
  readonly connection: number;
  /** `in`: from the client. `out`: from the broker. */
  readonly direction: 'in' | 'out';
  readonly type: Type;
  readonly packet: Map[Type];
  /** The exact bytes, where they are kept (received packets and sent ones; empty for the entries `open` and `close`). */
  readonly bytes: Buffer;
}

/** Narrows {@link WireLog.of}. */
export interface WireFilter {
  readonly direction?: 'in' | 'out';
  readonly connection?: number;
  /** Only entries with a greater or equal `order`. */
  readonly since?: number;
}

interface Waiter {
  check(): boolean;
}

/** Default bound of every `waitFor`, in ms: long, because it only decides how a broken test fails. */
export const DEFAULT_WAIT = 10_000;

const POLL = 10;

export class WireLog<Map extends object> {
  private readonly kept: WireEntry<Map>[] = [];
  private readonly waiters = new Set<Waiter>();
  private nextOrder = 0;
  private scheduled = false;

  /** @param limit how many entries are kept; the oldest go first. Default 100,000. */
  constructor(private readonly limit = 100_000) {}

  /** Every kept entry, oldest first. */
  get entries(): readonly WireEntry<Map>[] {
    return this.kept;
  }

  /** The `order` that the next entry will get: take it before an action, pass it as `since` afterwards. */
  get position(): number {
    return this.nextOrder;
  }

  /** The entries of one type, oldest first. */
  of<Type extends keyof Map>(type: Type, filter: WireFilter = {}): WireEntry<Map, Type>[] {
    return this.kept.filter((entry) => entry.type === type && matches(entry, filter)) as WireEntry<Map, Type>[];
  }

  /** What clients sent of this type. */
  received<Type extends keyof Map>(type: Type, filter: WireFilter = {}): Map[Type][] {
    return this.of(type, { ...filter, direction: 'in' }).map((entry) => entry.packet);
  }

  /** What the broker sent of this type. */
  sent<Type extends keyof Map>(type: Type, filter: WireFilter = {}): Map[Type][] {
    return this.of(type, { ...filter, direction: 'out' }).map((entry) => entry.packet);
  }

  /** `>connect`, `<connack`, ...: the whole log as short words, for comparisons and failure messages. */
  summary(filter: WireFilter = {}): string[] {
    return this.kept
      .filter((entry) => matches(entry, filter))
      .map((entry) => `${entry.direction === 'in' ? '>' : '<'}${String(entry.type)}`);
  }

  /** Forgets what was recorded; `order` goes on counting. */
  clear(): void {
    this.kept.length = 0;
  }

  /** Resolves when `count` packets of a type have been received (since `filter.since`), with those packets. */
  waitForReceived<Type extends keyof Map>(
    type: Type,
    count = 1,
    filter: WireFilter = {},
    timeoutMs = DEFAULT_WAIT,
  ): Promise<Map[Type][]> {
    return this.waitFor(
      () => {
        const found = this.received(type, filter);
        return found.length >= count ? found : undefined;
      },
      timeoutMs,
      `${count} ${String(type)} received`,
    );
  }

  /**
   * Resolves with the first result of `predicate` that is neither undefined, null nor false. It is called at once and then
   * after every turn in which something was recorded or changed (and every few milliseconds, for what the log cannot see).
   *
   * @throws Error after `timeoutMs`, with the end of the log
   */
  waitFor<Result>(
    predicate: () => Result | undefined | null | false,
    timeoutMs = DEFAULT_WAIT,
    what = 'the awaited condition',
  ): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        clearInterval(poll);
        this.waiters.delete(waiter);
      };
      const waiter: Waiter = {
        check: () => {
          try {
            const result = predicate();
            if (result === undefined || result === null || result === false) return false;
            end();
            resolve(result);
          } catch (error) {
            end();
            reject(error instanceof Error ? error : new Error(String(error)));
          }
          return true;
        },
      };
      const timer = setTimeout(() => {
        if (waiter.check()) return;
        end();
        const tail = this.summary().slice(-40).join(' ');
        reject(new Error(`Broker: ${what} did not come within ${timeoutMs} ms. Wire: ${tail}`));
      }, timeoutMs);
      const poll = setInterval(() => waiter.check(), POLL);
      this.waiters.add(waiter);
      waiter.check();
    });
  }

  /** Lets waiting conditions look again; for state that changes without an entry. */
  changed(): void {
    if (this.scheduled || this.waiters.size === 0) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      for (const waiter of [...this.waiters]) waiter.check();
    });
  }

  /** For the brokers: adds an entry. */
  record<Type extends keyof Map>(entry: Omit<WireEntry<Map, Type>, 'order' | 'at'>): void {
    this.kept.push({ ...entry, order: this.nextOrder++, at: performance.now() });
    // Trimmed in large steps, so that a long run does not move the whole array for each entry.
    if (this.kept.length > this.limit * 1.25) this.kept.splice(0, this.kept.length - this.limit);
    this.changed();
  }
}

function matches(entry: Pick<WireEntry<object>, 'direction' | 'connection' | 'order'>, filter: WireFilter): boolean {
  return (
    (filter.direction === undefined || entry.direction === filter.direction) &&
    (filter.connection === undefined || entry.connection === filter.connection) &&
    (filter.since === undefined || entry.order >= filter.since)
  );
}
