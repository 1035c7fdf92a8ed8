import { type IPublishPacket } from 'mqtt-packet';

/**
 * Watches that a client acknowledges in the order in which it got the messages: PUBACKs and PUBRECs are two separate
 * orders [MQTT-4.6.0-2, -3]. Valid for one connection.
 */
export class AckOrderCheck {
  private readonly awaited = { puback: new Set<number>(), pubrec: new Set<number>() };

  constructor(private readonly report: (text: string) => void) {}

  sent(packet: IPublishPacket): void {
    if (packet.qos === 0 || packet.messageId === undefined) return;
    // A copy of one that is still awaited keeps its place: it was received first.
    this.awaited[packet.qos === 1 ? 'puback' : 'pubrec'].add(packet.messageId);
  }

  received(type: 'puback' | 'pubrec', packetId: number): void {
    const lane = this.awaited[type];
    if (!lane.has(packetId)) {
      this.report(`${type.toUpperCase()} ${packetId} for a message that waits for none on this connection`);
      return;
    }
    const [first] = lane;
    if (first !== packetId) {
      this.report(`${type.toUpperCase()} ${packetId} before that of ${String(first)} [MQTT-4.6.0-2, -3]`);
    }
    lane.delete(packetId);
  }
}
