/** Defects planted into the session for the length of one run: the model must notice every one of them. */
import { AckLedger } from '../../../lib/mqtt/protocol/ack-ledger.js';
import { Inbound } from '../../../lib/mqtt/protocol/inbound.js';
import { Intake } from '../../../lib/mqtt/protocol/intake.js';
import { Link } from '../../../lib/mqtt/protocol/link.js';
import { Outbound } from '../../../lib/mqtt/protocol/outbound.js';
import { PacketIds } from '../../../lib/mqtt/protocol/packet-ids.js';
import { Subscriptions } from '../../../lib/mqtt/protocol/subscriptions.js';

/** Private members are patched, so the types are left behind here. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Loose = any;

/** Replaces `name` and gives back what restores it. */
function patch(target: { prototype: Loose }, name: string, make: (original: Loose) => Loose): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(target.prototype, name)!;
  if (descriptor.get !== undefined) {
    Object.defineProperty(target.prototype, name, { ...descriptor, get: make(descriptor.get) });
  } else Object.defineProperty(target.prototype, name, { ...descriptor, value: make(descriptor.value) });
  return () => Object.defineProperty(target.prototype, name, descriptor);
}

export const defects: { readonly [name: string]: () => () => void } = {
  'acknowledges before the handler': () =>
    patch(
      Inbound,
      'handOut',
      (original) =>
        function (this: Loose, delivery: Loose) {
          original.call(this, delivery);
          this.acknowledge(delivery, 0, undefined);
        },
    ),
  'drops one acknowledgement in twenty': () => {
    let count = 0;
    return patch(
      AckLedger,
      'release',
      (original) =>
        function (this: Loose, sink: Loose) {
          original.call(this, {
            handed: (delivery: Loose) => (++count % 20 === 0 ? undefined : sink.handed(delivery)),
            repeated: (id: number) => sink.repeated(id),
          });
        },
    );
  },
  'swaps two acknowledgements': () =>
    patch(
      AckLedger,
      'release',
      (original) =>
        function (this: Loose, sink: Loose) {
          const all: Loose[] = [];
          original.call(this, { handed: (d: Loose) => all.push(d), repeated: (id: number) => sink.repeated(id) });
          for (const delivery of all.reverse()) sink.handed(delivery);
        },
    ),
  'acknowledges in the order of completion': () =>
    patch(
      AckLedger,
      'release',
      () =>
        function (this: Loose, sink: Loose) {
          for (const lane of [this.pubacks, this.pubrecs]) {
            const done = [...lane].filter((entry: Loose) => entry.state === 'succeeded');
            lane.filter((entry: Loose) => !done.includes(entry));
            for (const delivery of done) sink.handed(delivery);
          }
        },
    ),
  'acknowledges by packet identifier, whatever the connection': () =>
    patch(
      Inbound,
      'acknowledge',
      (original) =>
        function (this: Loose, delivery: Loose, ...rest: Loose[]) {
          const stale = delivery.bond === 'held' || delivery.bond === 'orphaned';
          const first = original.call(this, delivery, ...rest);
          if (first && stale) this.core.outbox.acknowledge('puback', delivery.packetId, 0, undefined);
          return first;
        },
    ),
  'waits one turn with acknowledgements': () =>
    patch(
      Link,
      'complete',
      (original) =>
        function (this: Loose) {
          this.turn = !this.turn;
          if (this.turn || this.farewell !== undefined) original.call(this);
        },
    ),
  'writes DISCONNECT before the acknowledgements': () =>
    patch(
      Link,
      'complete',
      (original) =>
        function (this: Loose) {
          if (this.farewell !== undefined) this.core.outbox.write(this.farewell.packet);
          this.farewell = undefined;
          original.call(this);
        },
    ),
  'forgets deliveries when the connection is lost': () =>
    patch(
      Inbound,
      'disconnected',
      (original) =>
        function (this: Loose) {
          original.call(this);
          this.held.clear();
        },
    ),
  'binds by identifier alone': () => patch(Inbound, 'isCopy', () => () => true),
  'runs a copy of a running delivery': () =>
    patch(
      Inbound,
      'recognised',
      (original) =>
        function (this: Loose, delivery: Loose) {
          if (delivery.state === 'running') this.handOut(delivery);
          original.call(this, delivery);
        },
    ),
  'does not run a failed delivery again': () => patch(Inbound, 'recognised', () => function (this: Loose) {}),
  'forgets QoS 2 identifiers after PUBREC': () =>
    patch(
      Inbound,
      'handed',
      (original) =>
        function (this: Loose, delivery: Loose) {
          original.call(this, delivery);
          this.received.delete(delivery.packetId);
        },
    ),
  'remembers QoS 2 identifiers after PUBREL': () =>
    patch(
      Inbound,
      'pubrel',
      (original) =>
        function (this: Loose, packet: Loose) {
          const message = this.received.get(packet.packetId);
          original.call(this, packet);
          if (message === undefined) return;
          this.received.set(packet.packetId, message);
          this.receivedHere.add(packet.packetId);
        },
    ),
  'remembers a refused QoS 2 message': () =>
    patch(
      Inbound,
      'handed',
      (original) =>
        function (this: Loose, delivery: Loose) {
          original.call(this, delivery);
          if (delivery.message.qos === 2) this.received.set(delivery.packetId, delivery.message);
        },
    ),
  'keeps the duplicate memory of a lost session': () =>
    patch(
      Inbound,
      'connected',
      (original) =>
        function (this: Loose) {
          original.call(this, true);
        },
    ),
  'never repeats a PUBREC': () => patch(AckLedger, 'repeat', () => () => {}),
  'repeats a PUBREC out of its turn': () =>
    patch(
      AckLedger,
      'repeat',
      () =>
        function (this: Loose, packetId: number) {
          this.pubrecs.unshift({ packetId, cancelled: false });
          this.repeats += 1;
        },
    ),
  'reuses packet identifiers': () =>
    patch(
      PacketIds,
      'take',
      () =>
        function (this: Loose) {
          this.cursor = (this.cursor % 3) + 1;
          return this.cursor;
        },
    ),
  'frees packet identifiers at the loss of a connection': () => {
    const restore = patch(
      Outbound,
      'disconnected',
      (original) =>
        function (this: Loose) {
          original.call(this);
          for (const publish of this.sent.values()) this.core.ids.release(publish.packetId);
        },
    );
    // With the freed ones taken first; by itself that is allowed.
    const restoreTake = patch(
      PacketIds,
      'take',
      (original) =>
        function (this: Loose) {
          this.cursor = 0;
          return original.call(this);
        },
    );
    return () => {
      restore();
      restoreTake();
    };
  },
  'sends new publishes before those of the last connection': () =>
    patch(
      Outbound,
      'resume',
      (original) =>
        function (this: Loose) {
          original.call(this);
          const next = this.takeWithId();
          if (next !== undefined) this.send(next, 0);
        },
    ),
  'sends PUBLISH again after PUBREC': () =>
    patch(
      Outbound,
      'resume',
      (original) =>
        function (this: Loose) {
          for (const publish of this.released.values()) {
            publish.stage = 'sent';
            this.sent.set(publish.packetId, publish);
          }
          this.released.clear();
          original.call(this);
        },
    ),
  "ignores the server's Receive Maximum": () => patch(Outbound, 'hasQuota', () => () => true),
  'loses publishes of a lost session': () =>
    patch(
      Outbound,
      'sessionGone',
      () =>
        function (this: Loose) {
          this.sent.clear();
          this.released.clear();
          this.resend.clear();
        },
    ),
  'settles a publish twice': () =>
    patch(
      Outbound,
      'puback',
      (original) =>
        function (this: Loose, packet: Loose, now: number) {
          const publish = this.sent.get(packet.packetId);
          original.call(this, packet, now);
          if (publish?.qos === 1) this.core.outbox.emit(publish);
        },
    ),
  'takes a PUBACK for a QoS 2 publish': () =>
    patch(
      Outbound,
      'pubrec',
      () =>
        function (this: Loose, packet: Loose, now: number) {
          const publish = this.sent.get(packet.packetId);
          if (publish === undefined) return;
          this.release(publish);
          this.answered(publish, packet);
          this.pump(now);
        },
    ),
  'stops reading although an answer is due': () => patch(Intake, 'awaitsAnswer', () => () => false),
  'sends after DISCONNECT': () => patch(Outbound, 'leave', () => () => {}),
  'subscribes after DISCONNECT': () => patch(Subscriptions, 'leave', () => () => {}),
};
