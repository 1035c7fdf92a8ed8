import { encodeAck } from '../codec/acks.js';
import { type Properties } from '../codec/packets.js';
import { type SessionConfig } from './config.js';
import { type ConnectCredentials } from './connect.js';
import { type ConnectionState } from './connection-state.js';
import { SessionCore, type SessionCounters } from './core.js';
import { type Delivery, type DeliveryState } from './delivery.js';
import { type Inbound } from './inbound.js';
import { Intake } from './intake.js';
import { Link } from './link.js';
import { type Outbound } from './outbound.js';
import { type OutboundPublish } from './outbound-publish.js';
import { type SessionOutput } from './outbox.js';
import { type SessionStoreChange, type StoredSession } from './stored-session.js';
import { SessionParts } from './session-parts.js';
import { type Subscriptions } from './subscriptions.js';
import { type ConnectResult, type PublishRequest, type Subscription } from './types.js';

/**
 * An MQTT client's session without any I/O: the only entry of `protocol/`. Time (`now`, monotonic ms) and randomness are
 * arguments; what is to be done is taken with `takeOutputs()` and `takeBytes()` after each input; `nextDeadline()` and
 * `handleTimeout()` stand for timers. No method calls back, so every one may be called at any time.
 */
export class MqttSession {
  private readonly core: SessionCore;
  private readonly inbound: Inbound;
  private readonly outbound: Outbound;
  private readonly subscriptions: Subscriptions;
  private readonly intake: Intake;
  private readonly link: Link;

  constructor(config: SessionConfig) {
    this.core = new SessionCore(config);
    const parts = new SessionParts(this.core);
    this.inbound = parts.inbound;
    this.outbound = parts.outbound;
    this.subscriptions = parts.subscriptions;
    this.intake = new Intake(parts);
    this.link = new Link(this.core, parts, this.intake);
  }

  // Outputs

  get hasOutputs(): boolean {
    return this.core.outbox.hasOutputs;
  }

  takeOutputs(): SessionOutput[] {
    return this.core.outbox.takeOutputs();
  }

  /** `takeBytes()` would give something. */
  get hasBytes(): boolean {
    return this.core.outbox.hasBytes || this.link.hasMore;
  }

  /**
   * What is to be written now, in order. The acknowledgements among it count as handed to the socket from here on, so the
   * bytes must be written, unless the connection is lost at the same time.
   */
  takeBytes(now: number): Buffer[] {
    this.link.complete();
    const bytes = this.core.outbox.takeBytes();
    if (bytes.length > 0) {
      this.link.sent(now);
      this.outbound.handed();
    }
    if (this.intake.readingPaused) this.link.settle(now);
    return bytes;
  }

  /** Changes for the session store; they must be durable before bytes taken later are written. */
  takeChanges(): SessionStoreChange[] {
    return this.core.takeChanges();
  }

  get hasChanges(): boolean {
    return this.core.hasChanges;
  }

  /** When `handleTimeout` is due; it may be called later, or too early. */
  nextDeadline(): number | undefined {
    return this.link.nextDeadline();
  }

  handleTimeout(now: number): void {
    this.link.handleTimeout(now);
  }

  // Connection

  /** @param failFast give up (`gaveUp`) after one failed try at each server, until the first connection stood */
  connect(failFast: boolean, now: number): void {
    this.link.connect(failFast, now);
  }

  opened(credentials: ConnectCredentials, now: number): void {
    this.link.opened(credentials, now);
  }

  receive(chunk: Buffer, now: number): void {
    this.link.receive(chunk, now);
  }

  lost(error: Error | undefined, now: number, random: number): void {
    this.link.lost(error, now, random);
  }

  setWritable(writable: boolean, now: number): void {
    this.outbound.setWritable(writable, now);
  }

  authenticated(step: 'continue' | 'finish', data: Buffer | undefined, now: number): void {
    this.link.authentication.answered(step, data, now);
  }

  authenticationFailed(cause: unknown, now: number): void {
    this.link.authentication.failed(cause, now);
  }

  reauthenticate(data: Buffer | undefined): boolean {
    return this.link.authentication.restart(data);
  }

  reconnect(reason: string, now: number): void {
    this.link.reconnect(reason, now);
  }

  /** Right after a `serverDisconnect`: the owner dials the server that it named. */
  follow(server: string): void {
    this.link.follow(server);
  }

  /** Acknowledgements that are ready, then DISCONNECT; `ended` follows when the transport is gone. */
  close(disconnect: { readonly reasonCode: number; readonly properties?: Properties }, now: number): void {
    const { sessionExpiryInterval: expiry = 0 } = disconnect.properties ?? {};
    // A session that CONNECT did not ask for cannot be asked for at the end [MQTT5 3.14.2.2.2].
    if (expiry > 0 && this.core.config.sessionExpiry === 0) {
      this.core.warn(`The session expiry was 0 at CONNECT: it cannot be ${expiry} s at DISCONNECT, and is left out`);
      this.link.close({ reasonCode: disconnect.reasonCode }, now);
    } else this.link.close(disconnect, now);
  }

  // Deliveries

  start(delivery: Delivery): boolean {
    return this.inbound.start(delivery);
  }

  retry(delivery: Delivery): boolean {
    return this.inbound.retry(delivery);
  }

  fail(delivery: Delivery): boolean {
    return this.inbound.fail(delivery);
  }

  /** @throws LocalProtocolError for a reason code or properties that the acknowledgement cannot carry */
  acknowledge(delivery: Delivery, reasonCode: number, properties: Properties | undefined): boolean {
    const { qos } = delivery.message;
    if (qos > 0 && (reasonCode !== 0 || properties !== undefined)) {
      // Checked here, where the caller can be told: its turn may come much later.
      const { length } = encodeAck({ type: qos === 2 ? 'pubrec' : 'puback', packetId: 1, reasonCode, properties }, 5);
      // [MQTT-3.4.2-2, 3.4.2-3, 3.5.2-2, 3.5.2-3]
      if (length > this.core.limits.maximumPacketSize) properties = undefined;
    }
    return this.inbound.acknowledge(delivery, reasonCode, properties);
  }

  pauseIntake(now: number): void {
    this.intake.paused = true;
    this.link.settle(now);
  }

  resumeIntake(now: number): void {
    this.intake.paused = false;
    this.intake.draining = false;
    this.inbound.resume();
    this.link.settle(now);
  }

  drain(now: number): void {
    this.intake.draining = true;
    this.inbound.stop();
    this.link.settle(now);
  }

  // Publishing and subscribing

  publish(request: PublishRequest, token: unknown, now: number): OutboundPublish {
    const publish = this.outbound.publish(request, token, now);
    if (this.intake.readingPaused) this.link.settle(now);
    return publish;
  }

  cancel(publish: OutboundPublish): boolean {
    return this.outbound.cancel(publish);
  }

  subscribe(requests: readonly Subscription[], token: unknown, now: number): void {
    this.subscriptions.subscribe(requests, token, now);
    if (this.intake.readingPaused) this.link.settle(now);
  }

  unsubscribe(filters: readonly string[], token: unknown, now: number): void {
    this.subscriptions.unsubscribe(filters, token, now);
    if (this.intake.readingPaused) this.link.settle(now);
  }

  /** What a store kept of an earlier process; before the first connect. */
  restore(stored: StoredSession): void {
    this.outbound.restore(stored);
    this.inbound.restore(stored.receivedIds);
    this.subscriptions.restore(stored.filters);
  }

  // Views

  get state(): ConnectionState {
    return this.link.state;
  }

  get online(): boolean {
    return this.link.online;
  }

  get draining(): boolean {
    return this.intake.draining;
  }

  get version(): 4 | 5 | undefined {
    return this.link.result?.protocolVersion;
  }

  get clientId(): string {
    return this.link.clientId;
  }

  get result(): ConnectResult | undefined {
    return this.link.result;
  }

  get server(): string {
    return this.link.server;
  }

  get readingPaused(): boolean {
    return this.intake.readingPaused;
  }

  get nextDialAt(): number | undefined {
    return this.link.nextDialAt();
  }

  pausedMs(now: number): number {
    return this.intake.pausedMs(now);
  }

  get counters(): Readonly<SessionCounters> {
    return this.core.counters;
  }

  /** QoS 1 and 2 deliveries by state. */
  get deliveries(): Readonly<Record<DeliveryState, number>> {
    return this.inbound.states.counts;
  }

  /** Of these, those that the server knows nothing of any more: what is here is the only copy. */
  get orphaned(): number {
    let count = 0;
    for (const { orphaned } of this.inbound.loose) if (orphaned) count += 1;
    return count;
  }

  get windowUsed(): number {
    return this.inbound.windowUsed;
  }

  /** The oldest one that is not acknowledged by its owner. */
  oldestUnacknowledged(): Delivery | undefined {
    return this.inbound.oldest();
  }

  /** Failed, and not sent again by the broker on this connection. */
  unclaimed(): Delivery[] {
    return this.inbound.unclaimed();
  }

  get pendingPublishes(): number {
    return this.outbound.pending;
  }

  get pendingPublishBytes(): number {
    return this.outbound.pendingBytes;
  }

  get filters(): readonly Subscription[] {
    return this.subscriptions.filters;
  }

  get refusedFilters(): readonly string[] {
    return this.subscriptions.refusedFilters;
  }
}
