import { type FrameCodec, type FrameSourceInfo } from '../../../lib/pulsar/protocol/frame-maker.js';

/** A message of the model: its number, a size to pad to, its batch key. */
export interface ModelMessage {
  readonly id: number;
  readonly size: number;
  readonly key: string;
  /** The encoder refuses it. */
  readonly poison: boolean;
}

export interface ModelFrame {
  readonly ids: number[];
  readonly sequenceIds: number[];
  readonly chunk?: { readonly index: number; readonly count: number };
}

const HEADER = 18;

/** Frames with the layout the core relies on ([total][command length] and ten bytes between command and body), body JSON. */
export class ModelCodec implements FrameCodec<ModelMessage> {
  batch(
    source: FrameSourceInfo,
    messages: readonly { readonly message: ModelMessage }[],
    sequenceIds: readonly number[],
  ): Buffer {
    return this.frame(
      source,
      messages.map(({ message }) => message),
      sequenceIds,
    );
  }

  single(source: FrameSourceInfo, message: ModelMessage, sequenceId: number): Buffer {
    return this.frame(source, [message], [sequenceId]);
  }

  chunks(source: FrameSourceInfo, message: ModelMessage, sequenceId: number, maxChunks: number): Buffer[] {
    const count = Math.max(2, Math.ceil(message.size / CHUNK));
    if (count > maxChunks) throw new Error(`${count} chunks`);
    return Array.from({ length: count }, (_, index) =>
      this.frame(source, [{ ...message, size: CHUNK }], [sequenceId], { index, count }),
    );
  }

  batchKey(message: ModelMessage): string {
    return message.key;
  }

  private frame(
    source: FrameSourceInfo,
    messages: readonly ModelMessage[],
    sequenceIds: readonly number[],
    chunk?: ModelFrame['chunk'],
  ): Buffer {
    if (messages.some(({ poison }) => poison)) throw new Error('poison');
    const size = messages.reduce((sum, message) => sum + message.size, 0);
    if (size > source.maxMessageSize) throw new Error('too large');
    const frame: ModelFrame = {
      ids: messages.map(({ id }) => id),
      sequenceIds: [...sequenceIds],
      ...(chunk && { chunk }),
    };
    const body = Buffer.from(JSON.stringify(frame));
    const bytes = Buffer.alloc(HEADER + Math.max(body.length, size), ' ');
    bytes.writeUInt32BE(bytes.length - 4, 0);
    bytes.writeUInt32BE(0, 4);
    body.copy(bytes, HEADER);
    return bytes;
  }
}

/** Room of one chunk of the model. */
export const CHUNK = 1000;

export function readFrame(bytes: Buffer): ModelFrame {
  return JSON.parse(bytes.toString('utf8', HEADER)) as ModelFrame;
}
