import { errorText } from '../error-text.js';
import { ClosedError, ConnectionError, LocalProtocolError } from '../errors.js';
import { type Endpoint } from '../net/dial.js';
import { type Properties } from './codec/packets.js';
import { type ClientOutput, SessionDriver } from './driver.js';
import { ClientMonitor } from './client-monitor.js';
import { type MqttClientOptions, type ResolvedMqttClientOptions } from './option-types.js';
import { parseMqttClientOptions } from './options.js';
import { type Delivery, type MqttDelivery } from './protocol/delivery.js';
import { type OutboundPublish } from './protocol/outbound-publish.js';
import { MqttSession } from './protocol/session.js';
import { REFUSED_PUBLISH, SubmittedPublish } from './publish-handle.js';
import { Reauthentication } from './reauthentication.js';
import { settleJob, type Waiter } from './waiter.js';
import { randomClientId, sessionConfig } from './session-config.js';
import {
  type CloseOptions,
  type ConnectResult,
  type MqttClientEvents,
  type MqttStats,
  type MqttStatus,
  type PublishCallback,
  type PublishHandle,
  type PublishRequest,
  type PublishResult,
  type Subscription,
  type SubscriptionGrant,
  type UnsubscribeResult,
} from './types.js';

/**
 * An MQTT 5 and 3.1.1 client in which every received message is acknowledged by its owner: `acknowledge(delivery)` in any
 * order, at any time, also after a reconnect.
 *
 *     const client = new MqttClient({ url: 'mqtt://localhost', clientId: 'ingest-1' });
 *     client.onDelivery = (delivery) => store(delivery.message).then(() => client.acknowledge(delivery));
 *     await client.connect();
 *     await client.subscribe([{ filter: 'sensors/#', qos: 1 }]);
 */
export class MqttClient {
  /**
   * Called synchronously for every new delivery (state `waiting`), and again for a failed one that the broker has sent
   * again (same object, state `waiting`, attempt one higher). Set it before `connect()`: a resumed session delivers at once.
   */
  onDelivery: ((delivery: MqttDelivery) => void) | undefined = undefined;
  /**
   * Called for a failed delivery that will not come back under this object: the broker sent it again without the mark of a
   * copy, as a new message. Its state is `settled`.
   */
  onDropped: ((delivery: MqttDelivery) => void) | undefined = undefined;

  private readonly options: ResolvedMqttClientOptions;
  private readonly session: MqttSession;
  private readonly driver: SessionDriver;
  private readonly monitor: ClientMonitor;
  private readonly reauthentication: Reauthentication;
  private connecting: Waiter<ConnectResult>[] = [];
  private closing: Promise<void> | undefined;
  private onEnded: (() => void) | undefined;
  private whenPublished: (() => void) | undefined;

  /** @throws OptionsError before anything connects */
  constructor(options: MqttClientOptions) {
    this.options = parseMqttClientOptions(options);
    const { clock, clientId, session } = this.options;
    const ownId = clientId === '' && session.ephemeral && options.clientId === undefined;
    this.session = new MqttSession(sessionConfig(this.options, ownId ? randomClientId(clock) : clientId));
    this.monitor = new ClientMonitor(this.session, this.options.clock);
    this.driver = new SessionDriver(
      this.session,
      this.options,
      (output) => this.handle(output),
      (error) => this.monitor.failed(error),
    );
    this.reauthentication = new Reauthentication(this.session, this.options.authentication, () => this.driver.run());
  }

  /**
   * Connects and stays connected until `close()`: a lost connection is made again with backoff.
   *
   * @returns when CONNACK has come
   * @throws ConnectionError, AuthenticationError, SessionError when no server accepts (with `waitForBroker` only for what
   * cannot pass by itself), ClosedError after `close()`
   */
  connect(): Promise<ConnectResult> {
    if (this.closing !== undefined) return Promise.reject(new ClosedError('connect() after close()'));
    const { result } = this.session;
    if (this.session.online && result !== undefined) return Promise.resolve(result);
    const connected = new Promise<ConnectResult>((resolve, reject) => this.connecting.push({ resolve, reject }));
    if (this.monitor.state === 'idle' || this.monitor.state === 'failed') this.monitor.setState('connecting');
    const restored = this.driver.restore();
    if (restored === undefined) this.begin();
    else
      restored.then(
        () => this.begin(),
        (error: Error) => this.rejectConnecting(error),
      );
    return connected;
  }

  private begin(): void {
    if (this.closing !== undefined) return;
    this.session.connect(!this.options.waitForBroker, this.driver.now());
    this.driver.run();
  }

  /**
   * Adds filters to what this client is subscribed to; they are subscribed again whenever the broker has lost the session.
   *
   * @returns one grant per filter, refused ones included: see `assertGranted`
   * @throws LocalProtocolError for an invalid filter, TimeoutError, ClosedError
   */
  subscribe(subscriptions: readonly Subscription[]): Promise<SubscriptionGrant[]> {
    return new Promise((resolve, reject) => {
      this.session.subscribe(subscriptions, { resolve, reject }, this.driver.now());
      this.driver.run();
    });
  }

  unsubscribe(filters: readonly string[]): Promise<UnsubscribeResult[]> {
    return new Promise((resolve, reject) => {
      this.session.unsubscribe(filters, { resolve, reject }, this.driver.now());
      this.driver.run();
    });
  }

  /**
   * Publishes; without a connection it waits in the bounded queue.
   *
   * @returns when the broker has it: PUBACK, PUBCOMP, or with QoS 0 when it is written
   * @throws LocalProtocolError, MessageTooLargeError, PublishError (refused), TransportError ERR_QUEUE_FULL,
   * TimeoutError (expired before it was sent), SessionError ERR_SESSION_LOST, ClosedError (`ambiguous` if it was written)
   */
  publish(message: PublishRequest): Promise<PublishResult> {
    return new Promise((resolve, reject) => {
      this.submit(message, (error, result) => {
        if (error === undefined) resolve(result as PublishResult);
        else reject(error);
      });
    });
  }

  /** `publish()` without a promise; the callback comes exactly once and never before this returns. */
  submit(message: PublishRequest, callback: PublishCallback): PublishHandle {
    try {
      if (this.closing !== undefined) throw new ClosedError(`Publish to '${message.topic}' after close()`);
      const publish = this.session.publish(message, callback, this.driver.now());
      // Even a publish that is settled at once tells so later.
      if (this.session.hasOutputs) this.options.clock.endOfTurn(() => this.driver.run());
      else this.driver.run();
      return new SubmittedPublish(publish, this.cancel);
    } catch (error) {
      const failure = error instanceof Error ? error : new LocalProtocolError(errorText(error));
      this.options.clock.endOfTurn(() => callback(failure));
      return REFUSED_PUBLISH;
    }
  }

  private readonly cancel = (publish: OutboundPublish): boolean => {
    const cancelled = this.session.cancel(publish);
    this.driver.run();
    return cancelled;
  };

  /**
   * `waiting`, `retrying` or `failed` -> `running`. A failed one that its owner runs again is one attempt further; should
   * the broker send it again meanwhile, nothing starts twice. False if it does not fit.
   */
  start(delivery: MqttDelivery): boolean {
    return this.session.start(delivery as Delivery);
  }

  /** `running` -> `retrying`: a local retry is planned; the place in the window is kept. */
  retry(delivery: MqttDelivery): boolean {
    return this.session.retry(delivery as Delivery);
  }

  /**
   * The message is done with: its acknowledgement leaves in its turn, in the write at the end of this turn of the event
   * loop if nothing before it is open.
   *
   * @param reasonCode MQTT 5: 0x80 and above end it as refused; throws for one that PUBACK or PUBREC does not know
   * @returns false if it was acknowledged before
   */
  acknowledge(delivery: MqttDelivery, reasonCode = 0, properties?: Properties): boolean {
    const first = this.session.acknowledge(delivery as Delivery, reasonCode, properties);
    this.driver.planFlush();
    return first;
  }

  /**
   * Not acknowledged: it stays with the broker until it comes again on a new connection. With QoS 0, or if the broker has
   * moved on, nothing will bring it back and the state is `settled` at once.
   */
  fail(delivery: MqttDelivery): boolean {
    return this.session.fail(delivery as Delivery);
  }

  /**
   * Writes what is acknowledged, disconnects and connects again, so that the broker sends again what is not; any number of
   * calls at a time make one reconnect, and without a connection none.
   */
  reconnect(reason: string): void {
    this.session.reconnect(reason, this.driver.now());
    this.driver.run();
  }

  /** Starts an AUTH exchange on the present connection [MQTT5 4.12.1]. */
  reauthenticate(): Promise<void> {
    return this.reauthentication.begin();
  }

  /** Stops reading as soon as nothing of ours awaits an answer of the broker; until then deliveries may still come. */
  pauseIntake(): void {
    this.session.pauseIntake(this.driver.now());
    this.driver.run();
  }

  /** Ends `pauseIntake()` and `drain()`. */
  resumeIntake(): void {
    if (this.monitor.state === 'draining') this.monitor.setState(this.session.online ? 'connected' : 'reconnecting');
    this.session.resumeIntake(this.driver.now());
    this.driver.run();
  }

  /** Hands out no new delivery from now on; resolves at once, what is running goes on. */
  async drain(): Promise<void> {
    this.session.drain(this.driver.now());
    if (this.monitor.state === 'connected' || this.monitor.state === 'reconnecting') this.monitor.setState('draining');
    this.driver.run();
  }

  /**
   * Waits for open publishes, writes the acknowledgements whose turn has come and DISCONNECT, and closes; subscriptions stay
   * with the session. Always resolves, at the latest after `timeout`; a second call gets the same promise.
   */
  close(options: CloseOptions = {}): Promise<void> {
    return (this.closing ??= this.closeOnce(options));
  }

  private async closeOnce(options: CloseOptions): Promise<void> {
    const { clock, store } = this.options;
    const timeout = options.timeout ?? this.options.session.closeTimeout;
    const ended = new Promise<void>((resolve) => (this.onEnded = resolve));
    const leave = (): void => {
      this.whenPublished = undefined;
      const { sessionExpiry } = options;
      const properties = sessionExpiry === undefined ? undefined : { sessionExpiryInterval: sessionExpiry };
      const reasonCode = options.withWill === true && this.session.version === 5 ? 0x04 : 0;
      this.session.close({ reasonCode, ...(properties !== undefined && { properties }) }, this.driver.now());
      this.driver.run();
    };
    const timer = clock.setTimer(() => this.destroy(), timeout);
    if (this.session.online && this.session.pendingPublishes > 0) this.whenPublished = leave;
    else leave();
    await ended;
    clock.clearTimer(timer);
    await this.driver.stored();
    await store?.close().catch((error: unknown) => this.monitor.failed(error));
  }

  /** Closes at once: nothing is waited for or written. */
  destroy(): void {
    this.closing ??= Promise.resolve();
    this.session.close({ reasonCode: 0 }, this.driver.now());
    this.driver.drop(new ConnectionError('Closed by us'));
    this.driver.run();
  }

  /** @returns the function that removes the listener */
  on<K extends keyof MqttClientEvents>(event: K, listener: (payload: MqttClientEvents[K]) => void): () => void {
    return this.monitor.events.on(event, listener);
  }

  get status(): MqttStatus {
    return this.monitor.status;
  }

  get stats(): MqttStats {
    return this.monitor.stats;
  }

  /** What the broker counts against our Receive Maximum. */
  get window(): { readonly used: number; readonly size: number } {
    return { used: this.session.windowUsed, size: this.options.session.receiveMaximum };
  }

  oldestUnacknowledged(): { readonly delivery: MqttDelivery; readonly ageMs: number } | undefined {
    const delivery = this.session.oldestUnacknowledged();
    return delivery === undefined ? undefined : { delivery, ageMs: this.driver.now() - delivery.receivedAt };
  }

  /**
   * Failed deliveries that the broker has not sent again on the present connection. What stays here while others come has
   * expired, or was lost with a session at the broker: only `start()` runs it again.
   */
  unclaimed(): readonly MqttDelivery[] {
    return this.session.unclaimed();
  }

  /** Of the present or last connection. */
  get protocolVersion(): 4 | 5 | undefined {
    return this.session.version;
  }

  get clientId(): string {
    return this.session.clientId;
  }

  /** Of the present or last connection. */
  get connection(): ConnectResult | undefined {
    return this.session.result;
  }

  /** The servers of the option `url`, in its order. */
  get endpoints(): readonly Endpoint[] {
    return this.options.endpoints.map(({ endpoint }) => endpoint);
  }

  private handle(output: ClientOutput): void {
    switch (output.kind) {
      case 'deliver':
        return this.onDelivery?.(output);
      case 'published':
        return this.published(output);
      case 'subscribed':
      case 'unsubscribed':
        return settleJob(output);
      case 'connected':
        return this.connected(output.result);
      case 'disconnected':
        return this.disconnected(output.cause, output.nextDialAt !== undefined, output.fallsBack);
      case 'gaveUp':
        return this.gaveUp(output.error);
      case 'ended':
        return this.ended();
      case 'sessionLost':
        return this.monitor.events.emit('sessionLost', { orphaned: output.orphaned.length });
      case 'dropped':
        return this.onDropped?.(output.delivery);
      case 'resubscribeRefused':
        return this.monitor.resubscribeRefused(output.grants);
      case 'serverDisconnect':
        return this.monitor.events.emit('serverDisconnect', output);
      case 'reauthenticated':
        return this.reauthentication.succeeded();
      case 'warning':
        this.monitor.notes.push(output.message);
        return this.monitor.events.emit('warning', { message: output.message });
    }
  }

  private published(publish: OutboundPublish): void {
    (publish.token as PublishCallback | undefined)?.(publish.error, publish.result);
    if (this.whenPublished !== undefined && this.session.pendingPublishes === 0) this.whenPublished();
  }

  private connected(result: ConnectResult): void {
    this.monitor.newConnection();
    this.monitor.setState(this.session.draining ? 'draining' : 'connected');
    this.monitor.report('connected');
    for (const { resolve } of this.connecting.splice(0)) resolve(result);
    this.monitor.events.emit('connect', result);
  }

  private disconnected(cause: Error | undefined, willReconnect: boolean, fallsBack: boolean): void {
    this.monitor.lastError = cause ?? this.monitor.lastError;
    if (willReconnect && this.monitor.state !== 'draining')
      this.monitor.setState(this.session.result === undefined ? 'connecting' : 'reconnecting');
    this.monitor.report('disconnected', cause);
    this.reauthentication.failed(cause ?? new ClosedError('Closed while authenticating again'));
    // Open publishes cannot be waited for any more: close() must not hang on a broker that is away.
    this.whenPublished?.();
    this.monitor.events.emit('disconnect', { cause, willReconnect, fallsBack });
  }

  private gaveUp(error: Error): void {
    this.monitor.lastError = error;
    this.monitor.setState('failed');
    this.driver.stop();
    const waiting = this.connecting.length > 0;
    this.rejectConnecting(error);
    if (!waiting) this.monitor.events.emit('error', error);
  }

  private ended(): void {
    this.driver.stop();
    this.monitor.setState('closed');
    this.monitor.report('closed');
    this.rejectConnecting(new ClosedError('The client was closed'));
    this.onEnded?.();
  }

  private rejectConnecting(error: Error): void {
    if (this.monitor.state === 'connecting') this.monitor.setState('idle');
    for (const { reject } of this.connecting.splice(0)) reject(error);
  }
}
