/** SEND frames of one message each. Every frame is a fresh buffer that nobody writes to again. */
import { type MetadataFields, writeMessageMetadata } from './message-metadata.js';
import { ProtoWriter } from './proto-writer.js';
import { checkSize, completeFrame, headerSize } from './send-frame.js';
import { type ChunkInfo, type EncodableMessage, type FrameSource } from './send-types.js';

/** @throws MessageTooLargeError if metadata and payload exceed `source.maxMessageSize` */
export function encodeSingle(source: FrameSource, message: EncodableMessage, sequenceId: number): Buffer {
  const { payload, uncompressedSize } = compressed(source, message);
  return encodePayload(source, message, sequenceId, payload, uncompressedSize);
}

/** With the payload, or a chunk of it, compressed already. */
export function encodePayload(
  source: FrameSource,
  message: EncodableMessage,
  sequenceId: number,
  plain: Uint8Array,
  uncompressedSize: number | undefined,
  chunk?: ChunkInfo,
): Buffer {
  const encrypted = source.encryption?.encrypt(plain);
  const payload = encrypted?.payload ?? plain;
  const size = metadataSize({ source, sequenceId, message, uncompressedSize, encrypted, chunk });
  checkSize(size, payload.length, source.maxMessageSize);
  const command = { producerId: source.producerId, sequenceId, isChunk: chunk !== undefined };
  const header = headerSize(command, size);
  const frame = Buffer.allocUnsafe(header + payload.length);
  frame.set(payload, header);
  completeFrame(frame, 0, frame.length, command, scratch);
  return frame;
}

/** Leaves the metadata in the scratch writer. */
export function metadataSize(fields: MetadataFields): number {
  scratch.at = 0;
  writeMessageMetadata(scratch, fields);
  return scratch.at;
}

export function compressed(
  source: FrameSource,
  message: EncodableMessage,
): { payload: Uint8Array; uncompressedSize: number | undefined } {
  const payload = message.payload ?? EMPTY;
  if (source.compression === undefined || payload.length === 0) return { payload, uncompressedSize: undefined };
  return {
    payload: source.compression.compress(Buffer.from(payload.buffer, payload.byteOffset, payload.length)),
    uncompressedSize: payload.length,
  };
}

/** Never handed out: the frame gets a copy. */
const scratch = new ProtoWriter(1024);
const EMPTY = Buffer.alloc(0);
