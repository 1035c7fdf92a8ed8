/**
 * The frame of a SEND: `[total u32][length u32][BaseCommand][0x0e01][crc32c u32][length u32][MessageMetadata][payload]`,
 * the checksum over everything after it.
 */
import { MessageTooLargeError } from '../../errors.js';
import { crc32c } from './crc32c.js';
import { MAGIC_CRC32C } from './constants.js';
import { type ProtoWriter, varintSize, writeVarint } from './proto-writer.js';

export interface SendCommand {
  readonly producerId: number;
  readonly sequenceId: number;
  /** Only for a batch. */
  readonly batch?: { readonly count: number; readonly highestSequenceId: number };
  readonly isChunk: boolean;
}

/** Bytes before the payload. */
export function headerSize(command: SendCommand, metadataSize: number): number {
  return 8 + 4 + sendSize(command) + 6 + 4 + metadataSize;
}

/**
 * Completes the frame that begins at `start` and whose payload is in place up to `end`: everything before the payload, then
 * the checksum. `metadata` holds the encoded metadata from 0 on.
 */
export function completeFrame(
  buffer: Buffer,
  start: number,
  end: number,
  command: SendCommand,
  metadata: ProtoWriter,
): void {
  const size = sendSize(command);
  let at = putUInt32(buffer, start, end - start - 4);
  at = putUInt32(buffer, at, 4 + size);
  at = writeSend(buffer, at, command, size);
  buffer[at] = MAGIC_CRC32C >>> 8;
  buffer[at + 1] = MAGIC_CRC32C & 0xff;
  const checksum = at + 2;
  at = putUInt32(buffer, checksum + 4, metadata.at);
  metadata.buffer.copy(buffer, at, 0, metadata.at);
  putUInt32(buffer, checksum, crc32c(buffer, checksum + 4, end));
}

/** @throws MessageTooLargeError: a broker neither stores nor refuses what is a little too large, so it is not sent */
export function checkSize(metadataSize: number, payloadSize: number, limit: number | undefined): void {
  const size = metadataSize + payloadSize;
  if (limit === undefined || size <= limit) return;
  throw new MessageTooLargeError(
    `The message takes ${size} bytes with its metadata, the broker's limit is ${limit}`,
    size,
    limit,
  );
}

export function putUInt32(buffer: Uint8Array, at: number, value: number): number {
  buffer[at] = value >>> 24;
  buffer[at + 1] = value >>> 16;
  buffer[at + 2] = value >>> 8;
  buffer[at + 3] = value;
  return at + 4;
}

/** Size of CommandSend: its length takes one byte in any case. */
function sendSize({ producerId, sequenceId, batch, isChunk }: SendCommand): number {
  let size = 2 + varintSize(producerId) + varintSize(sequenceId);
  if (batch !== undefined) size += 2 + varintSize(batch.count) + varintSize(batch.highestSequenceId);
  return isChunk ? size + 2 : size;
}

function writeSend(buffer: Buffer, start: number, command: SendCommand, size: number): number {
  let at = start;
  buffer[at++] = 0x08;
  buffer[at++] = SEND;
  buffer[at++] = (SEND << 3) | 2;
  buffer[at++] = size;
  buffer[at] = 0x08;
  at = writeVarint(buffer, at + 1, command.producerId);
  buffer[at] = 0x10;
  at = writeVarint(buffer, at + 1, command.sequenceId);
  if (command.batch !== undefined) {
    buffer[at] = 0x18;
    at = writeVarint(buffer, at + 1, command.batch.count);
    buffer[at] = 0x30;
    at = writeVarint(buffer, at + 1, command.batch.highestSequenceId);
  }
  if (command.isChunk) {
    buffer[at] = 0x38;
    buffer[at + 1] = 1;
    at += 2;
  }
  return at;
}

/** Both `BaseCommand.type` and the number of its field. */
const SEND = 6;
