/** PUBACK, PUBREC, PUBREL, PUBCOMP in every form the specifications allow [MQTT5 3.4 to 3.7]. */
import { LocalProtocolError } from '../../errors.js';
import { malformed, protocolError } from './malformed.js';
import { type AckPacket, type Properties, type ProtocolVersion } from './packets.js';
import { decodeProperties, encodeProperties } from './properties.js';
import { mayClientSend, mayServerSend, reasonName } from './reason-codes.js';
import { variableLength, writeVariable } from './strings.js';

type AckType = AckPacket['type'];

const TYPES: readonly AckType[] = ['puback', 'pubrec', 'pubrel', 'pubcomp'];
const FIRST_BYTE: Readonly<Record<AckType, number>> = { puback: 0x40, pubrec: 0x50, pubrel: 0x62, pubcomp: 0x70 };

const cursor = { next: 0 };

export function decodeAck(buffer: Buffer, first: number, at: number, end: number, version: ProtocolVersion): AckPacket {
  const type = TYPES[(first >> 4) - 4];
  const length = end - at;
  if (length < 2 || (version === 4 && length !== 2)) throw malformed(`${type} with ${length} bytes`);
  const packetId = (buffer[at] << 8) | buffer[at + 1];
  if (packetId === 0) throw protocolError(`${type} with packet identifier 0`);
  if (length === 2) return { type, packetId, reasonCode: 0 };
  const reasonCode = buffer[at + 2];
  if (!mayServerSend(type, reasonCode)) throw malformed(`${type} with ${reasonName(reasonCode)}`);
  if (length === 3) return { type, packetId, reasonCode };
  const properties: Properties | undefined = decodeProperties(buffer, at + 3, end, type, cursor);
  if (cursor.next !== end) throw malformed(`${type} is longer than its properties`);
  return { type, packetId, reasonCode, properties };
}

/** Gathers the acknowledgements of one turn into one buffer. */
export class AckWriter {
  #target: Buffer | undefined;
  #size = 0;
  /** What the last turn needed: the next buffer has room for as much. */
  #lastSize = 0;

  get size(): number {
    return this.#size;
  }

  /** Reason code 0 without properties takes the two-byte form, which both versions share. */
  add(type: AckType, packetId: number, reasonCode = 0, properties?: Properties): void {
    if (!(Number.isInteger(packetId) && packetId > 0 && packetId <= 0xffff))
      throw new LocalProtocolError(`packet identifier ${packetId} is not from 1 to 65,535`);
    if (reasonCode !== 0 || properties !== undefined) {
      this.#addLong(type, packetId, reasonCode, properties);
      return;
    }
    const target = this.#room(4);
    const at = this.#size;
    target[at] = FIRST_BYTE[type];
    target[at + 1] = 2;
    target[at + 2] = packetId >> 8;
    target[at + 3] = packetId & 0xff;
    this.#size = at + 4;
  }

  /** What was gathered, or undefined; the buffer is the caller's. */
  take(): Buffer | undefined {
    const target = this.#target;
    if (target === undefined) return undefined;
    const taken = target.subarray(0, this.#size);
    this.#lastSize = this.#size;
    this.#target = undefined;
    this.#size = 0;
    return taken;
  }

  #addLong(type: AckType, packetId: number, reasonCode: number, properties: Properties | undefined): void {
    if (!mayClientSend(type, reasonCode))
      throw new LocalProtocolError(`${type.toUpperCase()} does not carry ${reasonName(reasonCode)}`);
    const bytes = properties === undefined ? undefined : encodeProperties(properties, type);
    const remaining = 3 + (bytes?.length ?? 0);
    const target = this.#room(1 + variableLength(remaining) + remaining);
    target[this.#size] = FIRST_BYTE[type];
    let at = writeVariable(target, this.#size + 1, remaining);
    at = target.writeUInt16BE(packetId, at);
    target[at++] = reasonCode;
    if (bytes !== undefined) {
      target.set(bytes, at);
      at += bytes.length;
    }
    this.#size = at;
  }

  #room(bytes: number): Buffer {
    const target = (this.#target ??= Buffer.allocUnsafe(Math.max(bytes, this.#lastSize, 64)));
    if (this.#size + bytes <= target.length) return target;
    const larger = Buffer.allocUnsafe(Math.max(target.length * 2, this.#size + bytes));
    target.copy(larger, 0, 0, this.#size);
    return (this.#target = larger);
  }
}

/** One acknowledgement as its own buffer. */
export function encodeAck(packet: AckPacket, version: ProtocolVersion): Buffer {
  const writer = new AckWriter();
  if (version === 4) writer.add(packet.type, packet.packetId);
  else writer.add(packet.type, packet.packetId, packet.reasonCode, packet.properties);
  return writer.take() as Buffer;
}
