import { type Duplex } from 'node:stream';
import { type BrokerConnection, type WireEvents } from './connection.js';
import { Listener, type ListenerOptions } from './listener.js';
import { DEFAULT_WAIT, WireLog } from './wire-log.js';

/** What a hook says about `Item`, which the broker is about to send by itself; see `onSend`. */
export type SendVerdict<Item> = 'withhold' | Item | Buffer | readonly (Item | Buffer)[] | undefined | void;

/**
 * A broker in this process, without its protocol: connections, evidence, hooks, and the faults of a network.
 * A test double and no server: it holds everything in memory and trusts whoever runs it.
 */
export abstract class InMemoryBroker<
  Packets extends WireEvents,
  Connection extends BrokerConnection<Packets>,
  Item extends object,
  ReceiveHook extends (...received: never[]) => 'ignore' | undefined | void,
> {
  readonly log: WireLog<Packets>;
  /** Where clients broke the protocol, as sentences; empty in a healthy test. */
  readonly violations: string[] = [];
  /** Every connection so far, in the order of arrival; see `open` of a connection. */
  readonly allConnections: Connection[] = [];

  protected listener!: Listener;
  private readonly receiveHooks = new Set<ReceiveHook>();
  private readonly sendHooks = new Set<(item: Item, connection: Connection) => SendVerdict<Item>>();

  protected constructor(logLimit: number | undefined) {
    this.log = new WireLog(logLimit);
  }

  get port(): number {
    return this.listener.port;
  }

  /** The connections that are open, oldest first. */
  get connections(): Connection[] {
    return this.allConnections.filter((connection) => connection.open);
  }

  /** The newest open connection. */
  get connection(): Connection | undefined {
    return this.connections.at(-1);
  }

  /**
   * Adds a hook that looks at what was received before the broker does; `ignore`: the broker takes no notice of it.
   *
   * @returns a function that removes it
   */
  onReceive(hook: ReceiveHook): () => void {
    this.receiveHooks.add(hook);
    return () => this.receiveHooks.delete(hook);
  }

  /**
   * Adds a hook that looks at what the broker is about to send by itself: undefined lets it pass, `withhold` drops it, a
   * packet or command, bytes or a list of them go instead.
   *
   * @returns a function that removes it
   */
  onSend(hook: (item: Item, connection: Connection) => SendVerdict<Item>): () => void {
    this.sendHooks.add(hook);
    return () => this.sendHooks.delete(hook);
  }

  /** Closes every connection without a word. */
  cut(options: { readonly reset?: boolean } = {}): void {
    for (const connection of this.connections) connection.cut(options);
  }

  /** See {@link BrokerConnection.stall}; for every open connection. */
  stall(what?: { readonly reads?: boolean; readonly writes?: boolean }): void {
    for (const connection of this.connections) connection.stall(what);
  }

  unstall(): void {
    for (const connection of this.connections) connection.unstall();
  }

  /** See {@link BrokerConnection.truncateNext}; for every open connection. */
  truncate(length: number): void {
    for (const connection of this.connections) connection.truncateNext(length);
  }

  /** True: new connections are accepted and closed at once. */
  refuse(on = true): void {
    this.listener.refuse(on);
  }

  /** Nobody listens (ECONNREFUSED) until {@link listen}; open connections stay. */
  stopListening(): Promise<void> {
    return this.listener.stopListening();
  }

  /** Listens again, on the same port. */
  listen(): Promise<void> {
    return this.listener.listen();
  }

  /** See {@link WireLog.waitFor}. */
  waitFor<Result>(predicate: () => Result | undefined | null | false, timeoutMs = DEFAULT_WAIT): Promise<Result> {
    return this.log.waitFor(predicate, timeoutMs);
  }

  /** Before anything else can be asked of the broker. */
  protected async open(options: ListenerOptions): Promise<this> {
    this.listener = await Listener.start(options, (stream) => {
      this.allConnections.push(this.accept(this.allConnections.length + 1, stream));
    });
    return this;
  }

  protected abstract accept(number: number, stream: Duplex): Connection;

  /** A hook wants the broker to take no notice. */
  protected ignored(...received: Parameters<ReceiveHook>): boolean {
    for (const hook of this.receiveHooks) if (hook(...received) === 'ignore') return true;
    return false;
  }

  /** What goes over the wire instead of `item`. */
  protected outgoing(item: Item, connection: Connection): readonly (Item | Buffer)[] {
    for (const hook of this.sendHooks) {
      const verdict = hook(item, connection);
      if (verdict === 'withhold') return [];
      if (verdict !== undefined) {
        return Array.isArray(verdict) ? (verdict as (Item | Buffer)[]) : [verdict as Item | Buffer];
      }
    }
    return [item];
  }
}
