/** SEND frames of one message each. Every frame is a fresh buffer that nobody writes to again. */
import { type MetadataFields, writeMessageMetadata } from './message-metadata.js';
import { ProtoWriter } from './proto-writer.js';
import { checkSize, completeFrame, headerSize } from './send-frame.js';
import { type ChunkInfo, type EncodableMessage, type FrameSource } from './send-types.js';

/** @throws MessageTooLargeError if metadata and payload exceed `source.maxMessageSize` */
export function encodeSingle(source: FrameSource, message: EncodableMessage, sequenceId: number): Buffer {
  const body = compressed(source, message);
  return encodePayload(source, message, sequenceId, body, body.payload);
}

/** @param plain the payload in `body`, or a chunk of it */
export function encodePayload(
  source: FrameSource,
  message: EncodableMessage,
  sequenceId: number,
  body: CompressedPayload,
  plain: Uint8Array,
  chunk?: ChunkInfo,
): Buffer {
  const encrypted = source.encryption?.encrypt(plain);
  const payload = encrypted?.payload ?? plain;
  const { compression, uncompressedSize } = body;
  const size = metadataSize({
    source,
    sequenceId,
    message,
    compression,
    uncompressedSize,
    encrypted,
    chunk,
  });
  checkSize(size, payload.length, source.maxMessageSize);
  const command = {
    producerId: source.producerId,
    sequenceId,
    isChunk: chunk !== undefined,
  };
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

export interface CompressedPayload {
  readonly payload: Uint8Array;
  /** `CompressionType`; absent if it is as the message has it. */
  readonly compression?: number;
  readonly uncompressedSize: number;
}

export function compressed({ compression }: FrameSource, message: EncodableMessage): CompressedPayload {
  const payload = message.payload ?? EMPTY;
  const uncompressedSize = payload.length;
  if (compression === undefined || uncompressedSize === 0) return { payload, uncompressedSize };
  const input = Buffer.from(payload.buffer, payload.byteOffset, uncompressedSize);
  return {
    payload: compression.compress(input),
    compression: compression.type,
    uncompressedSize,
  };
}

/** Never handed out: the frame gets a copy. */
const scratch = new ProtoWriter(1024);
const EMPTY = Buffer.alloc(0);
