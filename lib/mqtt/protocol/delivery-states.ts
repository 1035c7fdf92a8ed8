import { type Delivery, type DeliveryCause, type DeliveryState, deliveryTransitions } from './delivery.js';

/** Moves deliveries as the table says, and counts where those of QoS 1 and 2 are; the ended ones only add up. */
export class DeliveryStates {
  readonly counts: Record<DeliveryState, number> = {
    waiting: 0,
    running: 0,
    retrying: 0,
    succeeded: 0,
    failed: 0,
    settled: 0,
    abandoned: 0,
  };

  /** A new one. */
  count(delivery: Delivery): void {
    this.counts[delivery.state] += 1;
  }

  /** False, and nothing changed, if that cannot happen in its state. */
  move(delivery: Delivery, cause: DeliveryCause): boolean {
    const row: Partial<Record<DeliveryCause, DeliveryState>> = deliveryTransitions[delivery.state];
    const next = row[cause];
    if (next === undefined) return false;
    if (delivery.bond !== 'none') {
      this.counts[delivery.state] -= 1;
      this.counts[next] += 1;
    }
    delivery.state = next;
    return true;
  }
}
