import { type TransportError } from '../../errors.js';

/** Where a message is. Before `sealed` nothing of it was written. */
export const OpState = {
  /** In the inbox. */
  submitted: 0,
  /** Waits for a permit or for memory. */
  waiting: 1,
  /** Has them; not in a batch. */
  accepted: 2,
  /** In an open batch. */
  batched: 3,
  /** In a frame, written at least once. */
  sealed: 4,
  settled: 5,
} as const;
export type OpState = (typeof OpState)[keyof typeof OpState];

/**
 * One message from the call to its outcome. The core only knows these traits of it; the frame codec looks into `message`,
 * and drivers extend the class with what they need to tell the outcome.
 */
export class SendOp<M = unknown> {
  readonly kind = 'send';
  state: OpState = OpState.submitted;
  /** The caller took it back; the inbox knows. */
  cancelled = false;
  /** It is not acceptable: fails in its turn. */
  problem: TransportError | undefined = undefined;
  /** Position in the order of calls. */
  ordinal = 0;
  /** Permits it holds: 1, or one a chunk. */
  permits = 1;
  /** Given when it is sealed. */
  sequenceId = -1;

  constructor(
    readonly message: M,
    /** Bytes of payload, key and properties as they are encoded. */
    readonly size: number,
    /** An id given by the caller. */
    readonly givenId: number | undefined,
    /** Must be an entry of its own (delayed, restricted replication, or asked for). */
    readonly alone: boolean,
    /** When the caller submitted it; only looked at with a send timeout. */
    readonly submittedAt: number,
  ) {}

  /** What the memory limit counts: the message and a fixed share for the objects around it. */
  get bytes(): number {
    return this.size + OBJECT_BYTES;
  }
}

/** About what one pending message costs beside its own bytes. */
const OBJECT_BYTES = 200;

/** One SEND frame. Its bytes never change after it was made. */
export interface SealedFrame<O extends SendOp = SendOp> {
  readonly bytes: Buffer;
  readonly sequenceId: number;
  /** Equal to `sequenceId` if it is no batch. */
  readonly highestSequenceId: number;
  /** Its messages by index; `undefined` where one was settled before the frame (a send timeout). */
  readonly ops: (O | undefined)[];
  readonly batch: boolean;
  /** Set for a chunk of a larger message. */
  readonly chunk: ChunkPlace | undefined;
  /** Metadata and payload: what the broker's message size limit is about. */
  readonly bodySize: number;
  /** Messages without an outcome. */
  live: number;
  /** Connections it was written on. */
  writes: number;
  /** Connections on which the broker refused it, so that it was not stored by that write. */
  refusals: number;
  /** The link was left because of a refusal, and it is not known whether this frame was refused too. */
  doubtful: boolean;
  /** On this connection the broker has said already that deduplication dropped it; frames before it wait for theirs. */
  dropped: boolean;
}

export interface ChunkPlace {
  readonly index: number;
  readonly count: number;
  /** Of the whole message: where its chunks were stored. */
  readonly stored: { ledgerId: number; entryId: number }[];
  /** Of the whole message: the broker refused one of its chunks once. It names the message, not the chunk. */
  readonly whole: { refused: boolean };
}

/** An outcome for the driver to pass on, in order. */
export type Settlement<O extends SendOp = SendOp> =
  | { readonly kind: 'stored'; readonly frame: SealedFrame<O>; readonly ledgerId: number; readonly entryId: number }
  | { readonly kind: 'deduplicated'; readonly op: O }
  | { readonly kind: 'failed'; readonly op: O; readonly error: TransportError }
  | { readonly kind: 'flushed'; readonly token: unknown; readonly error: TransportError | undefined };

/** The broker has refused it; of a chunk nobody can say which one of its message it was. */
export function markRefused(frame: SealedFrame): void {
  frame.refusals += 1;
  if (frame.chunk !== undefined) frame.chunk.whole.refused = true;
}
