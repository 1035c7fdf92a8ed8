/** Cuts the server's byte stream into packets, whatever the chunks, and decodes each [MQTT5 2.1]. */
import { RemoteProtocolError } from '../../errors.js';
import { decodeAck } from './acks.js';
import { ControlDecoder } from './control.js';
import { malformed, PACKET_TOO_LARGE, protocolError } from './malformed.js';
import { type ProtocolVersion, type ServerPacket } from './packets.js';
import { decodePublish, TopicCache } from './publish.js';

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

  /** A packet that spans chunks: its parts, their bytes, and the bytes it needs (0: its header is not complete). */
  #parts: Buffer[] = [];
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
    return this.#waiting.reduce((sum, chunk) => sum + chunk.length, this.#have + this.#chunk.length - this.#at);
  }

  push(chunk: Buffer): void {
    if (this.#failure !== undefined || chunk.length === 0) return;
    if (this.#at === this.#chunk.length && this.#waiting.length === 0) {
      this.#chunk = chunk;
      this.#at = 0;
    } else this.#waiting.push(chunk);
  }

  /** @throws RemoteProtocolError with the reason code for the DISCONNECT */
  next(): ServerPacket | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      for (;;) {
        if (this.#at === this.#chunk.length) {
          const chunk = this.#waiting.shift();
          if (chunk === undefined) return undefined;
          this.#chunk = chunk;
          this.#at = 0;
        }
        const packet = this.#parts.length === 0 ? this.#readWhole() : this.#readParts();
        if (packet !== undefined) return packet;
      }
    } catch (error) {
      this.#failure = error instanceof RemoteProtocolError ? error : malformed(String(error));
      this.#chunk = EMPTY;
      this.#at = 0;
      this.#waiting = [];
      this.#parts = [];
      this.#have = 0;
      throw this.#failure;
    }
  }

  #readWhole(): ServerPacket | undefined {
    const chunk = this.#chunk;
    const start = this.#at;
    const size = this.#frameSize(chunk, start);
    if (size === 0 || start + size > chunk.length) {
      this.#parts.push(chunk.subarray(start));
      this.#have = chunk.length - start;
      this.#need = size;
      this.#at = chunk.length;
      return undefined;
    }
    this.#at = start + size;
    return this.#decode(chunk, start, start + size);
  }

  #readParts(): ServerPacket | undefined {
    if (this.#need === 0) {
      // At most four bytes are here: the header goes on in this chunk.
      const head = Buffer.concat([...this.#parts, this.#chunk.subarray(this.#at, this.#at + 5 - this.#have)]);
      this.#at += head.length - this.#have;
      this.#parts = [head];
      this.#have = head.length;
      this.#need = this.#frameSize(head, 0);
      if (this.#need === 0) return undefined;
      if (this.#have > this.#need) {
        // The packet is shorter than what was taken for its header.
        this.#at -= this.#have - this.#need;
        this.#parts = [head.subarray(0, this.#need)];
        this.#have = this.#need;
      }
    }
    if (this.#have < this.#need) {
      const part = this.#chunk.subarray(this.#at, this.#at + this.#need - this.#have);
      this.#at += part.length;
      this.#parts.push(part);
      this.#have += part.length;
      if (this.#have < this.#need) return undefined;
    }
    const frame = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts, this.#need);
    this.#parts = [];
    this.#have = 0;
    this.#need = 0;
    return this.#decode(frame, 0, frame.length);
  }

  /** The size of the packet that starts at `start`, or 0 while its fixed header is not complete. Checks the header. */
  #frameSize(buffer: Buffer, start: number): number {
    const first = buffer[start];
    if ((first & 0xf0) !== 0x30 && FLAGS[first >> 4] !== (first & 0x0f)) {
      throw FLAGS[first >> 4] < 0
        ? protocolError(`packet type ${first >> 4} is not one a server sends`)
        : malformed(`flags ${first & 0x0f} in packet type ${first >> 4}`);
    }
    let length = 0;
    for (let index = 1; index <= 4; index += 1) {
      if (start + index >= buffer.length) return 0;
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
/** Flags that a server's packet of each type has (PUBLISH is checked by its decoder); -1: not one a server sends. */
const FLAGS = [-1, -1, 0, 0, 0, 0, 2, 0, -1, 0, -1, 0, -1, 0, 0, 0];
