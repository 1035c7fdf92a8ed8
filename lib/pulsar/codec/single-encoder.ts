/** SEND frames of one message each, or of the chunks of one. Every frame is a fresh buffer that nobody writes to again. */
import { MessageTooLargeError } from '../../errors.js';
import { type MetadataFields, writeMessageMetadata } from './message-metadata.js';
import { ProtoWriter } from './proto-writer.js';
import { checkSize, completeFrame, headerSize } from './send-frame.js';
import { type ChunkInfo, type EncodableMessage, type FrameSource } from './send-types.js';

/** @throws MessageTooLargeError if metadata and payload exceed `source.maxMessageSize` */
export function encodeSingle(source: FrameSource, message: EncodableMessage, sequenceId: number): Buffer {
  const { payload, uncompressedSize } = compressed(source, message);
  return encodeFrame(source, message, sequenceId, payload, uncompressedSize);
}

/**
 * The frames of a message, several if it does not fit into one: all with its sequence id, each with a receipt of its own.
 *
 * @param uuid names the message among those of the topic; other clients take producer name and sequence id
 * @throws MessageTooLargeError if not even the metadata fits, or if there would be more than `maxChunks`
 */
export function encodeChunks(
  source: FrameSource,
  message: EncodableMessage,
  sequenceId: number,
  options: { readonly uuid: string; readonly maxChunks: number; readonly maxChunkSize?: number },
): Buffer[] {
  const { payload, uncompressedSize } = compressed(source, message);
  const limit = Math.min(source.maxMessageSize ?? Infinity, options.maxChunkSize ?? Infinity);
  const overhead = source.encryption?.overhead ?? 0;
  const totalSize = payload.length;
  const plain = metadataSize({ source, sequenceId, message, uncompressedSize });
  if (plain + overhead + totalSize <= limit)
    return [encodeFrame(source, message, sequenceId, payload, uncompressedSize)];

  // The metadata of the widest chunk decides for all.
  const widest = { uuid: options.uuid, id: totalSize, count: totalSize, totalSize };
  const room = limit - overhead - metadataSize({ source, sequenceId, message, uncompressedSize, chunk: widest });
  if (room < 1) throw new MessageTooLargeError('The metadata alone exceeds the size of a chunk', plain, limit);
  const count = Math.ceil(totalSize / room);
  if (count > options.maxChunks) {
    throw new MessageTooLargeError(
      `The message needs ${count} chunks, at most ${options.maxChunks} are allowed`,
      plain + totalSize,
      room * options.maxChunks,
    );
  }
  return Array.from({ length: count }, (_, id) =>
    encodeFrame(source, message, sequenceId, payload.subarray(id * room, (id + 1) * room), uncompressedSize, {
      uuid: options.uuid,
      id,
      count,
      totalSize,
    }),
  );
}

/** Never handed out: the frame gets a copy. */
const scratch = new ProtoWriter(1024);

function encodeFrame(
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
function metadataSize(fields: MetadataFields): number {
  scratch.at = 0;
  writeMessageMetadata(scratch, fields);
  return scratch.at;
}

function compressed(
  source: FrameSource,
  message: EncodableMessage,
): { payload: Uint8Array; uncompressedSize: number | undefined } {
  const payload = message.payload ?? EMPTY;
  if (source.compression === undefined) return { payload, uncompressedSize: undefined };
  return {
    payload: source.compression.compress(Buffer.from(payload.buffer, payload.byteOffset, payload.length)),
    uncompressedSize: payload.length,
  };
}

const EMPTY = Buffer.alloc(0);
