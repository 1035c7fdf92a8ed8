/** Pulsar's frames: [total u32][command length u32][command], then for payload commands [0x0e01][crc32c][metadata][payload]. */
import { MalformedError } from '../connection.js';
import { crc32c } from './crc32c.js';
import { decodeCommand, encodeCommand, encodeMetadata, type Plain } from './proto.js';

const MAGIC_CHECKSUM = 0x0e01;

/** One frame from a client. */
export interface Frame {
  readonly type: string;
  readonly body: Plain;
  /** What follows the command: the checksummed part of a SEND, else empty. */
  readonly tail: Buffer;
  readonly bytes: Buffer;
}

/** The client sent bytes that are no frame. */
export class MalformedFrameError extends MalformedError {}

export class FrameSplitter {
  private buffered: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
  }

  /**
   * The next whole frame.
   *
   * @param maxFrameSize in bytes, without the first length field
   * @throws MalformedFrameError
   */
  next(maxFrameSize: number): Frame | undefined {
    if (this.buffered.length < 4) return undefined;
    const total = this.buffered.readUInt32BE(0);
    if (total > maxFrameSize) {
      throw new MalformedFrameError(
        `frame of ${total} bytes, allowed are ${maxFrameSize}`,
        this.buffered.subarray(0, 4),
      );
    }
    if (this.buffered.length < 4 + total) return undefined;
    const bytes = this.buffered.subarray(0, 4 + total);
    this.buffered = this.buffered.subarray(4 + total);
    const commandLength = total >= 4 ? bytes.readUInt32BE(4) : 0;
    if (total < 4 || commandLength > total - 4)
      throw new MalformedFrameError('command is longer than its frame', bytes);
    try {
      const { type, body } = decodeCommand(bytes.subarray(8, 8 + commandLength));
      return { type, body, tail: bytes.subarray(8 + commandLength), bytes };
    } catch (error) {
      throw new MalformedFrameError((error as Error).message, bytes);
    }
  }
}

/** The checksummed part of a SEND or MESSAGE in its pieces. */
export interface PayloadParts {
  readonly metadata: Buffer;
  readonly payload: Buffer;
  readonly checksumValid: boolean;
}

/** @throws Error if the parts do not fill `tail` exactly */
export function readPayload(tail: Buffer): PayloadParts {
  if (tail.length < 10 || tail.readUInt16BE(0) !== MAGIC_CHECKSUM)
    throw new Error('payload without a checksum (0x0e01)');
  const metadataLength = tail.readUInt32BE(6);
  if (metadataLength > tail.length - 10) throw new Error('metadata is longer than its frame');
  return {
    metadata: tail.subarray(10, 10 + metadataLength),
    payload: tail.subarray(10 + metadataLength),
    checksumValid: tail.readUInt32BE(2) === crc32c(tail.subarray(6)),
  };
}

/** A frame without payload. */
export function encodeSimple(type: string, body: object): Buffer {
  return withLengths(encodeCommand(type, body), Buffer.alloc(0));
}

/** A frame with payload, its checksum computed; `metadata` as an object or already encoded. */
export function encodeWithPayload(type: string, body: object, metadata: object | Buffer, payload: Uint8Array): Buffer {
  return withLengths(encodeCommand(type, body), payloadTail(metadata, payload));
}

/** A frame with a tail taken over as it is, for example a stored entry. */
export function encodeWithTail(type: string, body: object, tail: Buffer): Buffer {
  return withLengths(encodeCommand(type, body), tail);
}

export function payloadTail(metadata: object | Buffer, payload: Uint8Array): Buffer {
  const encoded = Buffer.isBuffer(metadata) ? metadata : encodeMetadata(metadata);
  const tail = Buffer.concat([Buffer.alloc(10), encoded, payload]);
  tail.writeUInt16BE(MAGIC_CHECKSUM, 0);
  tail.writeUInt32BE(encoded.length, 6);
  tail.writeUInt32BE(crc32c(tail.subarray(6)), 2);
  return tail;
}

function withLengths(command: Buffer, tail: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(4 + command.length + tail.length, 0);
  head.writeUInt32BE(command.length, 4);
  return Buffer.concat([head, command, tail]);
}
