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
  /** Numbers that the MQTT broker delivered, once or more. */
  readonly everDelivered = new Set<number>();
  /** Delivered, and not emitted since. */
  private readonly delivered = new Set<number>();
  private readonly sends = new Map<number, Set<string>>();
  private readonly emittedAgain = new Set<number>();

  delivery(delivery: WireDelivery): void {
    const id = idOf(delivery.payload);
    this.delivered.add(id);
    this.everDelivered.add(id);
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
      const name = `${message.producerName}:${message.sequenceId}`;
      if (sends.has(name)) continue;
      sends.add(name);
      if (!this.delivered.delete(id)) this.emittedAgain.add(id);
    }
  }

  receipt(messages: readonly StoredMessage[]): void {
    for (const message of messages) this.receipted.add(idOf(message.payload));
  }

  /**
   * Numbers that were emitted again although the MQTT broker had not delivered them since: a handler ran twice for one
   * delivery. Counting both would not do: most redelivered copies start nothing, and would hide it.
   */
  emittedTooOften(): number[] {
    return [...this.emittedAgain];
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
