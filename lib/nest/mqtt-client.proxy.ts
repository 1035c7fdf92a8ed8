import { Logger } from '@nestjs/common';
import { ClientProxy, type MsPattern, type ReadPacket, type WritePacket } from '@nestjs/microservices';
import { type Observable } from 'rxjs';
import { ClosedError, TransportError } from '../errors.js';
import {
  type Endpoint,
  type ConnectResult,
  MqttClient,
  type MqttClientEvents,
  type MqttClientOptions,
  type Properties,
  type PublishRequest,
  type PublishResult,
  type UserProperty,
} from '../mqtt/index.js';
import { type Clock, systemClock } from '../net/clock.js';
import {
  type CarriesDeadLetters,
  type DeadLetter,
  DEAD_LETTER_ENDPOINTS,
  DEAD_LETTER_RECORD,
} from './dead-letter-record.js';
import { proxyCreated } from './delivery-scope.js';
import { Emission, takenBack } from './emission.js';
import { EmitReports, type EmitStats } from './emit-reports.js';
import { type ComponentHealth, type HealthSource } from './health.js';
import { asPublishRecord, MqttPublishRecord, type MqttPublishRecordOptions } from './mqtt-publish-record.js';
import { BuiltInRequester } from './mqtt-built-in-requester.js';
import { type MqttRequester, ResponseTopicRequester } from './mqtt-requester.js';
import {
  type MqttClientProxyOptions,
  type OwnMqttOptions,
  parseClientOptions,
  splitMqttOptions,
} from './proxy-options.js';
import { JsonOrTextDeserializer } from './reply-deserializer.js';
import { metadataProperties, serializedPayload, toPayload } from './serializers.js';

/** How long a client that gave up rests before emits that wait make it try again. */
const RETRY_AFTER_GIVING_UP_MS = 30_000;

/** Nest 12 calls the dispatch hook in `send()`, Nest 11 has none. */
const HOOKED_BY_NEST = 'createPacket' in ClientProxy.prototype;

/** What {@link MqttClientProxy} counted since it was made, and what it holds now. */
export interface MqttProxyStats extends EmitStats {
  /** Emits without an outcome. */
  readonly pending: number;
  /** Requests that wait for replies. */
  readonly openRequests: number;
  readonly requestTimeouts: number;
  /** Replies whose request was unknown or finished. */
  readonly droppedReplies: number;
}

interface QueuedEmit {
  readonly message: PublishRequest;
  readonly emission: Emission<PublishResult>;
}

/**
 * Nest client for MQTT 5 and 3.1.1, on a connection of its own.
 *
 * - `emit(topic, data)` is hot and publishes one message, QoS 1 unless a {@link MqttPublishRecord} says otherwise. Its
 *   Observable gives the {@link PublishResult} when the broker has the message (PUBACK, PUBCOMP; with QoS 0 when it is
 *   written) and completes, or errors; late subscribers get the same. Inside a handler of `MqttServerStrategy` it holds the
 *   acknowledgement of the delivery.
 * - `send(topic, data)` is a request: MQTT 5 Response Topic and Correlation Data, or with `envelope: 'nest'` the form of
 *   Nest's built-in `Transport.MQTT`. It gives every reply and completes, or errors: the responder's error, ERR_TIMEOUT
 *   after `requestTimeout`, ERR_PUBLISH where nobody has subscribed. Cold, as in Nest: each subscription is one request.
 *
 * Without a `clientId` the session ends with the connection (what had no PUBACK is published again on the next one). With
 * one, the session outlives it; the id must not be that of the strategy.
 */
export class MqttClientProxy extends ClientProxy implements HealthSource, CarriesDeadLetters {
  protected readonly logger = new Logger(MqttClientProxy.name);

  private readonly own: OwnMqttOptions;
  private readonly client: MqttClient;
  private readonly clock: Clock;
  private readonly reports: EmitReports;
  private readonly requester: MqttRequester;
  private pending = 0;
  /** Emits before the first connection, in order. */
  private readonly queue = new Set<QueuedEmit>();
  private readonly maxQueued: number;
  private ready = false;
  private connecting: Promise<ConnectResult> | undefined = undefined;
  private closing: Promise<void> | undefined = undefined;

  /** @throws OptionsError before anything connects */
  constructor(options: MqttClientProxyOptions = {}) {
    super();
    const { own, client } = splitMqttOptions(options);
    this.own = own;
    this.clock = options.clock ?? systemClock;
    this.maxQueued = options.publishQueue?.maxMessages ?? 10_000;
    const ephemeral: MqttClientOptions =
      client.clientId === undefined ? { allowEphemeralSession: true, cleanStart: true, ...client } : client;
    this.client = parseClientOptions(() => this.createClient(ephemeral), 'mqtt');
    this.reports = new EmitReports(this.logger, this.clock);
    this.requester =
      own.envelope === 'nest'
        ? new BuiltInRequester(this.client, this.clock)
        : new ResponseTopicRequester(
            this.client,
            own.responseTopic,
            own.deserializer ?? new JsonOrTextDeserializer(),
            this.clock,
          );
    this.listen();
    proxyCreated();
  }

  get stats(): MqttProxyStats {
    const { size: openRequests, timedOut: requestTimeouts, droppedReplies } = this.requester.table;
    return { ...this.reports.stats, pending: this.pending, openRequests, requestTimeouts, droppedReplies };
  }

  /** Connects now instead of with the first message. @throws ConnectionError, AuthenticationError, ClosedError */
  connect(): Promise<ConnectResult> {
    if (this.closing !== undefined) return Promise.reject(new ClosedError('The proxy is closed'));
    if (this.connecting !== undefined) return this.connecting;
    const connecting = this.client.connect();
    this.connecting = connecting;
    connecting.then(
      () => this.connected(),
      (error: unknown) => {
        this.connecting = undefined;
        for (const queued of this.queue) {
          this.queue.delete(queued);
          this.settle(queued.emission, error);
        }
      },
    );
    return connecting;
  }

  /**
   * Fails open requests, waits for the broker's answers to what was published up to `closeTimeout`, disconnects. Always
   * resolves; a second call gives the same promise.
   */
  close(): Promise<void> {
    this.closing ??= this.client.close();
    this.end('The proxy was closed');
    return this.closing;
  }

  /** Called by Nest at the end of the application's shutdown, after the servers are closed. */
  onApplicationShutdown(): Promise<void> {
    return this.close();
  }

  /** Closes at once: what has no outcome fails. */
  destroy(): void {
    this.closing ??= Promise.resolve();
    this.client.destroy();
    this.end('The proxy was destroyed');
  }

  override emit<TResult = PublishResult, TInput = unknown>(pattern: unknown, data: TInput): Observable<TResult> {
    return this.start(pattern, data) as unknown as Observable<TResult>;
  }

  /** As in Nest 12, also on 11: the hook may put `metadata` on each packet, which becomes user properties of the message. */
  override setOnDispatchHook(hook: (packet: ReadPacket) => void): void {
    this.onDispatchHook = hook;
  }

  /** Listens to the client: `connect`, `disconnect`, `status`, `sessionLost`, `warning`, `error` and so on. */
  override on<K extends keyof MqttClientEvents>(event: K, listener: (payload: MqttClientEvents[K]) => void): () => void;
  override on(event: never, listener: never): () => void {
    return this.client.on(event, listener);
  }

  health(): ComponentHealth {
    const { state, server, lastError } = this.client.status;
    const waiting = this.pending > 0 || this.requester.table.size > 0;
    const up = state === 'connected' || (state === 'idle' && !waiting && lastError === undefined);
    return {
      status: up ? 'up' : 'down',
      ...(!up && { reason: lastError?.message ?? `the connection is ${state}` }),
      details: { state, ...(server !== undefined && { server }), pending: this.pending, failed: this.stats.failed },
    };
  }

  /** The `MqttClient`. */
  unwrap<T = MqttClient>(): T {
    return this.client as T;
  }

  /** @internal for dead letters: bytes and user properties in one record */
  [DEAD_LETTER_RECORD]({ payload, pairs }: DeadLetter): MqttPublishRecord {
    const properties = { userProperties: [...pairs] };
    return new MqttPublishRecord(payload, { properties, envelope: 'none', holdsAcknowledgement: false });
  }

  /** @internal for dead letters: whether they would come back */
  get [DEAD_LETTER_ENDPOINTS](): readonly Endpoint[] {
    return this.client.endpoints;
  }

  protected createClient(options: MqttClientOptions): MqttClient {
    return new MqttClient(options);
  }

  protected publish(packet: ReadPacket, callback: (packet: WritePacket) => void): () => void {
    try {
      if (!HOOKED_BY_NEST) this.onDispatchHook?.(packet);
      const record = asPublishRecord(packet.data);
      const route = this.routeOf(packet.pattern);
      const timeoutMs = record?.options.requestTimeout ?? this.own.requestTimeout ?? 30_000;
      const data: unknown = record === undefined ? packet.data : record.data;
      const publish = (id: string): PublishRequest => this.messageOf(route, { ...packet, data, id }, record?.options);
      return this.requester.request({ route, timeoutMs, publish }, callback);
    } catch (error) {
      callback({ err: error, isDisposed: true });
      return () => undefined;
    }
  }

  protected dispatchEvent<T = PublishResult>(packet: ReadPacket): Promise<T> {
    return this.start(packet.pattern, packet.data).outcome() as Promise<T>;
  }

  private start(pattern: unknown, given: unknown): Emission<PublishResult> {
    const record = asPublishRecord(given);
    const route = this.routeOf(pattern);
    const emission = new Emission<PublishResult>(this.reports, route, record?.options.holdsAcknowledgement !== false);
    try {
      if (this.closing !== undefined) throw new ClosedError(`emit('${route}'): the proxy is closed`);
      if (record === undefined && (given === undefined || given === null)) {
        throw new TransportError(
          'ERR_SERIALIZATION',
          `emit('${route}', ${String(given)}): there is no data; an empty payload needs new MqttPublishRecord(null)`,
        );
      }
      const packet: ReadPacket = { pattern, data: record === undefined ? given : record.data };
      this.onDispatchHook?.(packet);
      this.submit(this.messageOf(route, packet, record?.options), emission);
    } catch (error) {
      emission.fail(error);
    }
    return emission;
  }

  /** The order of the calls is the order on the wire, also of those before the first connection. */
  private submit(message: PublishRequest, emission: Emission<PublishResult>): void {
    if (this.ready && this.queue.size === 0) {
      this.pending += 1;
      this.hand(message, emission);
      return;
    }
    if (this.queue.size >= this.maxQueued) {
      throw new TransportError(
        'ERR_QUEUE_FULL',
        `emit('${emission.pattern}'): ${this.maxQueued} messages wait for the connection (option publishQueue.maxMessages)`,
        { retriable: true },
      );
    }
    this.pending += 1;
    const queued = { message, emission };
    this.queue.add(queued);
    emission.handle = { cancel: () => this.queue.delete(queued) && this.settle(emission, takenBack(emission.pattern)) };
    // Its failure reaches the emits that wait.
    this.connect().catch(() => undefined);
  }

  private hand(message: PublishRequest, emission: Emission<PublishResult>): void {
    emission.handle = this.client.submit(message, (error, result) => this.settle(emission, error, result));
  }

  private settle(emission: Emission<PublishResult>, error: unknown, result?: PublishResult): true {
    this.pending -= 1;
    if (error === undefined && result !== undefined) emission.succeed(result);
    else emission.fail(error);
    return true;
  }

  private messageOf(
    route: string,
    packet: ReadPacket & { readonly id?: string },
    options: MqttPublishRecordOptions | undefined,
  ): PublishRequest {
    const { own } = this;
    const enveloped = own.envelope === 'nest' && options?.envelope !== 'none';
    const serialized =
      own.serializer !== undefined
        ? serializedPayload(own.serializer.serialize(packet, { ...options }))
        : { payload: toPayload(enveloped ? packet : packet.data), properties: undefined };
    const metadata = metadataProperties((packet as { metadata?: unknown }).metadata);
    const properties = withUserProperties(
      options?.properties,
      own.messageProperties,
      serialized.properties,
      enveloped ? undefined : metadata,
    );
    return {
      topic: route,
      payload: serialized.payload ?? Buffer.alloc(0),
      qos: options?.qos ?? own.qos ?? 1,
      retain: options?.retain ?? own.retain ?? false,
      ...(properties !== undefined && { properties }),
    };
  }

  private routeOf(pattern: unknown): string {
    if (typeof pattern === 'string') return pattern;
    return pattern === undefined || pattern === null ? '' : this.normalizePattern(pattern as MsPattern);
  }

  private listen(): void {
    const { client, requester } = this;
    client.onDelivery = (delivery) => {
      client.start(delivery);
      client.acknowledge(delivery);
      requester.receive(delivery.message);
    };
    client.on('status', ({ state }) => {
      this._status$.next(state);
      if (state === 'failed') this.gaveUp();
    });
    client.on('warning', ({ message }) => this.logger.warn(message));
    client.on('error', (error) => this.logger.error(error.message));
  }

  private connected(): void {
    this.ready = true;
    for (const queued of this.queue) {
      this.queue.delete(queued);
      this.hand(queued.message, queued.emission);
    }
  }

  private gaveUp(): void {
    this.ready = false;
    this.connecting = undefined;
    if (this.pending === 0 || this.closing !== undefined) return;
    this.clock.setTimer(() => void this.connect().catch(() => undefined), RETRY_AFTER_GIVING_UP_MS, false);
  }

  private end(why: string): void {
    const error = new ClosedError(why);
    this.requester.table.failAll(error);
    for (const queued of this.queue) {
      this.queue.delete(queued);
      this.settle(queued.emission, error);
    }
  }
}

/** User properties in this order: the proxy's, the serializer's, the dispatch hook's, the record's own. */
function withUserProperties(
  properties: Properties | undefined,
  ...added: readonly (Readonly<Record<string, string>> | undefined)[]
): Properties | undefined {
  const pairs = added.flatMap((record): UserProperty[] => (record === undefined ? [] : Object.entries(record)));
  if (pairs.length === 0) return properties;
  return { ...properties, userProperties: [...pairs, ...(properties?.userProperties ?? [])] };
}
