import { MessageTooLargeError, TransportError, isTransportError } from '../../errors.js';
import { BatchContainer, type BatchLimits } from './batch.js';
import { OpState, type SealedFrame, type SendOp } from './send-op.js';

/** What all frames of a link have in common. */
export interface FrameSourceInfo {
  readonly producerId: number;
  readonly producerName: string;
  /** Milliseconds since 1970. */
  readonly publishTime: number;
  readonly schemaVersion: Uint8Array | undefined;
  readonly maxMessageSize: number;
}

/** Bytes of frames: the codec's, or a test's. May throw; then nothing was made. */
export interface FrameCodec<M> {
  /** `sequenceIds[i]` belongs to `messages[i]` and ascends. */
  batch(source: FrameSourceInfo, messages: readonly { readonly message: M }[], sequenceIds: readonly number[]): Buffer;
  single(source: FrameSourceInfo, message: M, sequenceId: number): Buffer;
  /** One frame, or the chunks of a message that does not fit into one; at most `maxChunks`. */
  chunks(source: FrameSourceInfo, message: M, sequenceId: number, maxChunks: number): Buffer[];
  /** What messages of one key-based batch have in common; messages without a key share the empty one. */
  batchKey(message: M): string;
}

export interface FrameMakerConfig {
  readonly producerId: number;
  /** undefined: no batching. */
  readonly batching: (BatchLimits & { readonly keyBased: boolean }) | undefined;
  /** The id before the first one. */
  readonly initialSequenceId: number;
  /** Bytes of one chunk; undefined: chunking is off. 0: as large as the broker accepts. */
  readonly chunkBytes: number | undefined;
  readonly maxPendingMessages: number;
}

/** Made frames and failed messages, in order. */
export interface FrameSink<O extends SendOp> {
  frame(frame: SealedFrame<O>): void;
  failed(op: O, error: TransportError): void;
}

/**
 * Turns accepted messages into frames, in order: a message that cannot join the open batch seals it first. Sequence ids are
 * given here and nowhere else.
 */
export class FrameMaker<O extends SendOp> {
  /** Valid from the first link on; see `linkUp`. */
  producerName = '';
  private schemaVersion: Uint8Array | undefined = undefined;
  private maxMessageSize = 0;
  /** The last id the broker knew at the last link-up. */
  brokerLast = -1;
  /** Own ids are larger than this. */
  private ownFloor = -1;
  private lastSequenceId: number;
  /** The last id once the open batches are sealed. */
  private expectedLast: number;
  /** The open batch holds ids that the broker has already: those it will drop must not take new ones with them. */
  private openIsKnown = false;

  private readonly container: BatchContainer<O> | undefined;

  constructor(
    private readonly config: FrameMakerConfig,
    private readonly codec: FrameCodec<O['message']>,
    private readonly sink: FrameSink<O>,
  ) {
    this.lastSequenceId = config.initialSequenceId;
    this.expectedLast = config.initialSequenceId;
    if (config.batching !== undefined) {
      this.container = new BatchContainer(
        config.batching,
        config.batching.keyBased ? (message) => codec.batchKey(message) : undefined,
      );
    }
  }

  /** Messages in open batches. */
  get openCount(): number {
    return this.container?.count ?? 0;
  }

  /** The open batches are large enough to be worth a frame though others are under way. */
  get openIsSizeable(): boolean {
    return this.container?.sizeable ?? false;
  }

  openMessages(): Iterable<O> {
    return this.container?.messages() ?? [];
  }

  linkUp(info: {
    readonly producerName: string;
    readonly lastSequenceId: number;
    readonly schemaVersion: Uint8Array | undefined;
    readonly maxMessageSize: number;
  }): void {
    this.producerName = info.producerName;
    this.schemaVersion = info.schemaVersion;
    this.maxMessageSize = info.maxMessageSize;
    this.brokerLast = info.lastSequenceId;
    this.container?.linkUp(info.maxMessageSize);
    // Ids by the caller may repeat what the broker has; ours never do.
    this.ownFloor = Math.max(this.ownFloor, info.lastSequenceId);
  }

  /** Takes the next message, in order. */
  add(op: O, publishTime: number): void {
    const { givenId } = op;
    if (givenId !== undefined && givenId <= this.expectedLast) {
      this.sink.failed(op, notAscending(givenId, this.expectedLast));
      return;
    }
    this.place(op, publishTime);
    this.expectedLast = givenId ?? Math.max(this.expectedLast, this.ownFloor) + 1;
  }

  remove(op: O): void {
    this.container?.remove(op);
  }

  /** Makes frames of all open batches. */
  seal(publishTime: number): void {
    if (this.container === undefined || this.container.count === 0) return;
    for (const batch of this.container.take()) if (!this.batch(batch, publishTime)) this.oneByOne(batch, publishTime);
  }

  private batch(ops: O[], publishTime: number): boolean {
    const before = this.lastSequenceId;
    const ids = ops.map((op) => this.nextId(op));
    let bytes: Buffer;
    try {
      bytes = this.codec.batch(this.source(publishTime), ops, ids);
    } catch {
      this.lastSequenceId = before;
      return false;
    }
    for (let index = 0; index < ops.length; index++) ops[index].sequenceId = ids[index]!;
    this.emit(bytes, ids[0], ids.at(-1)!, ops, true, undefined);
    return true;
  }

  /** One message that cannot be encoded must not fail those it shares a batch with. */
  private oneByOne(ops: readonly O[], publishTime: number): void {
    for (const op of ops) this.single(op, publishTime);
  }

  private place(op: O, publishTime: number): void {
    const { container } = this;
    // More than one permit: it is larger than a chunk may be, whatever a batch may hold.
    if (container === undefined || op.alone || op.permits > 1) {
      this.seal(publishTime);
      this.single(op, publishTime);
      return;
    }
    const known = op.givenId !== undefined && op.givenId <= this.brokerLast;
    if (container.count > 0 && known !== this.openIsKnown) this.seal(publishTime);
    if (!container.tryAdd(op)) {
      this.seal(publishTime);
      if (!container.tryAdd(op)) {
        // Larger than a batch may be: an entry of its own.
        this.single(op, publishTime);
        return;
      }
    }
    this.openIsKnown = known;
    op.state = OpState.batched;
    if (container.full) this.seal(publishTime);
  }

  private single(op: O, publishTime: number): void {
    const before = this.lastSequenceId;
    const id = this.nextId(op);
    const source = this.source(publishTime);
    let frames: readonly Buffer[];
    try {
      frames =
        op.permits > 1
          ? this.codec.chunks(source, op.message, id, this.config.maxPendingMessages)
          : [this.codec.single(source, op.message, id)];
    } catch (error) {
      this.lastSequenceId = before;
      this.sink.failed(op, encodingError(error));
      return;
    }
    op.sequenceId = id;
    // All chunks have one sequence id, as the broker's deduplication and the consumers expect.
    const stored: { ledgerId: number; entryId: number }[] = [];
    const whole = { refused: false };
    const count = frames.length;
    frames.forEach((bytes, index) =>
      this.emit(bytes, id, id, [op], false, count === 1 ? undefined : { index, count, stored, whole }),
    );
  }

  private emit(
    bytes: Buffer,
    sequenceId: number,
    highestSequenceId: number,
    ops: O[],
    batch: boolean,
    chunk: SealedFrame<O>['chunk'],
  ): void {
    for (const op of ops) op.state = OpState.sealed;
    this.sink.frame({
      bytes,
      sequenceId,
      highestSequenceId,
      ops,
      batch,
      chunk,
      bodySize: bodySize(bytes),
      live: ops.length,
      writes: 0,
      refusals: 0,
      doubtful: false,
      dropped: false,
    });
  }

  private nextId(op: O): number {
    const id = op.givenId ?? Math.max(this.lastSequenceId, this.ownFloor) + 1;
    this.lastSequenceId = id;
    return id;
  }

  private source(publishTime: number): FrameSourceInfo {
    const { producerName, schemaVersion, maxMessageSize } = this;
    return { producerId: this.config.producerId, producerName, publishTime, schemaVersion, maxMessageSize };
  }
}

/** Metadata and payload of a SEND frame: [total u32][command length u32][command][magic u16][crc u32][metadata length u32]... */
export function bodySize(frame: Buffer): number {
  return frame.length - 8 - frame.readUInt32BE(4) - 10;
}

export function tooLarge(size: number, limit: number): MessageTooLargeError {
  return new MessageTooLargeError(
    `The message needs ${size} bytes with its metadata; the broker accepts ${limit} (maxMessageSize)`,
    size,
    limit,
  );
}

function notAscending(given: number, last: number): TransportError {
  return new TransportError(
    'ERR_SEQUENCE',
    `The sequence id ${given} is not larger than ${last}, the last one of this producer: ids must ascend`,
  );
}

function encodingError(error: unknown): TransportError {
  if (isTransportError(error)) return error;
  return new TransportError('ERR_SERIALIZATION', 'The message could not be encoded', { cause: error });
}
