/** What the codec's specs hold our bytes against: protobufjs on the .proto file, and a CRC computed bit by bit. */
import { readFileSync } from 'node:fs';
import protobuf from 'protobufjs';

const source = readFileSync(new URL('../../../../lib/pulsar/codec/proto/PulsarApi.proto', import.meta.url), 'utf8');
const root = protobuf.parse(source, new protobuf.Root(), { keepCase: false }).root.resolveAll();

/** What protobufjs gives for a message: plain, untyped. */
export type Fields = ReturnType<protobuf.Type['toObject']>;

export const protoType = (name: string): protobuf.Type => root.lookupType(`pulsar.proto.${name}`);

/** Fields that are on the wire, 64-bit numbers as strings. */
export function decodeWith(name: string, bytes: Uint8Array): Fields {
  const type = protoType(name);
  return type.toObject(type.decode(bytes), { longs: String });
}

/** A command frame as a broker sends it. */
export function brokerFrame(type: number, fields: Record<string, object>, rest: Buffer = Buffer.alloc(0)): Buffer {
  return frameOf(
    protoType('BaseCommand')
      .encode({ type, ...fields })
      .finish(),
    rest,
  );
}

export function frameOf(command: Uint8Array, rest: Buffer = Buffer.alloc(0)): Buffer {
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32BE(4 + command.length + rest.length, 0);
  sizes.writeUInt32BE(command.length, 4);
  return Buffer.concat([sizes, command, rest]);
}

export function slowCrc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** A SEND frame taken apart; throws if its sizes do not add up or its checksum is wrong. */
export function openSendFrame(frame: Buffer): {
  command: Fields;
  metadata: Fields;
  payload: Buffer;
} {
  if (frame.readUInt32BE(0) !== frame.length - 4) throw new Error('total size');
  const commandEnd = 8 + frame.readUInt32BE(4);
  const command = decodeWith('BaseCommand', frame.subarray(8, commandEnd));
  if (frame.readUInt16BE(commandEnd) !== 0x0e01) throw new Error('magic');
  if (frame.readUInt32BE(commandEnd + 2) !== slowCrc32c(frame.subarray(commandEnd + 6))) throw new Error('checksum');
  const metadataStart = commandEnd + 10;
  const metadataEnd = metadataStart + frame.readUInt32BE(commandEnd + 6);
  if (metadataEnd > frame.length) throw new Error('metadata size');
  return {
    command: command.send,
    metadata: decodeWith('MessageMetadata', frame.subarray(metadataStart, metadataEnd)),
    payload: frame.subarray(metadataEnd),
  };
}

/** The messages of a batch payload. */
export function openBatch(payload: Buffer): { metadata: Fields; payload: Buffer }[] {
  const messages = [];
  for (let at = 0; at < payload.length;) {
    const end = at + 4 + payload.readUInt32BE(at);
    const metadata = decodeWith('SingleMessageMetadata', payload.subarray(at + 4, end));
    at = end + metadata.payloadSize;
    if (at > payload.length) throw new Error('payload size');
    messages.push({ metadata, payload: payload.subarray(end, at) });
  }
  return messages;
}

/** Numbers that are the same in every run. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let value = this.#state;
    value = Math.imul(value ^ (value >>> 15), value | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  /** Of every width up to 2^53, small ones as often as large ones. */
  number(): number {
    return Math.floor(this.next() * 2 ** this.below(54));
  }

  maybe<T>(value: () => T): T | undefined {
    return this.next() < 0.5 ? value() : undefined;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)];
  }

  bytes(max: number): Buffer {
    return Buffer.from(Array.from({ length: this.below(max + 1) }, () => this.below(256)));
  }

  /** ASCII and characters of two, three and four bytes. */
  text(max: number): string {
    const wide = this.next() < 0.3;
    return Array.from({ length: this.below(max + 1) }, () =>
      wide ? this.pick(['a', 'é', '€', '𝄞', '\0', 'ß']) : String.fromCharCode(32 + this.below(95)),
    ).join('');
  }
}
