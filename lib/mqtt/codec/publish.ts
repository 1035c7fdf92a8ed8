/** PUBLISH, the hot packet: our own strict decoder and encoder for MQTT 3.1.1 and 5 [MQTT5 3.3]. */
import { LocalProtocolError } from '../../errors.js';
import { malformed, protocolError } from './malformed.js';
import { type Properties, type ProtocolVersion, type PublishPacket, type Qos } from './packets.js';
import { decodeProperties, propertiesLength, writeProperties } from './properties.js';
import { MAX_VARIABLE_INTEGER, variableLength, writeString, writeVariable } from './strings.js';
import { encodedTopicLength, type TopicCache } from './topics.js';

const cursor = { next: 0 };

/**
 * Decodes the PUBLISH whose fixed header starts with `first` and whose body is `buffer[at, end)`.
 * The payload is a view of `buffer`, not a copy.
 */
export function decodePublish(
  buffer: Buffer,
  first: number,
  at: number,
  end: number,
  version: ProtocolVersion,
  topics: TopicCache,
): PublishPacket {
  const qos = ((first >> 1) & 3) as Qos;
  const dup = (first & 8) !== 0;
  if ((qos as number) === 3) throw malformed('PUBLISH with QoS 3 [MQTT-3.3.1-4]');
  if (dup && qos === 0) throw malformed('PUBLISH with QoS 0 and DUP [MQTT-3.3.1-2]');
  if (at + 2 > end) throw malformed('PUBLISH without a topic');
  const topicAt = at + 2;
  let next = topicAt + ((buffer[at] << 8) | buffer[at + 1]);
  if (next > end) throw malformed('PUBLISH topic is longer than the packet');
  const topic = topicAt === next ? '' : topics.read(buffer, topicAt, next);
  let packetId = 0;
  if (qos !== 0) {
    if (next + 2 > end) throw malformed('PUBLISH without a packet identifier');
    packetId = (buffer[next] << 8) | buffer[next + 1];
    if (packetId === 0) throw protocolError('PUBLISH with packet identifier 0 [MQTT-2.2.1-3]');
    next += 2;
  }
  let properties: Properties | undefined;
  if (version === 5) {
    if (next < end && buffer[next] === 0) next += 1;
    else {
      properties = decodeProperties(buffer, next, end, 'publish', cursor);
      next = cursor.next;
    }
  }
  if (topic === '' && properties?.topicAlias === undefined) {
    throw protocolError('PUBLISH with neither topic nor topic alias [MQTT5 3.3.2.1]');
  }
  return {
    type: 'publish',
    topic,
    payload: buffer.subarray(next, end),
    qos,
    retain: (first & 1) !== 0,
    dup,
    packetId,
    properties, // prettier-ignore
  };
}

/** The whole packet as one buffer; refuses what may not leave. */
export function encodePublish(packet: PublishPacket, version: ProtocolVersion): Buffer {
  const { topic, payload, qos, packetId, properties } = packet;
  if (qos !== 0 && qos !== 1 && qos !== 2)
    throw new LocalProtocolError(`QoS must be 0, 1 or 2, received ${String(qos)}`);
  if (qos === 0 ? packetId !== 0 : !(Number.isInteger(packetId) && packetId > 0 && packetId <= 0xffff)) {
    throw new LocalProtocolError(`packet identifier ${packetId} does not go with QoS ${qos} [MQTT-2.2.1-2]`);
  }
  if (topic === '' && (version !== 5 || properties?.topicAlias === undefined))
    throw new LocalProtocolError('PUBLISH with neither topic nor topic alias [MQTT5 3.3.2.1]');
  const topicLength = topic === '' ? 0 : encodedTopicLength(topic);
  const hasProperties = version === 5 && properties !== undefined;
  const propertyBytes = hasProperties ? propertiesLength(properties, 'publish') : 0;
  const propertyField = version === 5 ? variableLength(propertyBytes) + propertyBytes : 0;
  const remaining = 2 + topicLength + (qos === 0 ? 0 : 2) + propertyField + payload.length;
  if (remaining > MAX_VARIABLE_INTEGER)
    throw new LocalProtocolError(`a packet of ${remaining} bytes does not fit into MQTT`);
  const target = Buffer.allocUnsafe(1 + variableLength(remaining) + remaining);
  target[0] = 0x30 | (packet.dup && qos !== 0 ? 8 : 0) | (qos << 1) | (packet.retain ? 1 : 0);
  let at = writeString(target, writeVariable(target, 1, remaining), topic, topicLength);
  if (qos !== 0) {
    target[at] = packetId >> 8;
    target[at + 1] = packetId & 0xff;
    at += 2;
  }
  if (version === 5) {
    at = writeVariable(target, at, propertyBytes);
    if (hasProperties) at = writeProperties(target, at, properties);
  }
  target.set(payload, at);
  return target;
}
