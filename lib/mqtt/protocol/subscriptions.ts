import {
  ClosedError,
  LocalProtocolError,
  RemoteProtocolError,
  TimeoutError,
  type TransportError,
} from '../../errors.js';
import { encodePacket } from '../codec/control.js';
import { PROTOCOL_ERROR } from '../codec/malformed.js';
import { type Properties, type SubackPacket, type SubscriptionRequest, type UnsubackPacket } from '../codec/packets.js';
import { type SessionCore } from './core.js';
import { GrantedFilters } from './granted-filters.js';
import { SUBSCRIBE_IDENTIFIERS } from './packet-ids.js';
import {
  filterOf,
  identifierClashes,
  identifierOf,
  isSubscribe,
  isUnsubscribe,
  type Part,
  requestOf,
  SubscribeJob,
  UnsubscribeJob,
} from './subscribe-job.js';
import { type Answer, checkSubscription, lackingOfServer } from './subscription-check.js';
import { validateTopicFilter } from './topic-filter.js';
import { type Subscription, type SubscriptionGrant } from './types.js';

/** A SUBSCRIBE or UNSUBSCRIBE without its answer; all parts are of one kind. */
interface PendingPacket {
  readonly packetId: number;
  readonly kind: 'subscribed' | 'unsubscribed';
  readonly parts: readonly Part[];
  readonly deadline: number;
  timedOut: boolean;
}

interface AnsweredPart extends Answer {
  readonly part: Part<SubscribeJob>;
}

const NO_SUBSCRIPTION_EXISTED = 0x11;

/**
 * What we want to be subscribed to and what the server's session has. On a new session everything wanted is subscribed
 * again; on a resumed one only what differs.
 */
export class Subscriptions {
  // valid for the session
  private readonly wanted = new Map<string, Subscription>();
  private readonly granted: GrantedFilters;
  /** Wanted, and at the last renewal refused or granted with a lower QoS. */
  private readonly refused = new Set<string>();
  /** Not sent on this connection, in the order of the calls. */
  private queue: Part[] = [];

  // valid for one connection
  private online = false;
  private resumed = false;
  private readonly pending = new Map<number, PendingPacket>();

  constructor(private readonly core: SessionCore) {
    this.granted = new GrantedFilters(core);
  }

  get awaitsAnswer(): boolean {
    return this.pending.size > 0;
  }

  /** The server's session had something of ours. */
  get holdsState(): boolean {
    return this.granted.size > 0;
  }

  /** The filters wanted, in the order they came. */
  get filters(): readonly Subscription[] {
    return [...this.wanted.values()];
  }

  /** Those that the server did not grant again after the session was lost, until it does. */
  get refusedFilters(): readonly string[] {
    return [...this.refused];
  }

  /** @throws LocalProtocolError for what the protocol or the server does not allow; then nothing was changed */
  subscribe(requests: readonly Subscription[], token: unknown, now: number): void {
    for (const request of requests) {
      checkSubscription(request);
      const lacking = this.online ? lackingOfServer(request, this.core.limits) : undefined;
      if (lacking !== undefined)
        throw new LocalProtocolError(`Subscription '${request.filter}': ${lacking.reasonString}`);
    }
    const job = new SubscribeJob(requests, token);
    requests.forEach((request, index) => {
      this.wanted.set(request.filter, request);
      this.queue.push({ job, index });
    });
    if (requests.length === 0) this.core.outbox.emit(job);
    this.pump(now);
  }

  unsubscribe(filters: readonly string[], token: unknown, now: number): void {
    for (const filter of filters) validateTopicFilter(filter);
    const job = new UnsubscribeJob(filters, token);
    filters.forEach((filter, index) => {
      this.wanted.delete(filter);
      this.refused.delete(filter);
      this.queue.push({ job, index });
    });
    if (filters.length === 0) this.core.outbox.emit(job);
    this.pump(now);
  }

  /** CONNECT is about to be written. */
  connecting(): void {
    this.granted.withdraw();
  }

  connected(sessionPresent: boolean, now: number): void {
    this.online = true;
    this.resumed = sessionPresent;
    if (sessionPresent) this.granted.record();
    else {
      this.granted.clear();
      const obsolete = this.queue.filter(isUnsubscribe);
      this.queue = this.queue.filter(isSubscribe);
      for (const part of obsolete) this.unsubscribed(part, NO_SUBSCRIPTION_EXISTED);
    }
    const queued = new Set(this.queue.filter(isSubscribe).map((part) => requestOf(part).filter));
    const missing = [...this.wanted.values()].filter(
      (request) => !queued.has(request.filter) && !this.granted.includes(request),
    );
    const renewal = new SubscribeJob(missing, undefined);
    this.queue.unshift(...missing.map((_, index) => ({ job: renewal, index })));
    this.refuseLacking();
    this.pump(now);
  }

  /** Nothing more is sent on this connection. */
  leave(): void {
    this.online = false;
  }

  disconnected(): void {
    this.online = false;
    const packets = [...this.pending.values()];
    this.pending.clear();
    for (const { packetId } of packets) this.core.ids.release(packetId);
    const open = packets.filter((packet) => !packet.timedOut).flatMap(({ parts }) => parts);
    // A renewal is planned anew by connected().
    this.queue = [...open, ...this.queue].filter(({ job }) => job.token !== undefined && job.error === undefined);
  }

  /** Sends what waits, in batches, while packet identifiers last. */
  pump(now: number): void {
    if (!this.online) return;
    if (this.granted.inheritedCount > 0) this.grantInherited();
    const leaving = this.queue.filter(isUnsubscribe);
    if (leaving.length > 0) this.granted.forget(leaving.map(filterOf));
    while (this.queue.length > 0 && this.pending.size < SUBSCRIBE_IDENTIFIERS) {
      const packetId = this.core.ids.take();
      if (packetId === 0) return;
      const parts = this.queue.splice(0, this.nextBatchSize());
      const kind = parts[0].job.kind;
      this.core.outbox.write(this.encode(packetId, parts));
      const deadline = now + this.core.config.subscribeTimeout;
      this.pending.set(packetId, { packetId, kind, parts, deadline, timedOut: false });
    }
  }

  /** The resumed session has what an earlier process was granted: a SUBSCRIBE would only repeat retained messages. */
  private grantInherited(): void {
    this.queue = this.queue.filter((part) => {
      if (!isSubscribe(part)) return true;
      const request = requestOf(part);
      const known = this.granted.claim(request);
      if (known) this.fulfil(part, { filter: request.filter, requestedQos: request.qos, reasonCode: request.qos });
      return !known;
    });
  }

  private fulfil(part: Part<SubscribeJob>, grant: SubscriptionGrant): void {
    const { job, index } = part;
    job.grants[index] = grant;
    job.remaining -= 1;
    if (job.remaining === 0 && job.error === undefined) this.core.outbox.emit(job);
  }

  private encode(packetId: number, parts: readonly Part[]): Buffer {
    const { version } = this.core;
    if (parts.every(isUnsubscribe)) {
      return encodePacket({ type: 'unsubscribe', packetId, filters: parts.map(filterOf) }, version);
    }
    const requests = parts.filter(isSubscribe).map(requestOf);
    const subscriptions = requests.map((request) => this.toWire(request));
    return encodePacket(
      { type: 'subscribe', packetId, subscriptions, ...this.identifierProperties(requests[0]) },
      version,
    );
  }

  /**
   * How many parts go into the next packet: of one kind, with one Subscription Identifier [MQTT5 3.8.2.1.2], within the
   * option and the server's Maximum Packet Size.
   */
  private nextBatchSize(): number {
    const first = this.queue[0];
    let bytes = FIXED_BYTES;
    let count = 0;
    while (count < this.queue.length && count < this.core.config.subscribeBatchSize) {
      const part = this.queue[count];
      bytes += 3 + Buffer.byteLength(filterOf(part));
      if (part.job.kind !== first.job.kind || identifierOf(part) !== identifierOf(first)) break;
      if (bytes > this.core.limits.maximumPacketSize && count > 0) break;
      count += 1;
    }
    return count;
  }

  private identifierProperties(request: Subscription): { properties?: Properties } {
    const { subscriptionIdentifier: identifier } = request;
    if (identifier === undefined || this.core.version === 4 || !this.core.limits.subscriptionIdentifiers) return {};
    return { properties: { subscriptionIdentifiers: [identifier] } };
  }

  private toWire(request: Subscription): SubscriptionRequest {
    const { filter, qos, noLocal, retainAsPublished, retainHandling } = request;
    if (this.core.version === 4) {
      if (noLocal === true || retainAsPublished === true || (retainHandling ?? 0) !== 0) {
        this.core.warnOnce('subscription options', 'MQTT 3.1.1 has no subscription options but the QoS: left out');
      }
      return { filter, qos };
    }
    return {
      filter,
      qos,
      noLocal: noLocal ?? false,
      retainAsPublished: retainAsPublished ?? false,
      // On a resumed session the filter may be there already: its retained messages would come a second time.
      retainHandling: retainHandling ?? (this.resumed ? 1 : 0),
    };
  }

  suback(packet: SubackPacket, now: number): void {
    const subscribes = this.take(packet.packetId, 'subscribed', packet.reasonCodes.length)?.filter(isSubscribe);
    if (subscribes === undefined) return;
    const reasonString = packet.properties?.reasonString;
    const answers = subscribes.map((part, i) => ({
      part,
      reasonCode: packet.reasonCodes[i],
      ...(reasonString !== undefined && { reasonString }),
    }));
    const clashing = answers.filter((answer) => this.clashes(answer.part, answer.reasonCode));
    this.askAgain(clashing.map(({ part }) => part));
    this.conclude(answers.filter((answer) => !clashing.includes(answer)));
    this.pump(now);
    this.recordAtEnd();
  }

  /** To be sent once more with another packet identifier; not if something else was asked about its filter since. */
  private clashes(part: Part, reasonCode: number): boolean {
    const wanted = this.wanted.get(filterOf(part));
    if (wanted !== (isSubscribe(part) ? requestOf(part) : undefined)) return false;
    return identifierClashes(part, reasonCode, this.core.version === 4, this.resumed);
  }

  private askAgain(parts: readonly Part[]): void {
    if (parts.length === 0) return;
    this.core.ids.evade();
    for (const part of parts) part.askedAgain = true;
    this.queue.unshift(...parts);
  }

  private conclude(answers: readonly AnsweredPart[]): void {
    const refused: SubscriptionGrant[] = [];
    for (const { part, ...answer } of answers) {
      const request = requestOf(part);
      const grant: SubscriptionGrant = { filter: request.filter, requestedQos: request.qos, ...answer };
      const renewal = part.job.token === undefined;
      this.answered(request, answer.reasonCode, renewal);
      this.refused.delete(request.filter);
      if (renewal && (answer.reasonCode >= 0x80 || answer.reasonCode < request.qos)) {
        this.refused.add(request.filter);
        refused.push(grant);
      }
      this.fulfil(part, grant);
    }
    if (refused.length > 0) this.core.outbox.emit({ kind: 'resubscribeRefused', grants: refused });
  }

  /** What this server says it does not have is not asked for: the answer is the one that it would give. */
  private refuseLacking(): void {
    const refused: AnsweredPart[] = [];
    this.queue = this.queue.filter((part) => {
      const lacking = isSubscribe(part) ? lackingOfServer(requestOf(part), this.core.limits) : undefined;
      if (lacking === undefined || !isSubscribe(part)) return true;
      refused.push({ part, ...lacking });
      return false;
    });
    this.conclude(refused);
  }

  /** A refused filter of a renewal stays wanted: it is tried again on the next connection. */
  private answered(request: Subscription, reasonCode: number, renewal: boolean): void {
    this.granted.answered(request, reasonCode);
    if (reasonCode < 0x80 || renewal) return;
    if (this.wanted.get(request.filter) === request) this.wanted.delete(request.filter);
  }

  unsuback(packet: UnsubackPacket, now: number): void {
    // An UNSUBACK of 3.1.1 has no codes.
    const answered = this.core.version === 5 ? packet.reasonCodes.length : undefined;
    const unsubscribes = this.take(packet.packetId, 'unsubscribed', answered)?.filter(isUnsubscribe);
    if (unsubscribes === undefined) return;
    const clashing: Part[] = [];
    unsubscribes.forEach((part, i) => {
      const reasonCode = this.core.version === 5 ? packet.reasonCodes[i] : 0;
      if (this.clashes(part, reasonCode)) clashing.push(part);
      else this.unsubscribed(part, reasonCode);
    });
    this.askAgain(clashing);
    this.pump(now);
    this.recordAtEnd();
  }

  /** Once for all packets of a burst: what the store does not know of is only subscribed again. */
  private recordAtEnd(): void {
    for (const { timedOut } of this.pending.values()) if (!timedOut) return;
    this.granted.record();
  }

  private unsubscribed(part: Part<UnsubscribeJob>, reasonCode: number): void {
    const { job, index } = part;
    job.results[index] = { filter: job.filters[index], reasonCode };
    job.remaining -= 1;
    if (job.remaining === 0 && job.error === undefined) this.core.outbox.emit(job);
  }

  private take(
    packetId: number,
    kind: PendingPacket['kind'],
    answered: number | undefined,
  ): readonly Part[] | undefined {
    const pending = this.pending.get(packetId);
    if (pending?.kind !== kind) {
      this.core.counters.unknownAcknowledgements += 1;
      return undefined;
    }
    // Before it is taken: its callers still wait, for the next connection or their time to pass.
    if (answered !== undefined && answered !== pending.parts.length) {
      throw new RemoteProtocolError(
        `${answered} reason codes for ${pending.parts.length} filters [MQTT-3.9.3-1, 3.11.3-1]`,
        PROTOCOL_ERROR,
      );
    }
    this.pending.delete(packetId);
    this.core.ids.release(packetId);
    return pending.parts;
  }

  /** What the broker has granted to an earlier process. */
  restore(filters: readonly Subscription[]): void {
    this.granted.restore(filters);
  }

  nextDeadline(): number | undefined {
    // Packets are sent in order with the same bound: the first open one is the earliest.
    for (const packet of this.pending.values()) if (!packet.timedOut) return packet.deadline;
    return undefined;
  }

  handleTimeout(now: number): void {
    for (const packet of this.pending.values()) {
      if (packet.timedOut || packet.deadline > now) continue;
      packet.timedOut = true;
      const { subscribeTimeout } = this.core.config;
      const error = new TimeoutError(`No answer to a subscription within ${subscribeTimeout} ms`, subscribeTimeout);
      for (const { job } of packet.parts) this.failJob(job, error);
    }
  }

  /** Settles everything open: the client ends, or gives up. */
  fail(reason: string): void {
    const parts = [...[...this.pending.values()].flatMap((packet) => packet.parts), ...this.queue];
    this.pending.clear();
    this.queue = [];
    for (const { job } of parts) this.failJob(job, new ClosedError(`Subscription: ${reason}`));
  }

  private failJob(job: SubscribeJob | UnsubscribeJob, error: TransportError): void {
    if (job.error !== undefined) return;
    job.error = error;
    if (job.token !== undefined) this.core.outbox.emit(job);
  }
}

/** Fixed header, packet identifier and a Subscription Identifier. */
const FIXED_BYTES = 5 + 2 + 6;
