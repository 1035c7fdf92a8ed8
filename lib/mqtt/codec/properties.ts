/** Reading and writing MQTT 5 properties by the table in `property-rules.ts` [MQTT5 2.2.2]. */
import { LocalProtocolError, RemoteProtocolError } from '../../errors.js';
import { malformed, protocolError, PROTOCOL_ERROR, TOPIC_ALIAS_INVALID } from './malformed.js';
import { type Properties, type UserProperty } from './packets.js';
import { type ClientCarrier, PROPERTY_RULES, type PropertyRule, type ServerCarrier } from './property-rules.js';
import {
  decodeString,
  encodedStringLength,
  readVariable,
  variableLength,
  writeString,
  writeVariable,
} from './strings.js';
import { isTopicName } from './topics.js';

const BY_ID: (PropertyRule | undefined)[] = [];
const BY_NAME = new Map<string, PropertyRule>();
for (const each of PROPERTY_RULES) {
  BY_ID[each.id] = each;
  BY_NAME.set(each.name, each);
}

const cursor = { next: 0 };

/** The properties between `start` (their length field) and `end`, and the offset behind them in `out.next`. */
export function decodeProperties(
  buffer: Buffer,
  start: number,
  end: number,
  carrier: ServerCarrier,
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
    let id = buffer[at++];
    if (id >= 0x80) {
      id = readVariable(buffer, at - 1, stop, cursor, 'property identifier');
      at = cursor.next;
    }
    const found = BY_ID[id];
    if (found === undefined || !found.server.has(carrier)) throw notAllowed(id, found, carrier);
    at = readValue(buffer, at, stop, found, carrier, properties);
  }
  return properties;
}

/** A property of another packet makes this one malformed [MQTT5 2.2.2.2]; one that only the client may send here does not. */
function notAllowed(id: number, found: PropertyRule | undefined, carrier: ServerCarrier): RemoteProtocolError {
  const what = `property ${found?.name ?? `0x${id.toString(16)}`}`;
  return found?.client.has(carrier) === true
    ? protocolError(`${what} in ${carrier} [MQTT-3.14.2-2]`)
    : malformed(`${what} is not allowed in ${carrier}`);
}

function readValue(
  buffer: Buffer,
  at: number,
  stop: number,
  found: PropertyRule,
  carrier: ServerCarrier,
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
    const pairs = into[name] as UserProperty[] | undefined;
    if (pairs === undefined) into[name] = [pair];
    else pairs.push(pair);
    return valueEnd;
  }
  if (kind !== 'variable' && name in into) throw protocolError(`${name} twice in ${carrier}`);
  if (kind === 'string') {
    const end = stringEnd(buffer, at, stop, name);
    const value = decodeString(buffer, at + 2, end, name);
    if (name === 'responseTopic' && !isTopicName(value))
      throw protocolError('Response Topic is empty or has a wildcard [MQTT-3.3.2-14]');
    into[name] = value;
    return end;
  }
  if (kind === 'binary') {
    const end = stringEnd(buffer, at, stop, name);
    into[name] = Buffer.from(buffer.subarray(at + 2, end));
    return end;
  }
  const value = readNumber(buffer, at, stop, found);
  if (value < found.min || value > found.max) {
    throw new RemoteProtocolError(
      `Protocol error by the server: ${name} ${value} in ${carrier}`,
      name === 'topicAlias' ? TOPIC_ALIAS_INVALID : PROTOCOL_ERROR,
    );
  }
  // Several where several subscriptions match, the same one twice where two have it in common [MQTT5 3.3.4].
  if (kind === 'variable') ((into[name] ??= []) as number[]).push(value);
  else into[name] = value;
  return cursor.next;
}

function readNumber(buffer: Buffer, at: number, stop: number, { kind, name }: PropertyRule): number {
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

/** The length field and the properties as bytes; one zero byte where there are none. Refuses what may not leave. */
export function encodeProperties(properties: Properties | undefined, carrier: ClientCarrier): Buffer {
  if (properties === undefined) return NONE;
  const length = propertiesLength(properties, carrier);
  if (length === 0) return NONE;
  const target = Buffer.allocUnsafe(variableLength(length) + length);
  writeProperties(target, writeVariable(target, 0, length), properties);
  return target;
}
const NONE = Buffer.from([0]);

/** Bytes of all properties without their length field; checks every value. */
export function propertiesLength(properties: Properties, carrier: ClientCarrier): number {
  let total = 0;
  for (const name in properties) {
    const value: unknown = properties[name as keyof Properties];
    if (value === undefined) continue;
    const found = BY_NAME.get(name);
    if (found === undefined || !found.client.has(carrier)) {
      throw new LocalProtocolError(
        `property '${name}' is not allowed in ${carrier.toUpperCase()} from a client [MQTT5 table 2-4]`,
      );
    }
    total += valueLength(found, value, carrier);
  }
  return total;
}

function valueLength(found: PropertyRule, value: unknown, carrier: ClientCarrier): number {
  const { name } = found;
  switch (found.kind) {
    case 'pair': {
      let total = 0;
      for (const pair of asList(name, value)) {
        if (!Array.isArray(pair) || pair.length !== 2)
          throw new LocalProtocolError(`property '${name}' must be a list of [name, value] pairs`);
        const [key, text] = pair as unknown as UserProperty;
        total += 5 + encodedStringLength(key, 'a user property name');
        total += encodedStringLength(text, 'a user property value');
      }
      return total;
    }
    case 'string':
      if (name === 'responseTopic' && !(typeof value === 'string' && isTopicName(value))) {
        throw new LocalProtocolError(`Response Topic '${String(value)}' is empty or has a wildcard [MQTT-3.3.2-14]`);
      }
      return 3 + encodedStringLength(value as string, `property '${name}'`);
    case 'binary':
      if (!(value instanceof Uint8Array) || value.length > 0xffff)
        throw new LocalProtocolError(`property '${name}' must be at most 65,535 bytes`);
      return 3 + value.length;
    case 'variable': {
      const list = asList(name, value);
      if (list.length > 1)
        throw new LocalProtocolError(`${carrier.toUpperCase()} takes one Subscription Identifier [MQTT5 3.8.2.1.2]`);
      return list.reduce<number>((sum, each) => sum + 1 + variableLength(checkNumber(found, each)), 0);
    }
    case 'byte':
    case 'u16':
    case 'u32':
      checkNumber(found, value);
      return 1 + BYTES[found.kind];
  }
}

const BYTES = { byte: 1, u16: 2, u32: 4 } as const;

function asList(name: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new LocalProtocolError(`property '${name}' must be a list`);
  return value;
}

function checkNumber(found: PropertyRule, value: unknown): number {
  if (!Number.isInteger(value) || (value as number) < found.min || (value as number) > found.max) {
    throw new LocalProtocolError(
      `property '${found.name}' must be an integer from ${found.min} to ${found.max}, received ${String(value)}`,
    );
  }
  return value as number;
}

/** Writes what {@link propertiesLength} has checked; returns the offset behind. */
export function writeProperties(target: Buffer, start: number, properties: Properties): number {
  let at = start;
  for (const name in properties) {
    const value: unknown = properties[name as keyof Properties];
    const found = BY_NAME.get(name);
    if (value !== undefined && found !== undefined) at = writeValue(target, at, found, value);
  }
  return at;
}

function writeValue(target: Buffer, start: number, { id, kind }: PropertyRule, value: unknown): number {
  let at = start;
  if (kind === 'pair') {
    for (const [key, text] of value as UserProperty[]) {
      target[at] = id;
      at = writeText(target, at + 1, key);
      at = writeText(target, at, text);
    }
    return at;
  }
  if (kind === 'variable') {
    for (const each of value as number[]) {
      target[at] = id;
      at = writeVariable(target, at + 1, each);
    }
    return at;
  }
  target[at++] = id;
  if (kind === 'string') return writeText(target, at, value as string);
  if (kind === 'binary') {
    const bytes = value as Uint8Array;
    at = target.writeUInt16BE(bytes.length, at);
    target.set(bytes, at);
    return at + bytes.length;
  }
  return target.writeUIntBE(value as number, at, BYTES[kind]);
}

const writeText = (target: Buffer, at: number, text: string): number =>
  writeString(target, at, text, Buffer.byteLength(text));
