import { RemoteProtocolError } from '../../errors.js';
import { PROTOCOL_ERROR } from '../codec/malformed.js';
import { type AckPacket, type Properties, type PublishPacket } from '../codec/packets.js';
import { AckLedger, type AcknowledgementSink } from './ack-ledger.js';
import { sameContent, toMessage } from './content.js';
import { type SessionCore } from './core.js';
import { DeliveryStates } from './delivery-states.js';
import { Delivery, type DeliveryCause, type MqttMessage } from './delivery.js';
import { InboundAliases } from './topic-alias.js';

const RECEIVE_MAXIMUM_EXCEEDED = 0x93;
const PACKET_IDENTIFIER_NOT_FOUND = 0x92;
const RESENT_WITHOUT_DUP =
  'The server sends messages again without DUP, against [MQTT-3.3.1-1]: what runs or has run here runs once more. ' +
  'Where it always does so (aedes), set bindWithoutDup: true';

/** Received messages: who holds them, in which state, and what the broker may still be told about them. */
export class Inbound implements AcknowledgementSink {
  // valid for the session
  readonly states = new DeliveryStates();
  /** Of earlier connections; a copy may come. */
  readonly held = new Map<number, Delivery>();
  /**
   * QoS 2: PUBREC below 0x80 was handed to a socket, PUBREL has not come [MQTT-4.3.3-10]. The message is unknown where the
   * PUBREC is of an earlier process.
   */
  private readonly received = new Map<number, MqttMessage | undefined>();
  /** Orphaned and superseded ones that are not finished. */
  readonly loose = new Set<Delivery>();
  /** Came while the intake was stopped. */
  private undelivered: Delivery[] = [];
  private stopped = false;
  private orphaned: Delivery[] = [];

  // valid for one connection
  readonly bound = new Map<number, Delivery>();
  private readonly ledger = new AckLedger();
  /** The part of `received` whose PUBREC went out on this connection: it uses the window until PUBCOMP. */
  private readonly receivedHere = new Set<number>();
  private aliases: InboundAliases;

  constructor(private readonly core: SessionCore) {
    this.aliases = new InboundAliases(core.config.topicAliasMaximum);
  }

  /** Deliveries that the broker counts against our Receive Maximum. */
  get windowUsed(): number {
    return this.bound.size + this.receivedHere.size;
  }

  /** More than the window is full, or the protocol has no window that the broker would keep to. */
  get overfull(): boolean {
    const used = this.windowUsed;
    return this.core.version === 5 ? used > this.core.config.receiveMaximum : used >= this.core.config.receiveMaximum;
  }

  /**
   * A PUBREL is due, and reading on is the only way to make room. While deliveries fill the window by themselves it is not:
   * their acknowledgements make room, and behind the PUBREL a broker that overruns the window has thousands of messages.
   */
  get awaitsRelease(): boolean {
    return this.receivedHere.size > 0 && this.bound.size < this.core.config.receiveMaximum;
  }

  get hasAcknowledgements(): boolean {
    return this.ledger.ready;
  }

  publish(packet: PublishPacket, now: number): void {
    this.core.counters.received += 1;
    const topic = this.aliases.resolve(packet);
    if (packet.qos === 0) this.receiveQos0(packet, topic, now);
    else {
      const known = this.recognise(packet, topic);
      if (known !== true) this.receiveNew(packet, topic, now, known);
    }
  }

  /** True if the packet is a copy of what we hold or have acknowledged, and is dealt with; else what it is once more. */
  private recognise(packet: PublishPacket, topic: string): true | Delivery | undefined {
    const id = packet.packetId;
    const bound = this.bound.get(id);
    if (bound !== undefined) {
      this.resent(bound, packet, topic);
      return true;
    }
    if (this.received.size > 0 && this.received.has(id) && this.repeatsReceived(packet, topic)) return true;
    const held = this.held.size > 0 ? this.held.get(id) : undefined;
    if (held !== undefined && this.isCopy(held.message, topic, packet)) {
      this.held.delete(id);
      held.bond = 'bound';
      this.bound.set(id, held);
      this.ledger.add(held);
      this.recognised(held);
      return true;
    }
    this.checkWindow();
    if (held === undefined) return undefined;
    this.held.delete(id);
    return this.supersede(held, sameContent(held.message, topic, packet));
  }

  /**
   * Between our PUBREC and the broker's PUBREL the message is only acknowledged again. On a later connection it must look
   * like the one we had: a broker whose session was lost and made anew behind a CONNACK that never reached us uses the same
   * identifiers for new messages, and those must not be swallowed.
   */
  private repeatsReceived(packet: PublishPacket, topic: string): boolean {
    const id = packet.packetId;
    const here = this.receivedHere.has(id);
    const message = this.received.get(id);
    if (here && message !== undefined && !sameContent(message, topic, packet)) {
      throw inUse(id, 'between PUBREC and PUBREL');
    }
    if (here) this.checkResend();
    const same = message === undefined ? packet.qos === 2 : this.isCopy(message, topic, packet);
    if (here || same) {
      this.core.counters.bound += 1;
      this.ledger.repeat(id);
      return true;
    }
    this.received.delete(id);
    this.core.record({ type: 'deleteReceived', packetId: id });
    return false;
  }

  /** On a later connection than the one that brought `message`. */
  private isCopy(message: MqttMessage, topic: string, packet: PublishPacket): boolean {
    return (packet.dup || this.core.config.bindWithoutDup) && sameContent(message, topic, packet);
  }

  /** The same identifier again on the same connection, whatever DUP says (AWS IoT, NATS, older EMQX). */
  private resent(delivery: Delivery, packet: PublishPacket, topic: string): void {
    if (!sameContent(delivery.message, topic, packet)) throw inUse(packet.packetId, 'by another message');
    this.checkResend();
    this.recognised(delivery);
  }

  private checkResend(): void {
    if (!this.core.config.strictResends) return;
    throw new RemoteProtocolError('The server sent a message again on the same connection', PROTOCOL_ERROR);
  }

  private recognised(delivery: Delivery): void {
    this.core.counters.bound += 1;
    if (delivery.state !== 'failed') return;
    this.core.counters.redelivered += 1;
    this.move(delivery, 'redelivered');
    delivery.attempt += 1;
    this.handOut(delivery);
  }

  /**
   * The broker uses the identifier for another packet. With the same content that is the message once more, only not marked
   * as a copy: it takes the place of ours. With other content the broker has forgotten ours (its session was lost and made
   * anew unseen): then what we hold is the only copy left.
   */
  private supersede(delivery: Delivery, comesAgain: boolean): Delivery | undefined {
    delivery.replaces = undefined;
    delivery.bond = comesAgain ? 'superseded' : 'orphaned';
    this.core.counters.superseded += 1;
    if (comesAgain) this.core.warnOnce('without DUP', RESENT_WITHOUT_DUP);
    if (delivery.state === 'succeeded') {
      this.core.counters.staleAcknowledgements += 1;
      this.move(delivery, 'forget');
      return undefined;
    }
    if (comesAgain && delivery.state === 'failed') delivery.attempt += 1;
    if (comesAgain && (delivery.state === 'failed' || delivery.state === 'waiting')) this.move(delivery, 'forget');
    else this.loose.add(delivery);
    return comesAgain ? delivery : undefined;
  }

  private receiveNew(packet: PublishPacket, topic: string, now: number, once: Delivery | undefined): void {
    const delivery = new Delivery(toMessage(packet, topic), now, packet.packetId, once);
    this.states.count(delivery);
    this.bound.set(packet.packetId, delivery);
    this.ledger.add(delivery);
    this.handOut(delivery);
    if (once?.state === 'settled') this.core.outbox.emit({ kind: 'dropped', delivery: once });
  }

  private receiveQos0(packet: PublishPacket, topic: string, now: number): void {
    if (this.stopped) this.core.counters.droppedQos0 += 1;
    else this.core.outbox.emit(new Delivery(toMessage(packet, topic), now, 0));
  }

  private checkWindow(): void {
    const { config, counters, version } = this.core;
    const used = this.windowUsed;
    if (used < config.receiveMaximum) return;
    if (version === 5) {
      counters.overruns += 1;
      if (config.strictReceiveMaximum) {
        throw new RemoteProtocolError(
          `The server sent more than the Receive Maximum of ${config.receiveMaximum} unacknowledged messages`,
          RECEIVE_MAXIMUM_EXCEEDED,
        );
      }
      this.core.warnOnce('overrun', `The server overruns the Receive Maximum of ${config.receiveMaximum}; tolerated`);
    }
    // QoS 2 messages that wait for PUBREL are identifiers alone: they take no memory to speak of.
    if (this.bound.size >= config.overrunLimit) {
      throw new RemoteProtocolError(
        `${this.bound.size} unacknowledged messages reached the overrunLimit; the link is closed, the session stays`,
        RECEIVE_MAXIMUM_EXCEEDED,
      );
    }
  }

  private handOut(delivery: Delivery): void {
    if (this.stopped) this.undelivered.push(delivery);
    else this.core.outbox.emit(delivery);
  }

  /** QoS 2: the broker gives the message over for good; answered at once [MQTT-4.3.3-11]. */
  pubrel(packet: AckPacket): void {
    const known = this.received.delete(packet.packetId);
    this.receivedHere.delete(packet.packetId);
    this.ledger.cancelRepeats(packet.packetId);
    if (known) this.core.record({ type: 'deleteReceived', packetId: packet.packetId });
    else this.core.counters.unknownAcknowledgements += 1;
    const reasonCode = known || this.core.version === 4 ? 0 : PACKET_IDENTIFIER_NOT_FOUND;
    this.core.outbox.acknowledge('pubcomp', packet.packetId, reasonCode, undefined);
  }

  start(delivery: Delivery): boolean {
    const again = delivery.state === 'failed';
    if (!this.move(delivery, 'start')) return false;
    if (again) delivery.attempt += 1;
    return true;
  }

  retry(delivery: Delivery): boolean {
    return this.move(delivery, 'retry');
  }

  fail(delivery: Delivery): boolean {
    if (!this.move(delivery, 'fail')) return false;
    // Nothing brings these back.
    if (delivery.bond === 'none') this.move(delivery, 'forget');
    else if (delivery.bond === 'superseded') this.forgetLoose(delivery);
    return true;
  }

  acknowledge(delivery: Delivery, reasonCode: number, properties: Properties | undefined): boolean {
    const { state } = delivery;
    if (state === 'succeeded' || state === 'settled' || state === 'abandoned') return false;
    this.move(delivery, 'acknowledge');
    switch (delivery.bond) {
      case 'bound':
      case 'held':
        delivery.acknowledgedWith = reasonCode;
        delivery.acknowledgeProperties = properties;
        break;
      case 'none':
        this.move(delivery, 'forget');
        break;
      case 'orphaned':
      case 'superseded':
        this.core.counters.staleAcknowledgements += 1;
        this.forgetLoose(delivery);
    }
    return true;
  }

  /** Hands over every acknowledgement whose turn has come: what is written here is settled. */
  releaseAcknowledgements(): void {
    this.ledger.release(this);
  }

  handed(delivery: Delivery): void {
    const { packetId } = delivery;
    const version5 = this.core.version === 5;
    const reasonCode = version5 ? delivery.acknowledgedWith : 0;
    this.bound.delete(packetId);
    this.move(delivery, 'handed');
    this.core.counters.acknowledged += 1;
    const { qos } = delivery.message;
    // A PUBREC of 0x80 and above ends the exchange [MQTT-4.3.3-9].
    if (qos === 2 && reasonCode < 0x80) {
      this.received.set(packetId, delivery.message);
      this.receivedHere.add(packetId);
      this.core.record({ type: 'putReceived', packetId });
    }
    const properties = version5 ? delivery.acknowledgeProperties : undefined;
    this.core.outbox.acknowledge(qos === 2 ? 'pubrec' : 'puback', packetId, reasonCode, properties);
  }

  repeated(packetId: number): void {
    this.receivedHere.add(packetId);
    this.core.outbox.acknowledge('pubrec', packetId, 0, undefined);
  }

  /** The connection is up; `sessionPresent` false means that the broker knows nothing of what we hold. */
  connected(sessionPresent: boolean): void {
    this.aliases = new InboundAliases(this.core.config.topicAliasMaximum);
    if (sessionPresent) return;
    if (this.received.size > 0) this.core.record({ type: 'clearReceived' });
    this.received.clear();
    const lost = [...this.held.values()];
    this.held.clear();
    for (const delivery of lost) {
      delivery.bond = 'orphaned';
      if (delivery.state === 'succeeded') {
        this.core.counters.staleAcknowledgements += 1;
        this.move(delivery, 'forget');
      } else this.loose.add(delivery);
    }
    this.orphaned = lost.filter((delivery) => delivery.state !== 'settled');
  }
  /** What the last `connected()` made orphans. */
  takeOrphaned(): Delivery[] {
    const taken = this.orphaned;
    this.orphaned = [];
    return taken;
  }

  /** There is something that only a resumed session can settle. */
  get holdsState(): boolean {
    return this.held.size > 0 || this.received.size > 0;
  }

  /** The wire's view is dropped, the deliveries are not. */
  disconnected(): void {
    for (const delivery of this.bound.values()) {
      delivery.bond = 'held';
      this.held.set(delivery.packetId, delivery);
    }
    this.bound.clear();
    this.receivedHere.clear();
    this.ledger.clear();
  }

  /** Received QoS 2 identifiers of an earlier process. */
  restore(receivedIds: readonly number[]): void {
    for (const id of receivedIds) this.received.set(id, undefined);
  }

  stop(): void {
    this.stopped = true;
  }

  resume(): void {
    this.stopped = false;
    const waiting = this.undelivered;
    this.undelivered = [];
    for (const delivery of waiting) if (delivery.state === 'waiting') this.core.outbox.emit(delivery);
  }

  /** Nothing of this will be finished here. */
  abandon(): Delivery[] {
    const handedOut = new Set([...this.bound.values(), ...this.held.values(), ...this.loose]);
    for (const delivery of this.undelivered) {
      handedOut.delete(delivery);
      this.move(delivery, 'forget');
    }
    const abandoned = [...handedOut].filter((delivery) => this.move(delivery, 'abandon'));
    this.core.counters.abandoned += abandoned.length;
    this.bound.clear();
    this.held.clear();
    this.loose.clear();
    this.undelivered = [];
    this.ledger.clear();
    return abandoned;
  }

  /**
   * Failed ones of earlier connections that the broker has not sent again on this one. It may still do so, or it has
   * forgotten them (expired, or a lost session whose CONNACK never reached us): then only their owner can run them again.
   */
  unclaimed(): Delivery[] {
    return [...this.held.values()].filter(({ state }) => state === 'failed');
  }

  oldest(): Delivery | undefined {
    let oldest: Delivery | undefined;
    for (const delivery of [...this.bound.values(), ...this.held.values(), ...this.loose]) {
      if (delivery.state === 'succeeded') continue;
      if (oldest === undefined || delivery.receivedAt < oldest.receivedAt) oldest = delivery;
    }
    return oldest;
  }

  private forgetLoose(delivery: Delivery): void {
    this.loose.delete(delivery);
    this.move(delivery, 'forget');
  }

  private move(delivery: Delivery, cause: DeliveryCause): boolean {
    if (this.states.move(delivery, cause)) return true;
    this.core.counters.refusedTransitions += 1;
    return false;
  }
}

function inUse(packetId: number, how: string): RemoteProtocolError {
  return new RemoteProtocolError(`The server used packet identifier ${packetId}, in use ${how}`, PROTOCOL_ERROR);
}
