/**
 * Watches one session from outside: what was handed out, what the application answered, and what leaves on the wire. It
 * keeps its own books of ARCHITECTURE-level rules (which copy belongs to which delivery) and throws at the first breach.
 */
import { type Packet } from 'mqtt-packet';
import { type MqttDelivery } from '../../../lib/mqtt/protocol/delivery.js';
import { type ModelMessage, type Outgoing } from './model-broker.js';

export class Violation extends Error {}

/** A delivery with what the model knows of it. */
export interface Record {
  readonly delivery: MqttDelivery;
  /** Every broker message that was bound to it. */
  readonly uids: Set<number>;
  readonly content: string;
  readonly packetId: number;
  /** The application said that it is done, and how. */
  acknowledged: number | undefined;
  /** What the application believes the state to be. */
  expected: MqttDelivery['state'];
  attempt: number;
}

/** One acknowledgement that is due on this connection, in its lane's order. */
interface Due {
  readonly packetId: number;
  /** Undefined: a repeated PUBREC. */
  readonly record: Record | undefined;
}

export interface ObserverRules {
  readonly version: 4 | 5;
  readonly bindWithoutDup: boolean;
  /** The broker marks its redeliveries, or we were told that it does not. */
  readonly recognisable: boolean;
}

export class Observer {
  // the session
  readonly records = new Map<MqttDelivery, Record>();
  private held = new Map<number, Record>();
  private received = new Map<number, string>();
  /** QoS 2: uids whose handler has succeeded in this session. */
  private succeeded = new Set<number>();
  handledUids = new Set<number>();
  fedUids = new Set<number>();

  // the connection
  private view = new Map<number, Record>();
  private lanes: { puback: Due[]; pubrec: Due[] } = { puback: [], pubrec: [] };
  /** The part of `received` whose PUBREC went out on this connection. */
  private receivedHere = new Set<number>();
  private disconnected = false;

  constructor(private readonly rules: ObserverRules) {}

  /** The server's PUBLISH reached the session; `handedOut` is what it emitted for it. */
  published(packet: Outgoing, dup: boolean, handedOut: readonly MqttDelivery[], violated: boolean): void {
    const message = packet.message as ModelMessage;
    if (message.qos > 0) this.fedUids.add(message.uid);
    const content = contentOf(message);
    const id = packet.packetId;
    if (message.qos === 0) {
      this.expectNew(message, id, content, handedOut);
      return;
    }
    const lane = message.qos === 1 ? this.lanes.puback : this.lanes.pubrec;
    const bound = this.view.get(id);
    if (bound !== undefined) {
      if (bound.content !== content) {
        check(violated, `M3: other content under the live identifier ${id} was accepted`);
        return;
      }
      bound.uids.add(message.uid);
      this.expectCopy(bound, handedOut);
      return;
    }
    const copy = dup || this.rules.bindWithoutDup;
    if (this.receivedHere.has(id) && this.received.get(id) !== content) {
      check(violated, `M3: other content under identifier ${id}, which is between PUBREC and PUBREL, was accepted`);
      return;
    }
    if (this.receivedHere.has(id) || (copy && this.received.get(id) === content)) {
      check(handedOut.length === 0, `M8: QoS 2 id ${id} was handed out again between PUBREC and PUBREL`);
      lane.push({ packetId: id, record: undefined });
      return;
    }
    this.received.delete(id);
    const held = this.held.get(id);
    this.held.delete(id);
    let once: MqttDelivery | undefined;
    let attempt = 1;
    if (held !== undefined && held.content === content && copy) {
      held.uids.add(message.uid);
      this.view.set(id, held);
      lane.push({ packetId: id, record: held });
      this.expectCopy(held, handedOut);
      return;
    }
    if (held !== undefined) {
      const comesAgain = held.content === content;
      check(held.delivery.orphaned !== comesAgain, 'a delivery whose identifier holds another message is not orphaned');
      if (comesAgain && held.expected !== 'succeeded') {
        once = held.delivery;
        attempt = held.attempt + (held.expected === 'failed' ? 1 : 0);
      }
      if (held.expected === 'succeeded' || (comesAgain && ['failed', 'waiting'].includes(held.expected)))
        held.expected = 'settled';
    }
    const record = this.expectNew(message, id, content, handedOut, attempt);
    check(
      record.delivery.replaces === once,
      `a new message (uid ${message.uid}) replaces another than what it is once more`,
    );
    this.view.set(id, record);
    lane.push({ packetId: id, record });
  }

  private expectNew(
    message: ModelMessage,
    packetId: number,
    content: string,
    handedOut: readonly MqttDelivery[],
    attempt = 1,
  ): Record {
    check(
      handedOut.length === 1,
      `a new message (uid ${message.uid}, id ${packetId}) gave ${handedOut.length} deliveries`,
    );
    const [delivery] = handedOut;
    check(!this.records.has(delivery), `a new message (uid ${message.uid}) was bound to an older delivery`);
    check(contentOf(delivery.message) === content, 'the delivery has another content than the message');
    check(
      delivery.state === 'waiting' && delivery.attempt === attempt,
      `a new delivery does not start as waiting, attempt ${attempt}`,
    );
    const record: Record = {
      delivery,
      uids: new Set([message.uid]),
      content,
      packetId,
      acknowledged: undefined,
      expected: 'waiting',
      attempt,
    };
    this.records.set(delivery, record);
    return record;
  }

  /** A copy: nothing new starts, but a failed one runs again. */
  private expectCopy(record: Record, handedOut: readonly MqttDelivery[]): void {
    if (record.expected !== 'failed') {
      check(handedOut.length === 0, `a copy of a delivery in state ${record.expected} started something`);
      return;
    }
    check(handedOut.length === 1 && handedOut[0] === record.delivery, 'a failed delivery was not handed out again');
    record.expected = 'waiting';
    record.attempt += 1;
    check(record.delivery.attempt === record.attempt, 'the attempt of a redelivered message is wrong');
  }

  /** PUBREL reached the session: nothing may be repeated for this identifier any more. */
  released(packetId: number): void {
    this.received.delete(packetId);
    this.receivedHere.delete(packetId);
    this.lanes.pubrec = this.lanes.pubrec.filter((due) => due.record !== undefined || due.packetId !== packetId);
  }

  /** One packet that the session has handed to the socket. */
  written(packet: Packet): void {
    check(!this.disconnected, `M4: ${packet.cmd} after DISCONNECT [MQTT-3.14.4-2]`);
    if (packet.cmd === 'puback' || packet.cmd === 'pubrec') this.acknowledgementWritten(packet.cmd, packet);
    else if (packet.cmd === 'disconnect') {
      this.disconnected = true;
      this.nothingReady('before DISCONNECT');
    }
  }

  private acknowledgementWritten(cmd: 'puback' | 'pubrec', packet: { messageId?: number; reasonCode?: number }): void {
    const id = packet.messageId ?? 0;
    const due = this.lanes[cmd].shift();
    check(due !== undefined, `M3: ${cmd} ${id} without a message on this connection`);
    check(due.packetId === id, `M2: ${cmd} ${id}, but ${due.packetId} came before it`);
    const { record } = due;
    if (record === undefined) return;
    check(record.acknowledged !== undefined, `M1: ${cmd} ${id} before the delivery was settled`);
    if (this.rules.version === 5) {
      check(
        (packet.reasonCode ?? 0) === record.acknowledged,
        `${cmd} ${id} carries another reason code than was given`,
      );
    }
    this.view.delete(id);
    record.expected = 'settled';
    if (cmd === 'pubrec' && (packet.reasonCode ?? 0) < 0x80) {
      this.received.set(id, record.content);
      this.receivedHere.add(id);
    }
  }

  /** Everything of this turn was taken: whatever could be released is out. */
  nothingReady(when: string): void {
    for (const cmd of ['puback', 'pubrec'] as const) {
      const [head] = this.lanes[cmd];
      const ready = head !== undefined && (head.record === undefined || head.record.acknowledged !== undefined);
      check(!ready, `${cmd} ${head?.packetId ?? 0} was ready and not written ${when}`);
    }
  }

  /** The application acknowledged. @param first what the session answered */
  acknowledged(delivery: MqttDelivery, reasonCode: number, first: boolean): void {
    const record = this.records.get(delivery)!;
    const was = record.expected;
    check(
      first === (record.acknowledged === undefined && was !== 'settled'),
      `acknowledge() in state ${was} gave ${first}`,
    );
    if (!first) return;
    record.acknowledged = reasonCode;
    for (const uid of record.uids) this.handledUids.add(uid);
    record.expected = this.isBonded(record) ? 'succeeded' : 'settled';
    // A broker that does not mark its redeliveries can make us run one twice.
    if (delivery.message.qos === 2 && reasonCode < 0x80 && this.isBonded(record) && this.rules.recognisable) {
      for (const uid of record.uids) {
        check(!this.succeeded.has(uid), `M8: the QoS 2 message uid ${uid} succeeded twice in one session`);
        this.succeeded.add(uid);
      }
    }
  }

  failed(delivery: MqttDelivery, changed: boolean): void {
    const record = this.records.get(delivery)!;
    const fits = ['waiting', 'running', 'retrying'].includes(record.expected);
    check(changed === fits, `fail() in state ${record.expected} gave ${changed}`);
    if (!fits) return;
    record.expected = this.isBonded(record) || delivery.orphaned ? 'failed' : 'settled';
  }

  started(delivery: MqttDelivery, changed: boolean): void {
    const record = this.records.get(delivery)!;
    const again = record.expected === 'failed';
    const fits = again || record.expected === 'waiting' || record.expected === 'retrying';
    check(changed === fits, `start() in state ${record.expected} gave ${changed}`);
    if (!fits) return;
    record.expected = 'running';
    if (again) record.attempt += 1;
  }

  retried(delivery: MqttDelivery, changed: boolean): void {
    const record = this.records.get(delivery)!;
    check(changed === (record.expected === 'running'), `retry() in state ${record.expected} gave ${changed}`);
    if (changed) record.expected = 'retrying';
  }

  /** In a lane, or held for a copy. */
  private isBonded(record: Record): boolean {
    return this.view.get(record.packetId) === record || this.held.get(record.packetId) === record;
  }

  /** CONNACK reached the session. */
  connected(sessionPresent: boolean): void {
    if (sessionPresent) return;
    for (const record of this.held.values()) {
      check(record.delivery.orphaned, 'a delivery of a lost session is not orphaned');
      if (record.expected === 'succeeded') record.expected = 'settled';
    }
    this.held = new Map();
    this.received = new Map();
    this.succeeded = new Set();
  }

  connectionLost(): void {
    this.disconnected = false;
    for (const [id, record] of this.view) this.held.set(id, record);
    this.view = new Map();
    this.lanes = { puback: [], pubrec: [] };
    this.receivedHere = new Set();
  }

  /** M5: what each delivery says, and what the session counts. */
  checkStates(counts: Readonly<{ [state: string]: number }>): void {
    const sums: { [state: string]: number } = {};
    for (const record of this.records.values()) {
      const { delivery } = record;
      check(delivery.state === record.expected, `M5: state ${delivery.state}, expected ${record.expected}`);
      if (delivery.message.qos > 0) sums[delivery.state] = (sums[delivery.state] ?? 0) + 1;
    }
    for (const [state, count] of Object.entries(counts)) {
      check(count === (sums[state] ?? 0), `M5: ${count} deliveries counted as ${state}, there are ${sums[state] ?? 0}`);
    }
  }

  /** On the present connection. */
  isClaimed(delivery: MqttDelivery): boolean {
    return [...this.view.values()].some((record) => record.delivery === delivery);
  }

  get windowUsed(): number {
    return this.view.size;
  }

  /** Deliveries that are not over. */
  open(): Record[] {
    return [...this.records.values()].filter(({ expected }) => expected !== 'settled');
  }
}

export function contentOf(message: { topic: string; payload: string | Buffer; qos: number }): string {
  return `${message.qos} ${message.topic} ${message.payload.toString()}`;
}

export function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Violation(what);
}
