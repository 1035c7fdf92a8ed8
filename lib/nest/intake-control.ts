import { type MqttDelivery } from '../mqtt/index.js';
import { type DeliveryGate } from './delivery-gate.js';
import { type DeliveryTask } from './delivery-task.js';
import { type MqttServerStats } from './task-host.js';

export interface IntakeHost {
  readonly client: {
    pauseIntake(): void;
    resumeIntake(): void;
    acknowledge(delivery: MqttDelivery): boolean;
    readonly window: { readonly size: number };
  };
  readonly gate: DeliveryGate<DeliveryTask>;
  readonly stats: MqttServerStats;
}

/**
 * - `paused`: `pause()` or `drain()`. `halted`: by a failure policy. Nothing new starts in either.
 * - `sink`: the place that handlers emit to is down; more messages would only fail as well.
 * - `full`: too many messages wait for a running place.
 */
export type IntakeStop = 'paused' | 'halted' | 'sink' | 'full';

/** Payload bytes of QoS 0 messages at which reading stops, and over which the oldest are dropped. */
const HIGH_BYTES = 32 * 1024 * 1024;
const HARD_BYTES = 2 * HIGH_BYTES;

/**
 * Whether more is read. While the client has to go on reading (an answer to one of our own packets may stand behind the
 * messages), QoS 0 messages can still come without a bound: over the hard one the oldest waiting are dropped and counted.
 * QoS 1 and 2 are bounded by the client (`overrunLimit`).
 */
export class IntakeControl {
  private readonly stops = new Set<IntakeStop>();
  private readonly high: number;
  private readonly hard: number;
  /** QoS 0 deliveries that are not settled: nothing at the broker bounds them. */
  private qos0 = 0;
  private qos0Bytes = 0;
  private ended = false;

  constructor(private readonly host: IntakeHost) {
    // Well over what a broker sends that obeys the Receive Maximum: this is for QoS 0 and for brokers that do not.
    this.high = Math.max(1_000, 2 * host.client.window.size);
    this.hard = 4 * this.high;
  }

  has(stop: IntakeStop): boolean {
    return this.stops.has(stop);
  }

  /** For good: nothing that waits starts any more, whatever makes room meanwhile. */
  end(): void {
    this.ended = true;
    this.host.gate.pause();
  }

  set(stop: IntakeStop, on: boolean): void {
    if (this.ended || on === this.stops.has(stop)) return;
    const { client, gate } = this.host;
    if (on) {
      this.stops.add(stop);
      client.pauseIntake();
      if (stop === 'paused' || stop === 'halted') gate.pause();
    } else {
      this.stops.delete(stop);
      if (this.stops.size === 0) client.resumeIntake();
      if (!this.stops.has('paused') && !this.stops.has('halted')) gate.resume();
    }
  }

  /** What waits for a running place; of QoS 0 also what was set aside (retrying, detached, on its way as a dead letter). */
  private get waiting(): number {
    const { gate } = this.host;
    return Math.max(gate.waitingCount, this.qos0 - gate.runningCount);
  }

  /** After each new delivery. */
  entered(delivery: MqttDelivery): void {
    this.count(delivery, 1);
    if (this.waiting < this.high && this.qos0Bytes < HIGH_BYTES) return;
    this.set('full', true);
    while (this.waiting >= this.hard || this.qos0Bytes >= HARD_BYTES) if (!this.dropOldest()) return;
  }

  /** After each delivery that is settled. */
  left(delivery: MqttDelivery): void {
    this.count(delivery, -1);
    if (this.stops.size === 0) return;
    if (this.waiting * 2 < this.high && this.qos0Bytes * 2 < HIGH_BYTES) this.set('full', false);
  }

  /** False if no QoS 0 message waits for a running place. */
  private dropOldest(): boolean {
    const { client, gate, stats } = this.host;
    const dropped = gate.dropOldest(({ delivery }) => delivery.message.qos === 0);
    if (dropped === undefined) return false;
    client.acknowledge(dropped.delivery);
    stats.dropped += 1;
    this.count(dropped.delivery, -1);
    return true;
  }

  private count({ message }: MqttDelivery, by: 1 | -1): void {
    if (message.qos !== 0) return;
    this.qos0 += by;
    this.qos0Bytes += by * message.payload.length;
  }
}
