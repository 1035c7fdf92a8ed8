import { Logger } from '@nestjs/common';
import { ClientProxy, type MsPattern, type ReadPacket, type WritePacket } from '@nestjs/microservices';
import { type Observable, throwError } from 'rxjs';
import { ClosedError, TransportError } from '../errors.js';
import { DEFAULT_BACKOFF } from '../net/backoff.js';
import { systemClock } from '../net/clock.js';
import {
  type MessageId,
  type ProducerMessage,
  PulsarClient,
  type PulsarClientEvents,
  type PulsarClientOptions,
  type PulsarProducer,
  type Schema,
} from '../pulsar/index.js';
import { type CarriesDeadLetters, type DeadLetter, DEAD_LETTER_RECORD } from './dead-letter-record.js';
import { proxyCreated } from './delivery-scope.js';
import { Emission } from './emission.js';
import { EmitReports, type EmitStats } from './emit-reports.js';
import { type ComponentHealth, type HealthSource } from './health.js';
import {
  type OwnPulsarOptions,
  parseClientOptions,
  type PulsarClientProxyOptions,
  splitPulsarOptions,
  type TopicProducerOptions,
} from './proxy-options.js';
import { producerMessage } from './producer-message.js';
import { PulsarConnectionLog } from './pulsar-connection-log.js';
import { ProducerPool } from './pulsar-producer-pool.js';
import { isPulsarRecord, PulsarRecord } from './pulsar-record.js';
import { toPulsarTopic } from './pulsar-topic-mapping.js';
import { encodedPayload, metadataProperties, serializedPayload } from './serializers.js';

/** Where the messages of a pattern go. */
interface Target {
  readonly topic: string;
  readonly schema: Schema<unknown> | undefined;
}

/** How many patterns keep their target at hand. */
const TARGET_CACHE = 10_000;

/** What the proxy's `status` tells: at least one connection is up, none is, closed by us. */
export type PulsarStatus = 'connected' | 'disconnected' | 'closed';

/** What {@link PulsarClientProxy} counted since it was made, and what it holds now. */
export interface PulsarProxyStats extends EmitStats {
  /** Emits without an outcome. */
  readonly pending: number;
  /** Producers that exist, are being made or are being closed. */
  readonly producers: number;
  /** Producers closed to make room for other topics. */
  readonly evicted: number;
}

/**
 * Nest client for Apache Pulsar: `emit(pattern, data)` sends one message to the topic of the pattern
 * ({@link toPulsarTopic}).
 *
 * - `emit()` is hot: the message is on its way when it returns, and the order of calls is the order in the topic, also
 *   while it is still connecting. The Observable gives the {@link MessageId} from the broker's send receipt and completes,
 *   or errors; late subscribers get the same.
 * - Inside a handler of `MqttServerStrategy` an emit holds the acknowledgement of the delivery: it may be left un-awaited.
 * - A failure that nobody subscribed to and no delivery answers for is counted, logged and published on the `emit`
 *   diagnostics channel; it is never an unhandled rejection.
 * - `send()` is refused: there is no request and response over Pulsar here.
 *
 * Use it as `customClass` of `ClientsModule`, through `MqttPulsarModule`, or bare.
 */
export class PulsarClientProxy extends ClientProxy implements HealthSource, CarriesDeadLetters {
  protected readonly logger = new Logger(PulsarClientProxy.name);

  private readonly client: PulsarClient;
  private readonly pool: ProducerPool;
  private readonly connectionLog: PulsarConnectionLog;
  private readonly reports: EmitReports;
  private readonly own: OwnPulsarOptions;
  private readonly targets = new Map<string, Target>();
  private wasConnected = false;
  private closing: Promise<void> | undefined = undefined;

  /** @throws OptionsError before anything connects */
  constructor(options: PulsarClientProxyOptions) {
    super();
    const { own, client } = splitPulsarOptions(options);
    this.own = own;
    const clock = options.clock ?? systemClock;
    this.client = parseClientOptions(() => this.createClient(client), 'pulsar');
    this.reports = new EmitReports(this.logger, clock);
    this.pool = new ProducerPool(
      (topic) => this.createProducer(topic),
      {
        maxProducers: own.maxProducers ?? 1000,
        maxPendingEmits: own.maxPendingEmits ?? 100_000,
        refusalBackoff: DEFAULT_BACKOFF,
      },
      clock,
    );
    this.connectionLog = new PulsarConnectionLog(this.client, this.pool, this.logger, clock);
    this.listen();
    proxyCreated();
  }

  get stats(): PulsarProxyStats {
    const { pending, producers, evicted } = this.pool;
    return { ...this.reports.stats, pending, producers, evicted };
  }

  /** Opens a connection now instead of with the first emit. @throws TransportError */
  async connect(): Promise<void> {
    if (this.closing !== undefined) throw new ClosedError('The proxy is closed');
    await this.client.connect();
  }

  /**
   * Takes nothing in any more, waits for the emits under way up to `closeTimeout`, closes the producers and the
   * connections. What has no outcome by then fails. Always resolves; a second call gives the same promise.
   */
  close(): Promise<void> {
    this.closing ??= this.pool
      .close(this.own.closeTimeout ?? 10_000)
      .then(() => this.client.close())
      .then(() => this.tell('closed'));
    return this.closing;
  }

  /** Called by Nest at the end of the application's shutdown, after the servers are closed. */
  onApplicationShutdown(): Promise<void> {
    return this.close();
  }

  /** Closes at once: what has no outcome fails. */
  destroy(): void {
    this.closing ??= Promise.resolve();
    this.pool.destroy();
    this.client.destroy();
    this.tell('closed');
  }

  override emit<TResult = MessageId, TInput = unknown>(pattern: unknown, data: TInput): Observable<TResult> {
    return this.start(pattern, data) as unknown as Observable<TResult>;
  }

  /** Not supported: the Observable errors with ERR_NOT_SUPPORTED. */
  override send<TResult = never, TInput = unknown>(pattern: unknown, _data: TInput): Observable<TResult> {
    return throwError(() => this.noRequests(pattern));
  }

  /** As in Nest 12, also on 11: the hook may put `metadata` on each packet, which becomes properties of the message. */
  override setOnDispatchHook(hook: (packet: ReadPacket) => void): void {
    this.onDispatchHook = hook;
  }

  /** Listens to the client: `connected`, `disconnected`, `connectFailed`, `ignoredCommand`. */
  override on<K extends keyof PulsarClientEvents>(
    event: K,
    listener: (payload: PulsarClientEvents[K]) => void,
  ): () => void;
  override on(event: never, listener: never): () => void {
    return this.client.on(event, listener);
  }

  health(): ComponentHealth {
    const { state, connected, lastError } = this.client.status;
    const { pending } = this.pool;
    const up = state === 'open' && (connected || (pending === 0 && !this.wasConnected && lastError === undefined));
    const why = state === 'open' ? (lastError?.message ?? 'no connection to a broker') : `the client is ${state}`;
    return {
      status: up ? 'up' : 'down',
      ...(!up && { reason: why }),
      details: { connected, pending, producers: this.pool.producers, failed: this.reports.failed },
    };
  }

  /** The `PulsarClient`: events, further producers. */
  unwrap<T = PulsarClient>(): T {
    return this.client as T;
  }

  /** @internal for dead letters: bytes, key and properties in one record */
  [DEAD_LETTER_RECORD]({ payload, properties }: DeadLetter, topic: string): PulsarRecord {
    return new PulsarRecord(payload, { key: topic, properties, holdsAcknowledgement: false });
  }

  protected createClient(options: PulsarClientOptions): PulsarClient {
    return new PulsarClient(options);
  }

  protected publish(packet: ReadPacket, callback: (packet: WritePacket) => void): () => void {
    callback({ err: this.noRequests(packet.pattern), isDisposed: true });
    return () => undefined;
  }

  protected dispatchEvent<T = MessageId>(packet: ReadPacket): Promise<T> {
    return this.start(packet.pattern, packet.data).outcome() as Promise<T>;
  }

  private start(pattern: unknown, data: unknown): Emission<MessageId> {
    const record = isPulsarRecord(data) ? data : undefined;
    const route = typeof pattern === 'string' ? pattern : this.routeOf(pattern);
    const emission = new Emission<MessageId>(this.reports, route, record?.options.holdsAcknowledgement !== false);
    try {
      if (record === undefined && (data === undefined || data === null)) {
        throw new TransportError(
          'ERR_SERIALIZATION',
          `emit('${route}', ${String(data)}): there is no data; a message without a value needs new PulsarRecord(null)`,
        );
      }
      const target = this.targets.get(route) ?? this.targetOf(route);
      this.pool.submit(target.topic, this.messageOf(pattern, data, record, target), emission);
    } catch (error) {
      emission.fail(error);
    }
    return emission;
  }

  private async createProducer(topic: string): Promise<PulsarProducer> {
    const producer = await this.client.createProducer({ ...this.producerOptions(topic), topic });
    producer.on('connected', ({ broker }) => this.connectionLog.reached(broker));
    producer.on('terminated', ({ cause }) => this.pool.ended(topic, producer, cause));
    producer.on('encryptionFailed', ({ cause, inTheClear }) => {
      if (inTheClear) this.logger.error(`Messages to ${topic} go out without encryption: ${cause.message}`);
      else this.logger.warn(`The old encryption keys of ${topic} stay in use: ${cause.message}`);
    });
    return producer;
  }

  private listen(): void {
    this.client.on('connected', () => {
      this.wasConnected = true;
      this.tell('connected');
    });
    this.client.on('disconnected', () => this.client.status.connected || this.tell('disconnected'));
    this.client.on('connectFailed', () => this.client.status.connected || this.tell('disconnected'));
    const said = new Set<string>();
    this.client.on('ignoredCommand', ({ broker, command }) => {
      if (said.size >= 100 || said.has(command)) return;
      said.add(command);
      this.logger.warn(`${broker} sent a command that means nothing here (${command}): it is ignored`);
    });
  }

  private tell(status: PulsarStatus): void {
    this._status$.next(status);
  }

  private routeOf(pattern: unknown): string {
    return pattern === undefined || pattern === null ? '' : this.normalizePattern(pattern as MsPattern);
  }

  private targetOf(route: string): Target {
    const { topic: map } = this.own;
    const topic = map === undefined ? toPulsarTopic(route, this.own) : toPulsarTopic(map(route), this.own);
    const target = { topic, schema: this.producerOptions(topic).schema };
    if (this.targets.size >= TARGET_CACHE) this.targets.clear();
    this.targets.set(route, target);
    return target;
  }

  private producerOptions(topic: string): TopicProducerOptions {
    const { producer = {} } = this.own;
    return typeof producer === 'function' ? producer(topic) : producer;
  }

  private messageOf(
    pattern: unknown,
    given: unknown,
    record: PulsarRecord | undefined,
    { schema }: Target,
  ): ProducerMessage {
    const data = record === undefined ? given : record.data;
    const hook = this.onDispatchHook;
    const { serializer } = this.own;
    if (hook === undefined && serializer === undefined) {
      return producerMessage(encodedPayload(data, schema), undefined, record?.options);
    }
    const packet: ReadPacket & { metadata?: unknown } = { pattern, data };
    hook?.(packet);
    const { payload, properties } =
      serializer === undefined
        ? { payload: encodedPayload(data, schema), properties: undefined }
        : serializedPayload(serializer.serialize(packet, { ...record?.options }));
    const metadata = metadataProperties(packet.metadata);
    const merged = metadata === undefined ? properties : { ...metadata, ...properties };
    return producerMessage(payload, merged, record?.options);
  }

  private noRequests(pattern: unknown): TransportError {
    return new TransportError(
      'ERR_NOT_SUPPORTED',
      `send('${this.routeOf(pattern)}'): PulsarClientProxy has no request and response; use emit(), or MqttClientProxy.send()`,
    );
  }
}
