import { Deque } from './deque.js';
import { type Delivery } from './delivery.js';

/** A PUBREC to repeat: the broker sent a message again between our PUBREC and its PUBREL [MQTT-4.3.3-10]. */
export interface RepeatedPubrec {
  readonly packetId: number;
  /** The PUBREL has come meanwhile: the identifier may belong to another message now. */
  cancelled: boolean;
}

/** Writes one released acknowledgement. */
export interface AcknowledgementSink {
  handed(delivery: Delivery): void;
  repeated(packetId: number): void;
}

/**
 * The acknowledgements of one connection, in the order their messages came: one lane for PUBACK [MQTT-4.6.0-2], one for
 * PUBREC [MQTT-4.6.0-3]. A delivery that succeeds out of turn waits in its place; `release` hands over the prefix that is
 * ready and forgets it. Constant time per delivery.
 */
export class AckLedger {
  private readonly pubacks = new Deque<Delivery>();
  private readonly pubrecs = new Deque<Delivery | RepeatedPubrec>();
  private repeats = 0;

  add(delivery: Delivery): void {
    if (delivery.message.qos === 1) this.pubacks.push(delivery);
    else this.pubrecs.push(delivery);
  }

  /** A copy of an acknowledged QoS 2 message came: its PUBREC goes out again, in its turn. */
  repeat(packetId: number): void {
    this.pubrecs.push({ packetId, cancelled: false });
    this.repeats += 1;
  }

  /** PUBREL came: what is still to be repeated for this identifier would hit another message. */
  cancelRepeats(packetId: number): void {
    if (this.repeats === 0) return;
    for (const entry of this.pubrecs) {
      if ('cancelled' in entry && entry.packetId === packetId) entry.cancelled = true;
    }
  }

  /** Something is ready to be released. */
  get ready(): boolean {
    const puback = this.pubacks.peek();
    if (puback !== undefined && puback.state === 'succeeded') return true;
    const pubrec = this.pubrecs.peek();
    return pubrec !== undefined && ('cancelled' in pubrec || pubrec.state === 'succeeded');
  }

  release(sink: AcknowledgementSink): void {
    for (let head = this.pubacks.peek(); head?.state === 'succeeded'; head = this.pubacks.peek()) {
      this.pubacks.shift();
      sink.handed(head);
    }
    for (let head = this.pubrecs.peek(); head !== undefined; head = this.pubrecs.peek()) {
      if ('cancelled' in head) {
        this.repeats -= 1;
        if (!head.cancelled) sink.repeated(head.packetId);
      } else if (head.state === 'succeeded') sink.handed(head);
      else return;
      this.pubrecs.shift();
    }
  }

  /** The connection is gone: the places mean nothing any more. */
  clear(): void {
    this.pubacks.clear();
    this.pubrecs.clear();
    this.repeats = 0;
  }

  /** Places in both lanes. */
  get size(): number {
    return this.pubacks.length + this.pubrecs.length;
  }
}
