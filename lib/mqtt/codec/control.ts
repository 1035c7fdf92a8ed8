/**
 * Every packet but PUBLISH and its acknowledgements. mqtt-packet does the layout, one exact packet at a time; what it does
 * not check or would lose (order and repetition of user properties, short forms, reserved bits) is done here.
 */
import { generate, type Packet, parser } from 'mqtt-packet';
import { LocalProtocolError } from '../../errors.js';
import { encodeAck } from './acks.js';
import { DisconnectIn311Error, malformed, protocolError } from './malformed.js';
import {
  type AuthPacket,
  type ClientPacket,
  type ConnackPacket,
  type ConnectPacket,
  type DisconnectPacket,
  type Properties,
  type ProtocolVersion,
  type ServerPacket,
  type SubscribePacket,
} from './packets.js';
import { decodeProperties, encodeProperties } from './properties.js';
import { encodePublish } from './publish.js';
import { CONNECT_RETURN_CODES, mayClientSend, mayServerSend, reasonName } from './reason-codes.js';
import { encodedStringLength, MAX_VARIABLE_INTEGER, variableLength, writeVariable } from './strings.js';
import { encodedTopicLength, isTopicFilter } from './topics.js';

type ControlType = Exclude<ServerPacket['type'], 'publish' | 'puback' | 'pubrec' | 'pubrel' | 'pubcomp'>;

const TYPES: Readonly<Record<number, ControlType>> = { 2: 'connack', 9: 'suback', 11: 'unsuback', 13: 'pingresp', 14: 'disconnect', 15: 'auth' }; // prettier-ignore

const cursor = { next: 0 };

export class ControlDecoder {
  /** `frame` is exactly one packet whose body starts at `body`. */
  decode(frame: Buffer, body: number, version: ProtocolVersion): ServerPacket {
    const type = TYPES[frame[0] >> 4];
    const length = frame.length - body;
    if (version === 4 && type === 'disconnect') throw new DisconnectIn311Error();
    if (version === 4 && type === 'auth') throw protocolError('AUTH in MQTT 3.1.1');
    switch (type) {
      case 'pingresp':
        if (length !== 0) throw malformed('PINGRESP with a body');
        return { type };
      case 'connack':
        return decodeConnack(frame, body, version);
      case 'suback':
      case 'unsuback':
        return decodeGrants(type, frame, body, version);
      case 'disconnect':
      case 'auth': {
        const reasonCode = length === 0 ? 0 : frame[body];
        if (!mayServerSend(type, reasonCode)) throw malformed(`${type} with ${reasonName(reasonCode)}`);
        // DISCONNECT may leave out the property length alone, AUTH only together with its reason code [MQTT5 3.15.2.1].
        if (length === 0 || (length === 1 && type === 'disconnect')) return { type, reasonCode };
        return { type, reasonCode, properties: exactProperties(frame, body + 1, type) };
      }
    }
  }
}

function decodeConnack(frame: Buffer, body: number, version: ProtocolVersion): ConnackPacket {
  const length = frame.length - body;
  if (length < 2) throw malformed(`CONNACK with ${length} bytes`);
  const flags = frame[body];
  const code = frame[body + 1];
  if ((flags & 0xfe) !== 0) throw malformed('CONNACK with reserved flags [MQTT-3.2.2-1]');
  if (flags === 1 && code !== 0) throw protocolError('CONNACK with an error and session present [MQTT-3.2.2-6]');
  // A server that knows no MQTT 5 answers in its own version's form.
  if (version === 4 || (length === 2 && code !== 0)) {
    const known = CONNECT_RETURN_CODES[code];
    if (length !== 2) throw malformed(`CONNACK with ${length} bytes`);
    if (known === undefined) throw malformed(`CONNACK with return code ${code}`);
    return { type: 'connack', sessionPresent: flags === 1, reasonCode: known.reasonCode };
  }
  if (!mayServerSend('connack', code)) throw malformed(`CONNACK with ${reasonName(code)}`);
  const properties = exactProperties(frame, body + 2, 'connack');
  if (properties?.authenticationData !== undefined && properties.authenticationMethod === undefined) {
    throw protocolError('CONNACK with authentication data but no method');
  }
  expectLayout(frame, 'connack', 5);
  return { type: 'connack', sessionPresent: flags === 1, reasonCode: code, properties };
}

function decodeGrants(
  type: 'suback' | 'unsuback',
  frame: Buffer,
  body: number,
  version: ProtocolVersion,
): ServerPacket {
  if (frame.length - body < 2) throw malformed(`${type} without a packet identifier`);
  const packetId = frame.readUInt16BE(body);
  if (packetId === 0) throw protocolError(`${type} with packet identifier 0`);
  let at = body + 2;
  let properties: Properties | undefined;
  if (version === 5) {
    properties = decodeProperties(frame, at, frame.length, type, cursor);
    at = cursor.next;
  }
  const reasonCodes = [...frame.subarray(at)];
  if (type === 'unsuback' && version === 4) {
    if (reasonCodes.length > 0) throw malformed('UNSUBACK with a payload');
  } else if (type === 'suback' && reasonCodes.length === 0) throw malformed('SUBACK without a reason code');
  for (const code of reasonCodes) {
    const known = version === 5 ? mayServerSend(type, code) : code <= 2 || code === 0x80;
    if (!known) throw malformed(`${type} with ${reasonName(code)}`);
  }
  expectLayout(frame, type, version);
  return { type, packetId, reasonCodes, properties };
}

/** The properties that must fill the rest of the packet. */
function exactProperties(frame: Buffer, at: number, type: 'connack' | 'disconnect' | 'auth'): Properties | undefined {
  const properties = decodeProperties(frame, at, frame.length, type, cursor);
  if (cursor.next !== frame.length) throw malformed(`${type} is longer than its properties`);
  return properties;
}

/** mqtt-packet's own opinion of the same bytes: exactly one packet of this type, no error. */
function expectLayout(frame: Buffer, type: string, protocolVersion: ProtocolVersion): void {
  const seen: string[] = [];
  const reader = parser({ protocolVersion });
  reader.on('packet', (packet: Packet) => seen.push(packet.cmd));
  reader.on('error', (error: Error) => seen.push(error.message));
  const rest = reader.parse(frame);
  if (rest !== 0 || seen.length !== 1 || seen[0] !== type) throw malformed(`${type}: ${seen.join(', ')}`);
}

/** Any packet a client may send, as one buffer. @throws LocalProtocolError for what the protocol does not allow */
export function encodePacket(packet: ClientPacket, version: ProtocolVersion): Buffer {
  switch (packet.type) {
    case 'publish':
      return encodePublish(packet, version);
    case 'puback':
    case 'pubrec':
    case 'pubrel':
    case 'pubcomp':
      return encodeAck(packet, version);
    case 'connect':
      return encodeConnect(packet);
    case 'subscribe':
      return encodeSubscribe(packet, version);
    case 'unsubscribe': {
      checkPacketId(packet.packetId);
      if (packet.filters.length === 0)
        throw new LocalProtocolError('UNSUBSCRIBE without a topic filter [MQTT-3.10.3-2]');
      packet.filters.forEach(checkFilter);
      const bytes = layout(
        { cmd: 'unsubscribe', messageId: packet.packetId, unsubscriptions: packet.filters },
        version,
      );
      return version === 4 ? bytes : splice(bytes, [[2, encodeProperties(packet.properties, 'unsubscribe')]]);
    }
    case 'pingreq':
      return PINGREQ;
    case 'disconnect':
      if (version === 4) return DISCONNECT;
      if (packet.reasonCode === 0 && packet.properties === undefined) return DISCONNECT;
      return encodeReason(packet);
    case 'auth':
      if (version === 4) throw new LocalProtocolError('MQTT 3.1.1 has no AUTH packet');
      if (packet.properties?.authenticationMethod === undefined)
        throw new LocalProtocolError('AUTH without an authentication method [MQTT5 3.15.2.2.2]');
      return encodeReason(packet);
  }
}

const PINGREQ = Buffer.from([0xc0, 0]);
const DISCONNECT = Buffer.from([0xe0, 0]);

function encodeReason({ type, reasonCode, properties }: DisconnectPacket | AuthPacket): Buffer {
  if (!mayClientSend(type, reasonCode))
    throw new LocalProtocolError(`${type.toUpperCase()} from a client does not carry ${reasonName(reasonCode)}`);
  return splice(layout({ cmd: type, reasonCode }, 5), [[1, encodeProperties(properties, type)]]);
}

function encodeConnect(packet: ConnectPacket): Buffer {
  const { protocolVersion, clientId, cleanStart, keepAlive, username, password, will, properties } = packet;
  const clientIdLength = encodedStringLength(clientId, 'the client identifier');
  if (username !== undefined) encodedStringLength(username, 'the user name');
  if (password !== undefined && password.length > 0xffff)
    throw new LocalProtocolError('the password is longer than 65,535 bytes');
  if (will !== undefined) {
    encodedTopicLength(will.topic);
    checkQos(will.qos);
    if (will.payload.length > 0xffff) throw new LocalProtocolError('the will payload is longer than 65,535 bytes');
  }
  if (!Number.isInteger(keepAlive) || keepAlive < 0 || keepAlive > 0xffff)
    throw new LocalProtocolError(`keep alive must be 0 to 65,535 seconds, received ${keepAlive}`);
  if (properties?.authenticationData !== undefined && properties.authenticationMethod === undefined)
    throw new LocalProtocolError('authentication data without an authentication method [MQTT5 3.1.2.11.10]');
  if (protocolVersion === 4 && password !== undefined && username === undefined) {
    throw new LocalProtocolError('MQTT 3.1.1 takes a password only with a user name [MQTT-3.1.2-22]');
  }
  // Version 5 allows no client id and a password alone [MQTT5 3.1.3.1, 3.1.2.9], mqtt-packet does not: it gets what it
  // wants to see, and that is taken out again below.
  const emptyId = protocolVersion === 5 && clientId === '';
  const bytes = layout(
    {
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion,
      clean: cleanStart || emptyId,
      clientId,
      keepalive: keepAlive,
      ...((username ?? password) !== undefined && { username: username ?? '' }),
      ...(password !== undefined && { password }),
      ...(will !== undefined && {
        will: { topic: will.topic, payload: will.payload, qos: will.qos, retain: will.retain },
      }),
    },
    protocolVersion,
  );
  if (protocolVersion === 4) return bytes;
  const flagsAt = bytes.length - bodyLength(bytes) + VARIABLE_HEADER - 3;
  if (!cleanStart) bytes[flagsAt] &= ~CLEAN_START_FLAG;
  const fields: Splice[] = [[VARIABLE_HEADER, encodeProperties(properties, 'connect')]];
  if (will !== undefined)
    fields.push([VARIABLE_HEADER + 1 + 2 + clientIdLength, encodeProperties(will.properties, 'will')]);
  if (password !== undefined && username === undefined) {
    bytes[flagsAt] &= ~USERNAME_FLAG;
    fields.push([bodyLength(bytes) - password.length - 4, NO_BYTES, 2]);
  }
  return splice(bytes, fields);
}
/** Protocol name, level, flags, keep alive. */
const VARIABLE_HEADER = 10;
const USERNAME_FLAG = 0x80;
const CLEAN_START_FLAG = 0x02;
const NO_BYTES = Buffer.alloc(0);

function encodeSubscribe(packet: SubscribePacket, version: ProtocolVersion): Buffer {
  checkPacketId(packet.packetId);
  if (packet.subscriptions.length === 0)
    throw new LocalProtocolError('SUBSCRIBE without a topic filter [MQTT-3.8.3-2]');
  const subscriptions = packet.subscriptions.map(({ filter, qos, noLocal, retainAsPublished, retainHandling }) => {
    checkFilter(filter);
    checkQos(qos);
    if (![undefined, 0, 1, 2].includes(retainHandling))
      throw new LocalProtocolError(`retain handling must be 0, 1 or 2, received ${String(retainHandling)}`);
    if (version === 5 && noLocal === true && filter.startsWith('$share/')) {
      throw new LocalProtocolError(`No Local on the shared subscription '${filter}' [MQTT-3.8.3-4]`);
    }
    return version === 4
      ? { topic: filter, qos }
      : { topic: filter, qos, nl: noLocal ?? false, rap: retainAsPublished ?? false, rh: retainHandling ?? 0 };
  });
  const bytes = layout({ cmd: 'subscribe', messageId: packet.packetId, subscriptions }, version);
  return version === 4 ? bytes : splice(bytes, [[2, encodeProperties(packet.properties, 'subscribe')]]);
}

function checkPacketId(packetId: number): void {
  if (!Number.isInteger(packetId) || packetId < 1 || packetId > 0xffff) {
    throw new LocalProtocolError(`packet identifier ${packetId} is not from 1 to 65,535`);
  }
}

function checkQos(qos: number): void {
  if (qos !== 0 && qos !== 1 && qos !== 2)
    throw new LocalProtocolError(`QoS must be 0, 1 or 2, received ${String(qos)}`);
}

function checkFilter(filter: string): void {
  encodedStringLength(filter, 'a topic filter');
  if (!isTopicFilter(filter))
    throw new LocalProtocolError(`topic filter '${filter}' is empty or has a wildcard out of place [MQTT-4.7.1-1]`);
}

function layout(packet: Packet, protocolVersion: ProtocolVersion): Buffer {
  try {
    return generate(packet, { protocolVersion });
  } catch (error) {
    throw new LocalProtocolError(`${packet.cmd.toUpperCase()} cannot be encoded: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** Bytes to put in place of so many zero bytes (one unless said) at an offset of the body. */
type Splice = readonly [at: number, bytes: Buffer, zeros?: number];

/**
 * Puts property fields in place of the single zero bytes that mqtt-packet wrote for "no properties": its own property
 * encoder would regroup user properties by name.
 */
function splice(bytes: Buffer, fields: readonly Splice[]): Buffer {
  const body = bytes.subarray(bytes.length - bodyLength(bytes));
  const parts: Buffer[] = [];
  let from = 0;
  for (const [at, field, zeros = 1] of fields) {
    if (body.subarray(at, at + zeros).some((byte) => byte !== 0))
      throw new LocalProtocolError(`no empty field at offset ${at}`);
    parts.push(body.subarray(from, at), field);
    from = at + zeros;
  }
  parts.push(body.subarray(from));
  const remaining = parts.reduce((sum, part) => sum + part.length, 0);
  if (remaining > MAX_VARIABLE_INTEGER)
    throw new LocalProtocolError(`a packet of ${remaining} bytes does not fit into MQTT`);
  const header = Buffer.allocUnsafe(1 + variableLength(remaining));
  header[0] = bytes[0];
  writeVariable(header, 1, remaining);
  return Buffer.concat([header, ...parts]);
}

function bodyLength(bytes: Buffer): number {
  let body = 2;
  while (bytes[body - 1] >= 0x80) body += 1;
  return bytes.length - body;
}
