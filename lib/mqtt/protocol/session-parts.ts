import { type ServerPacket } from '../codec/packets.js';
import { type SessionCore } from './core.js';
import { Inbound } from './inbound.js';
import { Outbound } from './outbound.js';
import { Subscriptions } from './subscriptions.js';

/** What a session holds beside its connection: received messages, publishes, subscriptions. */
export class SessionParts {
  readonly inbound: Inbound;
  readonly outbound: Outbound;
  readonly subscriptions: Subscriptions;

  constructor(core: SessionCore) {
    this.inbound = new Inbound(core);
    this.outbound = new Outbound(core);
    this.subscriptions = new Subscriptions(core);
    const { bound, held } = this.inbound;
    core.ids.avoided = (id) => bound.has(id) || held.has(id);
  }

  /** A packet that belongs to one of them. */
  receive(packet: Exclude<ServerPacket, { type: 'connack' | 'auth' | 'disconnect' }>, now: number): void {
    switch (packet.type) {
      case 'publish':
        return this.inbound.publish(packet, now);
      case 'puback':
        return this.outbound.puback(packet, now);
      case 'pubrec':
        return this.outbound.pubrec(packet, now);
      case 'pubrel':
        return this.inbound.pubrel(packet);
      case 'pubcomp':
        return this.outbound.pubcomp(packet, now);
      case 'suback':
        return this.subscriptions.suback(packet, now);
      case 'unsuback':
        return this.subscriptions.unsuback(packet, now);
      case 'pingresp':
        return;
    }
  }

  /** Something is there that only a resumed session can finish. */
  get holdsState(): boolean {
    return this.inbound.holdsState || this.outbound.holdsState || this.subscriptions.holdsState;
  }

  /** An answer of the server is due. */
  get awaitsAnswer(): boolean {
    return this.outbound.awaitsAnswer || this.subscriptions.awaitsAnswer || this.inbound.awaitsRelease;
  }

  /** Nothing more is sent on this connection. */
  leave(): void {
    this.outbound.leave();
    this.subscriptions.leave();
  }

  disconnected(): void {
    this.inbound.disconnected();
    this.outbound.disconnected();
    this.subscriptions.disconnected();
  }

  /** Nobody will answer any more. */
  fail(reason: string): void {
    this.outbound.fail(reason);
    this.subscriptions.fail(reason);
  }
}
