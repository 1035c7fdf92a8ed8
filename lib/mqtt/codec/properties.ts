/** MQTT 5 properties: identifier, type, where allowed, how often, which values [MQTT5 2.2.2]; reading and writing them. */
import { LocalProtocolError } from '../../errors.js';
import { malformed, protocolError, TOPIC_ALIAS_INVALID, PROTOCOL_ERROR } from './malformed.js';
import { RemoteProtocolError } from '../../errors.js';
import { type Properties, type UserProperty } from './packets.js';
import {
  decodeString,
  encodedStringLength,
  MAX_VARIABLE_INTEGER,
  variableLength,
  writeString,
  writeVariable,
} from './strings.js';

/** Where properties stand; `will` are those of the Will in CONNECT. */
export type PropertyCarrier =
  | 'connect' | 'will' | 'connack' | 'publish' | 'puback' | 'pubrec' | 'pubrel' | 'pubcomp'
  | 'subscribe' | 'suback' | 'unsubscribe' | 'unsuback' | 'disconnect' | 'auth'; // prettier-ignore

type Kind = 'byte' | 'u16' | 'u32' | 'variable' | 'string' | 'binary' | 'pair';

interface Rule {
  readonly id: number;
  readonly name: keyof Properties;
  readonly kind: Kind;
  readonly carriers: ReadonlySet<string>;
  /** Smallest and largest value of a number. */
  readonly min: number;
  readonly max: number;
}

const ACKS = 'puback pubrec pubrel pubcomp suback unsuback';
const rule = (id: number, name: keyof Properties, kind: Kind, carriers: string, min = 0, max = Infinity): Rule => ({
  id,
  name,
  kind,
  carriers: new Set(carriers.split(' ')),
  min,
  max, // prettier-ignore
});

/** One row a property [MQTT5 table 2-4]. */
export const PROPERTY_RULES: readonly Rule[] = [
  rule(0x01, 'payloadFormatIndicator', 'byte', 'publish will', 0, 1),
  rule(0x02, 'messageExpiryInterval', 'u32', 'publish will'),
  rule(0x03, 'contentType', 'string', 'publish will'),
  rule(0x08, 'responseTopic', 'string', 'publish will'),
  rule(0x09, 'correlationData', 'binary', 'publish will'),
  rule(0x0b, 'subscriptionIdentifiers', 'variable', 'publish subscribe', 1, MAX_VARIABLE_INTEGER),
  rule(0x11, 'sessionExpiryInterval', 'u32', 'connect connack disconnect'),
  rule(0x12, 'assignedClientIdentifier', 'string', 'connack'),
  rule(0x13, 'serverKeepAlive', 'u16', 'connack'),
  rule(0x15, 'authenticationMethod', 'string', 'connect connack auth'),
  rule(0x16, 'authenticationData', 'binary', 'connect connack auth'),
  rule(0x17, 'requestProblemInformation', 'byte', 'connect', 0, 1),
  rule(0x18, 'willDelayInterval', 'u32', 'will'),
  rule(0x19, 'requestResponseInformation', 'byte', 'connect', 0, 1),
  rule(0x1a, 'responseInformation', 'string', 'connack'),
  rule(0x1c, 'serverReference', 'string', 'connack disconnect'),
  rule(0x1f, 'reasonString', 'string', `connack disconnect auth ${ACKS}`),
  rule(0x21, 'receiveMaximum', 'u16', 'connect connack', 1),
  rule(0x22, 'topicAliasMaximum', 'u16', 'connect connack'),
  rule(0x23, 'topicAlias', 'u16', 'publish', 1),
  rule(0x24, 'maximumQos', 'byte', 'connack', 0, 1),
  rule(0x25, 'retainAvailable', 'byte', 'connack', 0, 1),
  rule(0x26, 'userProperties', 'pair', `connect will connack publish subscribe unsubscribe disconnect auth ${ACKS}`),
  rule(0x27, 'maximumPacketSize', 'u32', 'connect connack', 1),
  rule(0x28, 'wildcardSubscriptionAvailable', 'byte', 'connack', 0, 1),
  rule(0x29, 'subscriptionIdentifiersAvailable', 'byte', 'connack', 0, 1),
  rule(0x2a, 'sharedSubscriptionAvailable', 'byte', 'connack', 0, 1),
];

const BY_ID: (Rule | undefined)[] = [];
const BY_NAME = new Map<string, Rule>();
for (const each of PROPERTY_RULES) {
  BY_ID[each.id] = each;
  BY_NAME.set(each.name, each);
}

/** A variable byte integer at `at`, in its shortest form; `next` is the offset behind it. */
export function readVariable(buffer: Buffer, at: number, end: number, out: { next: number }, what: string): number {
  let value = 0;
  for (let index = 0; index < 4; index += 1) {
    if (at + index >= end) throw malformed(`${what} is cut off`);
    const byte = buffer[at + index];
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) {
      if (index > 0 && byte === 0) throw malformed(`${what} is not in its shortest form`);
      out.next = at + index + 1;
      return value;
    }
  }
  throw malformed(`${what} has more than four bytes`);
}

const cursor = { next: 0 };

/** The properties between `start` (their length field) and `end`, and the offset behind them in `out.next`. */
export function decodeProperties(
  buffer: Buffer,
  start: number,
  end: number,
  carrier: PropertyCarrier,
  out: { next: number },
): Properties | undefined {
  const length = readVariable(buffer, start, end, cursor, `${carrier} property length`);
  const stop = cursor.next + length;
  if (stop > end) throw malformed(`${carrier} properties are longer than the packet`);
  let at = cursor.next;
  out.next = stop;
  if (length === 0) return undefined;
  const properties: Record<string, unknown> = {};
  while (at < stop) {
    const id = readVariable(buffer, at, stop, cursor, 'property identifier');
    const found = BY_ID[id];
    if (found === undefined || !found.carriers.has(carrier)) {
      throw malformed(`property 0x${id.toString(16)} is not allowed in ${carrier}`);
    }
    at = readValue(buffer, cursor.next, stop, found, carrier, properties);
  }
  return properties;
}

function readValue(
  buffer: Buffer,
  at: number,
  stop: number,
  found: Rule,
  carrier: string,
  into: Record<string, unknown>,
): number {
  const { name, kind } = found;
  if (kind === 'pair') {
    const nameEnd = stringEnd(buffer, at, stop, name);
    const valueEnd = stringEnd(buffer, nameEnd, stop, name);
    const pair: UserProperty = [
      decodeString(buffer, at + 2, nameEnd, 'user property name'),
      decodeString(buffer, nameEnd + 2, valueEnd, 'user property value'),
    ];
    ((into[name] ??= []) as UserProperty[]).push(pair);
    return valueEnd;
  }
  const many = kind === 'variable' && carrier === 'publish';
  if (!many && name in into) throw protocolError(`${name} twice in ${carrier}`);
  if (kind === 'string' || kind === 'binary') {
    const end = stringEnd(buffer, at, stop, name);
    const value =
      kind === 'string' ? decodeString(buffer, at + 2, end, name) : Buffer.from(buffer.subarray(at + 2, end));
    if (name === 'responseTopic' && !isTopicName(value as string))
      throw protocolError('Response Topic is empty or has a wildcard');
    into[name] = value;
    return end;
  }
  const value = readNumber(buffer, at, stop, kind, name);
  if (value < found.min || value > found.max) {
    throw new RemoteProtocolError(
      `Protocol error by the server: ${name} ${value} in ${carrier}`,
      name === 'topicAlias' ? TOPIC_ALIAS_INVALID : PROTOCOL_ERROR,
    );
  }
  if (kind === 'variable') ((into[name] ??= []) as number[]).push(value);
  else into[name] = value;
  return cursor.next;
}

function readNumber(buffer: Buffer, at: number, stop: number, kind: Kind, name: string): number {
  if (kind === 'variable') return readVariable(buffer, at, stop, cursor, name);
  const size = kind === 'byte' ? 1 : kind === 'u16' ? 2 : 4;
  if (at + size > stop) throw malformed(`${name} is cut off`);
  cursor.next = at + size;
  return buffer.readUIntBE(at, size);
}

function stringEnd(buffer: Buffer, at: number, stop: number, name: string): number {
  const end = at + 2 > stop ? Infinity : at + 2 + ((buffer[at] << 8) | buffer[at + 1]);
  if (end > stop) throw malformed(`${name} is cut off`);
  return end;
}

/** Not empty and without wildcards [MQTT5 4.7]. */
export const isTopicName = (topic: string): boolean => topic.length > 0 && !topic.includes('+') && !topic.includes('#');

/** The length field and the properties as bytes; one zero byte where there are none. Refuses what may not leave. */
export function encodeProperties(properties: Properties | undefined, carrier: PropertyCarrier): Buffer {
  if (properties === undefined) return NONE;
  const length = propertiesLength(properties, carrier);
  if (length === 0) return NONE;
  const target = Buffer.allocUnsafe(variableLength(length) + length);
  writeProperties(target, writeVariable(target, 0, length), properties);
  return target;
}
const NONE = Buffer.from([0]);

/** Bytes of all properties without their length field; checks every value. */
export function propertiesLength(properties: Properties, carrier: PropertyCarrier): number {
  let total = 0;
  for (const [name, value] of Object.entries(properties) as [string, unknown][]) {
    if (value === undefined) continue;
    const found = BY_NAME.get(name);
    if (found === undefined || !found.carriers.has(carrier)) {
      throw new LocalProtocolError(`property '${name}' is not allowed in ${carrier.toUpperCase()} [MQTT5 table 2-4]`);
    }
    total += valueLength(found, value, carrier);
  }
  return total;
}

function valueLength(found: Rule, value: unknown, carrier: string): number {
  const { name, kind } = found;
  switch (kind) {
    case 'pair':
      return (value as UserProperty[]).reduce(
        (sum, [key, text]) =>
          sum +
          5 +
          encodedStringLength(key, 'a user property name') +
          encodedStringLength(text, `user property '${key}'`),
        0,
      );
    case 'string':
      if (name === 'responseTopic' && !isTopicName(value as string)) {
        throw new LocalProtocolError(`Response Topic '${String(value)}' is empty or has a wildcard [MQTT-3.3.2-14]`);
      }
      return 3 + encodedStringLength(value as string, name);
    case 'binary':
      if (!(value instanceof Uint8Array) || value.length > 0xffff)
        throw new LocalProtocolError(`${name} must be at most 65,535 bytes`);
      return 3 + value.length;
    case 'variable': {
      const list = value as number[];
      if (carrier === 'subscribe' && list.length > 1)
        throw new LocalProtocolError('SUBSCRIBE takes one Subscription Identifier [MQTT5 3.8.2.1.2]');
      return list.reduce((sum, each) => sum + 1 + variableLength(checkNumber(found, each)), 0);
    }
    case 'byte':
    case 'u16':
    case 'u32':
      checkNumber(found, value as number);
      return 1 + BYTES[kind];
  }
}

const BYTES = { byte: 1, u16: 2, u32: 4 } as const;

function checkNumber(found: Rule, value: number): number {
  const width =
    found.kind === 'byte'
      ? 0xff
      : found.kind === 'u16'
        ? 0xffff
        : found.kind === 'u32'
          ? 0xffffffff
          : MAX_VARIABLE_INTEGER;
  const max = Math.min(found.max, width);
  if (!Number.isInteger(value) || value < found.min || value > max) {
    throw new LocalProtocolError(
      `property '${found.name}' must be an integer from ${found.min} to ${max}, received ${String(value)}`,
    );
  }
  return value;
}

/** Writes what {@link propertiesLength} has checked; returns the offset behind. */
export function writeProperties(target: Buffer, start: number, properties: Properties): number {
  let at = start;
  for (const [name, value] of Object.entries(properties) as [string, unknown][]) {
    const found = BY_NAME.get(name);
    if (value === undefined || found === undefined) continue;
    const { id } = found;
    switch (found.kind) {
      case 'pair':
        for (const [key, text] of value as UserProperty[]) {
          target[at] = id;
          at = writeString(target, at + 1, key, Buffer.byteLength(key));
          at = writeString(target, at, text, Buffer.byteLength(text));
        }
        break;
      case 'string':
        target[at] = id;
        at = writeString(target, at + 1, value as string, Buffer.byteLength(value as string));
        break;
      case 'binary':
        target[at] = id;
        at = target.writeUInt16BE((value as Uint8Array).length, at + 1);
        target.set(value as Uint8Array, at);
        at += (value as Uint8Array).length;
        break;
      case 'variable':
        for (const each of value as number[]) {
          target[at] = id;
          at = writeVariable(target, at + 1, each);
        }
        break;
      case 'byte':
      case 'u16':
      case 'u32':
        target[at] = id;
        at = target.writeUIntBE(value as number, at + 1, BYTES[found.kind]);
        break;
    }
  }
  return at;
}
