/** SEND frames of many messages: entries go straight into the buffer that becomes the frame, its header in front of them. */
import { writeMessageMetadata, writeSingleMetadata } from './message-metadata.js';
import { ProtoWriter } from './proto-writer.js';
import { checkSize, completeFrame, headerSize, putUInt32 } from './send-frame.js';
import { type EncodableMessage, type FrameSource } from './send-types.js';

/**
 * Takes messages with `add`, gives their frame with `seal`, and starts anew. The frame is a buffer that nobody writes to
 * again. Sequence ids must ascend.
 */
export class BatchEncoder {
  // valid for ever
  readonly #metadata = new ProtoWriter(512);
  #capacity = 4096;

  // valid for one batch
  #entries: ProtoWriter | undefined;
  #first: EncodableMessage | undefined;
  #count = 0;
  #sequenceId = 0;
  #highestSequenceId = 0;

  get count(): number {
    return this.#count;
  }

  /** Bytes of the entries: payloads with their metadata, before compression. */
  get size(): number {
    return this.#entries === undefined ? 0 : this.#entries.at - HEAD_ROOM;
  }

  add(message: EncodableMessage, sequenceId: number): void {
    const writer = (this.#entries ??= new ProtoWriter(this.#capacity, HEAD_ROOM));
    if (this.#count === 0) {
      writer.at = HEAD_ROOM;
      this.#first = message;
      this.#sequenceId = sequenceId;
    }
    this.#count += 1;
    this.#highestSequenceId = sequenceId;
    const payload = message.payload ?? EMPTY;
    const start = writer.at;
    writer.reserve(64 + payload.length);
    writer.at = start + 4;
    writeSingleMetadata(writer, message, payload.length, sequenceId);
    writer.reserve(payload.length);
    writer.buffer.set(payload, writer.at);
    putUInt32(writer.buffer, start, writer.at - start - 4);
    writer.at += payload.length;
  }

  /** Drops what was added. */
  clear(): void {
    this.#count = 0;
    this.#first = undefined;
    if (this.#entries !== undefined) this.#entries.at = HEAD_ROOM;
  }

  /**
   * @throws MessageTooLargeError if metadata and payload exceed `source.maxMessageSize`
   * @throws RangeError if nothing was added
   */
  seal(source: FrameSource): Buffer {
    const entries = this.#entries;
    const message = this.#first;
    if (entries === undefined || message === undefined) throw new RangeError('An empty batch has no frame');
    const plain = entries.buffer.subarray(HEAD_ROOM, entries.at);
    const batch = {
      count: this.#count,
      highestSequenceId: this.#highestSequenceId,
    };
    const sequenceId = this.#sequenceId;
    this.clear();

    const compressed = source.compression?.compress(plain) ?? plain;
    const encrypted = source.encryption?.encrypt(compressed);
    const payload = encrypted?.payload ?? compressed;
    const uncompressedSize = plain.length;
    const compression = source.compression?.type;
    const metadata = this.#metadata;
    metadata.at = 0;
    writeMessageMetadata(metadata, {
      source,
      sequenceId,
      message,
      batch,
      compression,
      uncompressedSize,
      encrypted,
    });
    checkSize(metadata.at, payload.length, source.maxMessageSize);

    const command = {
      producerId: source.producerId,
      sequenceId,
      batch,
      isChunk: false,
    };
    const header = headerSize(command, metadata.at);
    const size = header + payload.length;
    if (payload === plain && header <= HEAD_ROOM && size * 2 > entries.buffer.length) {
      // The buffer becomes the frame.
      const start = HEAD_ROOM - header;
      completeFrame(entries.buffer, start, start + size, command, metadata);
      this.#entries = undefined;
      this.#capacity = HEAD_ROOM + payload.length + (payload.length >>> 3);
      return entries.buffer.subarray(start, start + size);
    }
    // A small frame would keep a large buffer alive as long as it is pending.
    const frame = Buffer.allocUnsafe(size);
    frame.set(payload, header);
    completeFrame(frame, 0, size, command, metadata);
    return frame;
  }
}

/** Free bytes before the entries: the header of a SEND whose metadata is not unusually long. */
const HEAD_ROOM = 256;
const EMPTY = Buffer.alloc(0);
