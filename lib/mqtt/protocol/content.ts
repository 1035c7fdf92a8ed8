import { type Properties, type PublishPacket, type UserProperty } from '../codec/packets.js';
import { type MqttMessage } from './delivery.js';

/**
 * Whether a received copy is the message we hold: topic (alias resolved), payload, QoS, retain and all properties except
 * those that a broker may change between two copies: Message Expiry Interval, Topic Alias, Subscription Identifier.
 */
export function sameContent(message: MqttMessage, topic: string, packet: PublishPacket): boolean {
  return (
    message.qos === packet.qos &&
    message.retain === packet.retain &&
    message.topic === topic &&
    message.payload.equals(packet.payload) &&
    sameProperties(message.properties, packet.properties)
  );
}

function sameProperties(a: Properties | undefined, b: Properties | undefined): boolean {
  if (a === undefined && b === undefined) return true;
  const left = a ?? {};
  const right = b ?? {};
  return (
    left.payloadFormatIndicator === right.payloadFormatIndicator &&
    left.contentType === right.contentType &&
    left.responseTopic === right.responseTopic &&
    sameBytes(left.correlationData, right.correlationData) &&
    sameUserProperties(left.userProperties, right.userProperties)
  );
}

function sameBytes(a: Buffer | undefined, b: Buffer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.equals(b);
}

function sameUserProperties(a: readonly UserProperty[] = [], b: readonly UserProperty[] = []): boolean {
  return a.length === b.length && a.every(([name, value], i) => name === b[i][0] && value === b[i][1]);
}

/** What the application sees of a PUBLISH. */
export function toMessage(packet: PublishPacket, topic: string): MqttMessage {
  const { payload, qos, retain, dup, properties } = packet;
  return properties === undefined
    ? { topic, payload, qos, retain, dup }
    : { topic, payload, qos, retain, dup, properties };
}
