import { type SessionCore } from './core.js';
import { type Subscription } from './types.js';

/**
 * The filters that the server's session holds, as far as this client or its store knows. To know too few costs one more
 * SUBSCRIBE; to believe in one that the server does not have would lose its messages without a word. So a store hears of
 * a filter after SUBACK, and is told to forget it before UNSUBSCRIBE, and all of them before CONNECT, are written.
 */
export class GrantedFilters {
  private readonly filters = new Map<string, Subscription>();
  /** Those that a store brought and nobody has asked for in this process. */
  private readonly inherited = new Set<string>();
  /** Granted with a lower QoS than asked for: not worth keeping. */
  private readonly lowered = new Set<string>();
  /** How many filters the store has. */
  private stored = 0;

  constructor(private readonly core: SessionCore) {}

  get size(): number {
    return this.filters.size;
  }

  get inheritedCount(): number {
    return this.inherited.size;
  }

  /** What an earlier process was granted. */
  restore(filters: readonly Subscription[]): void {
    for (const subscription of filters) {
      this.filters.set(subscription.filter, subscription);
      this.inherited.add(subscription.filter);
    }
    this.stored = filters.length;
  }

  /** The server holds this filter with these options. */
  includes(request: Subscription): boolean {
    return sameSubscription(this.filters.get(request.filter), request);
  }

  /** Asked for the first time in this process; true if an earlier one was granted just that. */
  claim(request: Subscription): boolean {
    return this.inherited.delete(request.filter) && this.includes(request);
  }

  answered(request: Subscription, reasonCode: number): void {
    this.lowered.delete(request.filter);
    if (reasonCode < request.qos) this.lowered.add(request.filter);
    if (reasonCode < 0x80) this.filters.set(request.filter, request);
    else this.filters.delete(request.filter);
  }

  /** UNSUBSCRIBE is about to be written. */
  forget(filters: readonly string[]): void {
    let known = false;
    for (const filter of filters) known = this.filters.delete(filter) || known;
    if (known) this.record();
  }

  /** A new session of the server. */
  clear(): void {
    this.filters.clear();
    this.inherited.clear();
  }

  record(): void {
    if (!this.core.config.persistent) return;
    this.store([...this.filters.values()].filter(({ filter }) => !this.lowered.has(filter)));
  }

  /** CONNECT is about to be written: the session that its CONNACK tells of may be a new one, and the process may end. */
  withdraw(): void {
    this.store([]);
  }

  private store(filters: readonly Subscription[]): void {
    if (!this.core.config.persistent || (filters.length === 0 && this.stored === 0)) return;
    this.stored = filters.length;
    this.core.record({ type: 'putFilters', filters });
  }
}

function sameSubscription(a: Subscription | undefined, b: Subscription): boolean {
  return (
    a !== undefined &&
    a.qos === b.qos &&
    (a.noLocal ?? false) === (b.noLocal ?? false) &&
    (a.retainAsPublished ?? false) === (b.retainAsPublished ?? false) &&
    a.subscriptionIdentifier === b.subscriptionIdentifier
  );
}
