import { type MqttMessage, type UserProperty } from '../mqtt/index.js';

/**
 * An MQTT message's metadata as string properties of another system (Pulsar properties, a dead letter):
 *
 * | property | value |
 * |---|---|
 * | name of a user property | its value; of a repeated name the last one |
 * | `mqtt.topic`, `mqtt.qos` | always |
 * | `mqtt.retain`, `mqtt.dup` | `true`, only where set |
 * | `mqtt.contentType`, `mqtt.payloadFormat`, `mqtt.responseTopic` | as sent |
 * | `mqtt.correlationData` | base64 |
 * | `mqtt.expiresAt` | milliseconds since the Unix epoch: when the Message Expiry Interval is over |
 * | `mqtt.userProperties` | JSON, the ordered pairs; only where names repeat or begin with `mqtt.` (but not this name: letters of letters would grow) |
 *
 * @param receivedAt milliseconds since the Unix epoch
 */
export function messageProperties(message: MqttMessage, receivedAt: number): Record<string, string> {
  const result: Record<string, string> = {};
  const pairs = userProperties(message);
  let lossy = false;
  for (const [name, value] of pairs) {
    lossy ||= Object.hasOwn(result, name) || name.startsWith('mqtt.');
    define(result, name, value);
  }
  if (lossy) result['mqtt.userProperties'] = JSON.stringify(pairs);
  return Object.assign(result, messageFacts(message, receivedAt));
}

/** The user properties of a message, without those that only repeat them in another form. */
export function userProperties({ properties }: MqttMessage): readonly UserProperty[] {
  return (properties?.userProperties ?? []).filter(([name]) => name !== 'mqtt.userProperties');
}

/** The same without what its user properties say. */
export function messageFacts(message: MqttMessage, receivedAt: number): Record<string, string> {
  const result: Record<string, string> = {};
  const properties = message.properties ?? {};
  result['mqtt.topic'] = message.topic;
  result['mqtt.qos'] = String(message.qos);
  if (message.retain) result['mqtt.retain'] = 'true';
  if (message.dup) result['mqtt.dup'] = 'true';
  if (properties.contentType !== undefined) result['mqtt.contentType'] = properties.contentType;
  if (properties.payloadFormatIndicator !== undefined) {
    result['mqtt.payloadFormat'] = String(properties.payloadFormatIndicator);
  }
  if (properties.responseTopic !== undefined) result['mqtt.responseTopic'] = properties.responseTopic;
  if (properties.correlationData !== undefined) {
    result['mqtt.correlationData'] = properties.correlationData.toString('base64');
  }
  if (properties.messageExpiryInterval !== undefined) {
    result['mqtt.expiresAt'] = String(receivedAt + properties.messageExpiryInterval * 1000);
  }
  return result;
}

/** Also for a name like `__proto__`, which a plain assignment would drop. */
function define(target: Record<string, string>, name: string, value: string): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
