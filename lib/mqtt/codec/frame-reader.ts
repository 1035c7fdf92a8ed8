/** Cuts the server's byte stream into packets, whatever the chunks, and decodes each [MQTT5 2.1]. */
import { RemoteProtocolError } from '../../errors.js';
import { decodeAck } from './acks.js';
import { ControlDecoder } from './control.js';
import { malformed, MALFORMED_PACKET, PACKET_TOO_LARGE, protocolError } from './malformed.js';
import { type ProtocolVersion, type ServerPacket } from './packets.js';
import { decodePublish } from './publish.js';
import { TopicCache } from './topics.js';

export interface FrameReaderLimits {
  /** Largest packet with its fixed header, in bytes; a larger one is refused when its header is read, before buffering. */
  readonly maximumPacketSize: number;
}

/**
 * `push` bytes, then take packets with `next` until it gives undefined. After the first error every further `next` throws
 * the same one: a stream that is wrong once cannot be trusted again. A payload is a view of the chunk it came in.
 */
export class FrameReader {
  readonly #limits: FrameReaderLimits;
  readonly #topics = new TopicCache();
  readonly #control = new ControlDecoder();
  #version: ProtocolVersion;
  #failure: RemoteProtocolError | undefined;

  /** The chunk that is read, from where; further chunks wait. */
  #chunk: Buffer = EMPTY;
  #at = 0;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;

  /** A packet that spans chunks: its bytes so far, and how many it has in all (0: its header is not complete). */
  #partial: Buffer = EMPTY;
  #have = 0;
  #need = 0;

  constructor(version: ProtocolVersion, limits: FrameReaderLimits) {
    this.#version = version;
    this.#limits = limits;
  }

  setVersion(version: ProtocolVersion): void {
    this.#version = version;
  }

  /** Bytes held for packets that are not complete or not read. */
  get bufferedBytes(): number {
    return this.#have + this.#chunk.length - this.#at + this.#waitingBytes;
  }

  push(chunk: Buffer): void {
    if (this.#failure !== undefined || chunk.length === 0) return;
    if (this.#at === this.#chunk.length && this.#waitingBytes === 0) {
      this.#chunk = chunk;
      this.#at = 0;
    } else {
      this.#waiting.push(chunk);
      this.#waitingBytes += chunk.length;
    }
  }

  /** @throws RemoteProtocolError with the reason code for the DISCONNECT */
  next(): ServerPacket | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      for (;;) {
        if (this.#at === this.#chunk.length && !this.#nextChunk()) return undefined;
        const packet = this.#have === 0 ? this.#readWhole() : this.#readPart();
        if (packet !== undefined) return packet;
      }
    } catch (error) {
      this.#failure =
        error instanceof RemoteProtocolError
          ? error
          : new RemoteProtocolError('A packet from the server cannot be decoded', MALFORMED_PACKET, { cause: error });
      this.#chunk = EMPTY;
      this.#at = 0;
      this.#waiting = [];
      this.#waitingBytes = 0;
      this.#partial = EMPTY;
      this.#have = 0;
      throw this.#failure;
    }
  }

  #nextChunk(): boolean {
    this.#chunk = EMPTY;
    this.#at = 0;
    if (this.#waitingBytes === 0) return false;
    // Usually one chunk waits or none; many are joined, because taking them one by one from a long array is quadratic.
    this.#chunk = this.#waiting.length === 1 ? this.#waiting[0] : Buffer.concat(this.#waiting, this.#waitingBytes);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return true;
  }

  #readWhole(): ServerPacket | undefined {
    const chunk = this.#chunk;
    const start = this.#at;
    const size = this.#frameSize(chunk, start, chunk.length);
    if (size === 0 || start + size > chunk.length) {
      this.#need = size;
      this.#take(chunk.length - start);
      return undefined;
    }
    this.#at = start + size;
    return this.#decode(chunk, start, start + size);
  }

  #readPart(): ServerPacket | undefined {
    while (this.#need === 0) {
      if (this.#at === this.#chunk.length) return undefined;
      this.#take(1);
      this.#need = this.#frameSize(this.#partial, 0, this.#have);
    }
    this.#take(Math.min(this.#need - this.#have, this.#chunk.length - this.#at));
    if (this.#have < this.#need) return undefined;
    const frame = this.#partial;
    const size = this.#need;
    this.#partial = EMPTY;
    this.#have = 0;
    this.#need = 0;
    return this.#decode(frame, 0, size);
  }

  /** Moves bytes from the chunk to the partial packet. Room grows with what came, never with what was announced. */
  #take(bytes: number): void {
    const size = this.#have + bytes;
    if (size > this.#partial.length) {
      const room = this.#need === 0 ? HEADER_ROOM : Math.min(this.#need, Math.max(size, 2 * this.#have, FIRST_ROOM));
      const larger = Buffer.allocUnsafe(room);
      this.#partial.copy(larger, 0, 0, this.#have);
      this.#partial = larger;
    }
    this.#chunk.copy(this.#partial, this.#have, this.#at, this.#at + bytes);
    this.#at += bytes;
    this.#have = size;
  }

  /** The size of the packet that starts at `start`, or 0 while its fixed header is not complete. Checks the header. */
  #frameSize(buffer: Buffer, start: number, end: number): number {
    const first = buffer[start];
    if ((first & 0xf0) !== 0x30 && FLAGS[first >> 4] !== (first & 0x0f)) {
      throw FLAGS[first >> 4] < 0
        ? protocolError(`packet type ${first >> 4} is not one a server sends`)
        : malformed(`flags ${first & 0x0f} in packet type ${first >> 4}`);
    }
    let length = 0;
    for (let index = 1; index <= 4; index += 1) {
      if (start + index >= end) return 0;
      const byte = buffer[start + index];
      length += (byte & 0x7f) << (7 * (index - 1));
      if (byte < 0x80) {
        if (byte === 0 && index > 1) throw malformed('remaining length is not in its shortest form [MQTT-1.5.5-1]');
        const size = 1 + index + length;
        if (size > this.#limits.maximumPacketSize) {
          throw new RemoteProtocolError(
            `A packet of ${size} bytes is announced, the limit is ${this.#limits.maximumPacketSize} (maximumPacketSize)`,
            PACKET_TOO_LARGE,
          );
        }
        return size;
      }
    }
    throw malformed('remaining length has more than four bytes');
  }

  #decode(buffer: Buffer, start: number, end: number): ServerPacket {
    const first = buffer[start];
    let body = start + 2;
    while (buffer[body - 1] >= 0x80) body += 1;
    switch (first >> 4) {
      case 3:
        return decodePublish(buffer, first, body, end, this.#version, this.#topics);
      case 4:
      case 5:
      case 6:
      case 7:
        return decodeAck(buffer, first, body, end, this.#version);
      default:
        return this.#control.decode(buffer.subarray(start, end), body - start, this.#version);
    }
  }
}

const EMPTY = Buffer.alloc(0);
/** A fixed header has at most five bytes. */
const HEADER_ROOM = 5;
/** First room for a packet that spans chunks, unless it is smaller. */
const FIRST_ROOM = 4096;
/** Flags that a server's packet of each type has (PUBLISH is checked by its decoder); -1: not one a server sends. */
const FLAGS = [-1, -1, 0, 0, 0, 0, 2, 0, -1, 0, -1, 0, -1, 0, 0, 0];
