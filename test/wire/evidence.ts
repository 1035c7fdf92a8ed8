import { type StoredMessage } from '../../sample/01-mqtt-to-pulsar/src/verify/pulsar-frames.js';
import { type WireDelivery } from './mqtt-wire.js';

/** The number a device gave to a message: its payload is `{"id":<number>,...}`. */
export function idOf(payload: Uint8Array): number {
  const match = /"id":(\d+)/.exec(Buffer.from(payload).toString('latin1'));
  if (match === null) throw new Error(`a payload without an id: ${Buffer.from(payload).toString('latin1', 0, 80)}`);
  return Number(match[1]);
}

/**
 * What the two recording proxies saw, in one order. Both run in one process and show every chunk before they hand it on, so
 * a receipt that caused an acknowledgement always stands before it.
 */
export class Evidence {
  /** Numbers whose send receipt was on its way to the product. */
  readonly receipted = new Set<number>();
  /** Numbers acknowledged to the MQTT broker. */
  readonly acknowledged = new Set<number>();
  /** Acknowledged before any receipt for that number: the promise broken. */
  readonly acknowledgedWithoutReceipt = new Set<number>();
  private readonly deliveries = new Map<number, number>();
  private readonly sends = new Map<number, Set<string>>();

  delivery(delivery: WireDelivery): void {
    const id = idOf(delivery.payload);
    this.deliveries.set(id, (this.deliveries.get(id) ?? 0) + 1);
  }

  acknowledgement(delivery: WireDelivery): void {
    const id = idOf(delivery.payload);
    this.acknowledged.add(id);
    if (!this.receipted.has(id)) this.acknowledgedWithoutReceipt.add(id);
  }

  send(messages: readonly StoredMessage[]): void {
    for (const message of messages) {
      const id = idOf(message.payload);
      let sends = this.sends.get(id);
      if (sends === undefined) this.sends.set(id, (sends = new Set()));
      // A frame resent after a reconnect keeps its name and sequence id; a handler that ran again made a new one.
      sends.add(`${message.producerName}:${message.sequenceId}`);
    }
  }

  receipt(messages: readonly StoredMessage[]): void {
    for (const message of messages) this.receipted.add(idOf(message.payload));
  }

  /** Numbers that were emitted more often than the MQTT broker delivered them: a handler ran twice for one delivery. */
  emittedTooOften(): number[] {
    return [...this.sends].filter(([id, sends]) => sends.size > (this.deliveries.get(id) ?? 0)).map(([id]) => id);
  }
}

/** Two sets of numbers compared: what the devices saw accepted, and what a reader found stored. */
export function compare(
  published: ReadonlySet<number>,
  stored: readonly StoredMessage[],
): { readonly stored: number; readonly lost: number[]; readonly duplicates: number } {
  const ids = stored.map((message) => idOf(message.payload));
  const distinct = new Set(ids);
  return {
    stored: distinct.size,
    lost: [...published].filter((id) => !distinct.has(id)),
    duplicates: ids.length - distinct.size,
  };
}
