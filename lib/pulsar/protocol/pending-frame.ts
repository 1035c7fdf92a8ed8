import { type SendOp } from './send-op.js';

/** A sealed SEND frame: its bytes do not change once they were written, its sequence ids never. */
export class PendingFrame {
  /** Generations of the connection it was written on; 0: the broker cannot know it. */
  writes = 0;
  /** The broker answered SEND_ERROR: an earlier write was not stored. */
  refused = false;

  constructor(
    public bytes: Buffer,
    public ops: SendOp[],
  ) {}

  get sequenceId(): number {
    return this.ops[0].sequenceId;
  }

  get highestSequenceId(): number {
    return this.ops[this.ops.length - 1].sequenceId;
  }
}

/** What the sealer needs to know beside the messages. */
export interface FrameInfo {
  readonly producerName: string;
  /** Of the first message. */
  readonly sequenceId: number;
  /** Of the last message. */
  readonly highestSequenceId: number;
  /** Milliseconds since the Unix epoch. */
  readonly publishTime: number;
}

/** Turns messages into the bytes of one SEND frame in a fresh buffer; may throw for what cannot be encoded or is too large. */
export type FrameSealer = (ops: readonly SendOp[], info: FrameInfo) => Buffer;
