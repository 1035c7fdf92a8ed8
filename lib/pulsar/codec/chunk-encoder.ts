/** SEND frames of the chunks of one large message. */
import { MessageTooLargeError } from '../../errors.js';
import { compressed, encodePayload, metadataSize } from './single-encoder.js';
import { type EncodableMessage, type FrameSource } from './send-types.js';

export interface ChunkLimits {
  /** The broker's limit for metadata and payload of a frame, in bytes. */
  readonly maxMessageSize: number;
  /** Smaller chunks than the broker's limit asks for: bytes of metadata and payload. */
  readonly maxChunkSize?: number;
  readonly maxChunks?: number;
}

/** A message that is cut into `count` frames, which all have its sequence id and each a receipt of its own. */
export interface ChunkPlan {
  readonly count: number;
  /** The whole frame of one chunk. */
  encode(index: number, source: FrameSource, sequenceId: number): Buffer;
}

/**
 * How to cut the message; undefined if it fits into one frame. Compresses it where the producer does.
 *
 * @param source with the name, compression, encryption and schema version that the frames will have
 * @throws MessageTooLargeError if there would be more than `maxChunks`, or the metadata alone does not fit
 */
export function planChunks(source: FrameSource, message: EncodableMessage, limits: ChunkLimits): ChunkPlan | undefined {
  const limit = Math.min(limits.maxMessageSize, limits.maxChunkSize ?? Infinity) - (source.encryption?.overhead ?? 0);
  const raw = message.payload?.length ?? 0;
  const widest = {
    source,
    message,
    sequenceId: LARGEST,
    compression: source.compression?.type,
    uncompressedSize: raw,
  };
  const plainSize = metadataSize(widest);
  if (plainSize + raw <= limit) return undefined;
  const body = compressed(source, message);
  const { payload } = body;
  const totalSize = payload.length;
  if (plainSize + totalSize <= limit) return undefined;

  const chunk = {
    uuid: chunkUuid(source, LARGEST),
    id: totalSize,
    count: totalSize,
    totalSize,
  };
  const room = limit - metadataSize({ ...widest, chunk });
  if (room < 1) throw new MessageTooLargeError('The metadata alone exceeds the size of a chunk', plainSize, limit);
  const count = Math.ceil(totalSize / room);
  const maxChunks = limits.maxChunks ?? Infinity;
  if (count > maxChunks) {
    const text = `The message needs ${count} chunks, at most ${maxChunks} are allowed`;
    throw new MessageTooLargeError(text, plainSize + totalSize, room * maxChunks);
  }
  return {
    count,
    encode: (index, frame, sequenceId) =>
      encodePayload(frame, message, sequenceId, body, payload.subarray(index * room, (index + 1) * room), {
        uuid: chunkUuid(frame, sequenceId),
        id: index,
        count,
        totalSize,
      }),
  };
}

/** A number no sequence id is wider than. */
const LARGEST = Number.MAX_SAFE_INTEGER;

/** As other clients name it: unique among the messages of a topic. */
const chunkUuid = (source: FrameSource, sequenceId: number): string => `${source.producerName}-${sequenceId}`;
