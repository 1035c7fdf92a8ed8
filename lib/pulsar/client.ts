import { isTransportError, type TransportError } from '../errors.js';
import { backoffDelay } from '../net/backoff.js';
import { type ConnectionEvent, pulsarConnectionChannel } from '../observability/channels.js';
import { type Connection } from './connection.js';
import { clientClosed, ConnectionPool } from './connection-pool.js';
import { EventHub } from './event-hub.js';
import { Lookup } from './lookup.js';
import { type ProducerOptions, type PulsarClientOptions } from './option-types.js';
import { parseClientOptions, parseProducerOptions, type ResolvedPulsarClientOptions } from './options.js';
import { type PulsarProducer } from './producer.js';
import { ProducerFactory } from './producer-factory.js';
import { MemoryBudget } from './protocol/memory-budget.js';
import { failureKind } from './protocol/server-errors.js';
import { type PulsarClientEvents, type PulsarClientStatus } from './types.js';

/** A client of one Pulsar cluster: the connections, the memory and the producers that share them. */
export class PulsarClient {
  private readonly options: ResolvedPulsarClientOptions;
  private readonly events = new EventHub<PulsarClientEvents>();
  private readonly pool: ConnectionPool;
  private readonly lookup: Lookup;
  private readonly budget: MemoryBudget;
  private readonly factory: ProducerFactory;
  private readonly producers = new Set<PulsarProducer>();
  private lastError: TransportError | undefined = undefined;
  private closing: Promise<void> | undefined = undefined;
  private state: PulsarClientStatus['state'] = 'open';

  /** @throws OptionsError before anything connects */
  constructor(options: PulsarClientOptions) {
    this.options = parseClientOptions(options);
    this.pool = new ConnectionPool(this.options, {
      connected: (connection) => {
        this.lastError = undefined;
        this.events.emit('connected', { broker: connection.broker });
        this.publish(connection, 'connected');
      },
      disconnected: (connection, cause) => {
        this.events.emit('disconnected', { broker: connection.broker, cause });
        this.publish(connection, 'disconnected', cause);
      },
      connectFailed: (connection, cause) => this.failed(connection, cause),
      authRefreshFailed: (connection, cause) => this.failed(connection, cause),
      ignored: ({ broker }, command) => this.events.emit('ignoredCommand', { broker, command }),
    });
    this.lookup = new Lookup(this.pool, this.options);
    this.budget = new MemoryBudget(this.options.memoryLimit);
    this.factory = new ProducerFactory(
      { pool: this.pool, lookup: this.lookup, budget: this.budget, clock: this.options.clock },
      this.options,
    );
  }

  get status(): PulsarClientStatus {
    const connections = this.pool.connections.map(({ broker, phase }) => ({ broker, state: phase }));
    return {
      state: this.state,
      connected: connections.some(({ state }) => state === 'ready'),
      connections,
      producers: this.producers.size,
      lastError: this.lastError,
    };
  }

  /** Bytes of messages without an outcome, over all producers, and the limit (0 = none). */
  get memory(): { readonly used: number; readonly limit: number } {
    return { used: this.budget.used, limit: this.budget.limit };
  }

  /** Opens a connection to the service now instead of with the first producer. @throws TransportError */
  async connect(): Promise<void> {
    if (this.closing !== undefined) throw clientClosed();
    await this.lookup.service();
  }

  /**
   * Makes a producer and opens it at the broker. What passes by itself (no broker, no owner yet, a name still in use) is
   * tried again up to `createTimeout`.
   *
   * @throws OptionsError
   * @throws TransportError ERR_DEPENDENCY or ERR_ENCRYPTION before anything connects; the broker's refusal, or why the last
   *   try failed
   */
  async createProducer<T = unknown>(options: ProducerOptions<T>): Promise<PulsarProducer<T>> {
    const resolved = parseProducerOptions(options);
    if (this.closing !== undefined) throw clientClosed();
    const tools = await this.factory.load(resolved);
    if (this.closing !== undefined) throw clientClosed();
    const partitions = await this.partitions(resolved.topic.full);
    if (this.closing !== undefined) throw clientClosed();
    const producer = this.factory.make(resolved, tools, partitions, (ended) => this.producers.delete(ended));
    this.producers.add(producer);
    try {
      await producer.open();
      return producer;
    } catch (error) {
      producer.destroy();
      throw error;
    }
  }

  /** Closes the producers (each drains up to its `closeTimeout`), then the connections. Always resolves. */
  close(): Promise<void> {
    this.closing ??= this.end();
    return this.closing;
  }

  /** Closes at once: everything without an outcome fails with ERR_CLOSED. */
  destroy(): void {
    this.closing ??= Promise.resolve();
    for (const producer of this.producers) producer.destroy();
    this.state = 'closed';
    this.pool.destroy(clientClosed());
  }

  /** @returns removes the listener */
  on<Name extends keyof PulsarClientEvents>(
    event: Name,
    listener: (payload: PulsarClientEvents[Name]) => void,
  ): () => void {
    return this.events.on(event, listener);
  }

  private async end(): Promise<void> {
    this.state = 'closing';
    await Promise.all([...this.producers].map((producer) => producer.close()));
    this.state = 'closed';
    this.pool.end(clientClosed());
  }

  /** The number of partitions, tried again like the opening of a producer. */
  private async partitions(topic: string): Promise<number> {
    const { clock, createTimeout, backoff } = this.options;
    const deadline = clock.now() + createTimeout;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.lookup.partitions(topic);
      } catch (error) {
        if (!isTransportError(error) || failureKind(error) === 'terminal' || error.code === 'ERR_CLOSED') throw error;
        const delay = backoffDelay(backoff, attempt, clock.random());
        if (clock.now() + delay >= deadline) throw error;
        await new Promise<void>((resolve) => clock.setTimer(resolve, delay));
        if (this.closing !== undefined) throw clientClosed();
      }
    }
  }

  private failed(connection: Connection, cause: TransportError): void {
    this.lastError = cause;
    this.events.emit('connectFailed', { broker: connection.broker, cause });
    this.publish(connection, 'disconnected', cause);
  }

  private publish({ broker }: Connection, state: ConnectionEvent['state'], cause?: unknown): void {
    if (!pulsarConnectionChannel.hasSubscribers) return;
    const event: ConnectionEvent = { client: 'pulsar', peer: broker, state, ...(cause !== undefined && { cause }) };
    pulsarConnectionChannel.publish(event);
  }
}
