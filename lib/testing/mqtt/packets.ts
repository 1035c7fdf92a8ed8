/** mqtt-packet, one exact packet at a time, with the few checks on a client's packets that it does not make. */
import {
  type IAuthPacket,
  type IConnackPacket,
  type IConnectPacket,
  type IDisconnectPacket,
  type IPingreqPacket,
  type IPingrespPacket,
  type IPubackPacket,
  type IPubcompPacket,
  type IPublishPacket,
  type IPubrecPacket,
  type IPubrelPacket,
  type ISubackPacket,
  type ISubscribePacket,
  type IUnsubackPacket,
  type IUnsubscribePacket,
  generate,
  type Packet,
  parser,
  type Parser,
} from 'mqtt-packet';
import { MalformedError, type WireEvents } from '../connection.js';

/** Type name -> packet, as in mqtt-packet. */
export interface MqttPackets extends WireEvents {
  connect: IConnectPacket;
  connack: IConnackPacket;
  publish: IPublishPacket & { payload: Buffer };
  puback: IPubackPacket;
  pubrec: IPubrecPacket;
  pubrel: IPubrelPacket;
  pubcomp: IPubcompPacket;
  subscribe: ISubscribePacket;
  suback: ISubackPacket;
  unsubscribe: IUnsubscribePacket;
  unsuback: IUnsubackPacket;
  pingreq: IPingreqPacket;
  pingresp: IPingrespPacket;
  disconnect: IDisconnectPacket;
  auth: IAuthPacket;
  malformed: MalformedPacketError;
}

export type PacketType = Packet['cmd'];

export interface ReceivedPacket {
  readonly packet: Packet;
  readonly bytes: Buffer;
}

/** The client sent bytes that are no packet, or no packet a client may send. */
export class MalformedPacketError extends MalformedError {
  constructor(
    message: string,
    /** MQTT 5 reason code: 0x81 malformed, 0x82 protocol error, 0x95 too large. */
    readonly reasonCode: number,
    bytes: Buffer,
  ) {
    super(message, bytes);
  }
}

const FROM_CLIENT: ReadonlySet<string> = new Set<PacketType>([
  'connect',
  'publish',
  'puback',
  'pubrec',
  'pubrel',
  'pubcomp',
  'subscribe',
  'unsubscribe',
  'pingreq',
  'disconnect',
  'auth',
]);
const WITH_ID: ReadonlySet<string> = new Set<PacketType>([
  'puback',
  'pubrec',
  'pubrel',
  'pubcomp',
  'subscribe',
  'unsubscribe',
]);

/** Cuts a stream into exact packets and has each read alone: mqtt-packet's bounds are those of what it was given. */
export class PacketReader {
  private readonly parser: Parser = parser({});
  private buffered: Buffer = Buffer.alloc(0);
  private parsed: Packet | undefined;
  private failure: Error | undefined;

  constructor() {
    this.parser.on('packet', (packet) => (this.parsed = packet));
    this.parser.on('error', (error: Error) => (this.failure = error));
  }

  push(chunk: Buffer): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
  }

  /**
   * The next whole packet.
   *
   * @param maximumPacketSize in bytes, header included
   * @throws MalformedPacketError
   */
  next(maximumPacketSize: number): ReceivedPacket | undefined {
    const length = frameLength(this.buffered);
    if (length === undefined) return undefined;
    if (length > maximumPacketSize) {
      throw new MalformedPacketError(
        `packet of ${length} bytes, allowed are ${maximumPacketSize}`,
        0x95,
        this.buffered.subarray(0, 5),
      );
    }
    if (this.buffered.length < length) return undefined;
    const bytes = this.buffered.subarray(0, length);
    this.buffered = this.buffered.subarray(length);
    this.parsed = undefined;
    this.failure = undefined;
    this.parser.parse(bytes);
    const packet = this.parsed as Packet | undefined;
    const failure = this.failure as Error | undefined;
    if (failure !== undefined || packet === undefined) {
      throw new MalformedPacketError(failure?.message ?? 'packet is too short for its type', 0x81, bytes);
    }
    check(packet, bytes);
    return { packet, bytes };
  }
}

/** The bytes of a packet, in the version of the connection. */
export function encodePacket(packet: Packet, version: number): Buffer {
  const { properties } = packet as { readonly properties?: { readonly userProperties?: object } };
  if (properties?.userProperties === undefined || Object.keys(properties.userProperties).length > 0) {
    return generate(packet, { protocolVersion: version });
  }
  // mqtt-packet makes no bytes at all of a packet with an empty set of them.
  const { userProperties: _none, ...others } = properties;
  return generate({ ...packet, properties: others } as Packet, { protocolVersion: version });
}

/** A copy without the undefined fields, since mqtt-packet takes their presence for a value. */
export function compact<T extends object>(properties: T): T | undefined {
  const entries = Object.entries(properties).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as T);
}

/** Whole length of the packet at the start of `buffer`; undefined while its header is incomplete. */
function frameLength(buffer: Buffer): number | undefined {
  let value = 0;
  for (let index = 1; index < 5; index++) {
    const byte = buffer[index];
    if (byte === undefined) return undefined;
    value += (byte & 0x7f) * 128 ** (index - 1);
    if (byte < 0x80) {
      if (byte === 0 && index > 1) {
        throw new MalformedPacketError('remaining length is not minimal [MQTT-1.5.5-1]', 0x81, buffer.subarray(0, 5));
      }
      return value + index + 1;
    }
  }
  throw new MalformedPacketError('remaining length of more than four bytes', 0x81, buffer.subarray(0, 5));
}

function check(packet: Packet, bytes: Buffer): void {
  const fail = (message: string, code = 0x82): never => {
    throw new MalformedPacketError(message, code, bytes);
  };
  if (!FROM_CLIENT.has(packet.cmd)) fail(`a client must not send ${packet.cmd.toUpperCase()}`);
  const id = packet.messageId ?? 0;
  if (WITH_ID.has(packet.cmd) && id <= 0) fail('packet identifier is missing or 0 [MQTT-2.2.1-3]');
  if (packet.cmd === 'publish') {
    if (packet.qos > 0 && id <= 0) fail('packet identifier is missing or 0 [MQTT-2.2.1-3]');
    if (packet.qos === 0 && packet.dup) fail('DUP is set with QoS 0 [MQTT-3.3.1-2]', 0x81);
    if (/[+#]/.test(packet.topic)) fail(`wildcard in topic name '${packet.topic}' [MQTT-3.3.2-2]`, 0x90);
    if (packet.topic.includes('\0')) fail('topic name holds U+0000 [MQTT-1.5.4-2]', 0x81);
    if (packet.properties?.subscriptionIdentifier !== undefined) {
      fail('a client must not send a Subscription Identifier [MQTT-3.3.4-6]');
    }
  }
  if (packet.cmd === 'subscribe' && packet.subscriptions.length === 0) fail('SUBSCRIBE without a filter');
  if (packet.cmd === 'unsubscribe' && packet.unsubscriptions.length === 0) fail('UNSUBSCRIBE without a filter');
}
