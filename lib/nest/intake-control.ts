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
    if (delivery.message.qos === 0) this.qos0 += 1;
    const { waiting } = this;
    if (waiting < this.high) return;
    const { client, gate, stats } = this.host;
    this.set('full', true);
    if (waiting < this.hard) return;
    const dropped = gate.dropOldest(({ delivery }) => delivery.message.qos === 0);
    if (dropped === undefined) return;
    client.acknowledge(dropped.delivery);
    stats.dropped += 1;
    this.qos0 -= 1;
  }

  /** After each delivery that is settled. */
  left(delivery: MqttDelivery): void {
    if (delivery.message.qos === 0) this.qos0 -= 1;
    if (this.stops.size > 0 && this.waiting * 2 < this.high) this.set('full', false);
  }
}
