import { type SendOp } from './send-op.js';

export interface BatchLimits {
  readonly maxMessages: number;
  /** Of payloads, keys and properties, before compression. */
  readonly maxBytes: number;
}

/**
 * The open batches of one producer: a single one, or one a key. It is full as a whole, so that a key with few messages does
 * not wait for ever behind one with many. Entries are encoded when a batch is sealed: until then messages can leave it.
 */
export class BatchContainer<O extends SendOp> {
  /** Messages in all open batches. */
  count = 0;
  private size = 0;
  private maxBytes: number;
  /**
   * By key. Replaced, never cleared: the engine links the table of a cleared Map to the next one, so that once one has grown
   * old every batch after it stays alive until the next full collection.
   */
  private open = new Map<string, O[]>();

  constructor(
    private readonly config: BatchLimits,
    /** undefined: one batch for all. */
    private readonly keyOf: ((message: O['message']) => string) | undefined,
  ) {
    this.maxBytes = config.maxBytes;
  }

  /** A batch must fit into one frame of the broker, with its metadata. */
  linkUp(maxMessageSize: number): void {
    this.maxBytes = Math.min(this.config.maxBytes, maxMessageSize - Math.min(METADATA_ROOM, maxMessageSize / 4));
  }

  get full(): boolean {
    return this.count >= this.config.maxMessages || this.size >= this.maxBytes;
  }

  /** An eighth of what it may hold. */
  get sizeable(): boolean {
    return this.count * 8 >= this.config.maxMessages || this.size * 8 >= this.maxBytes;
  }

  /** False: it does not fit beside what is in there (seal first), or is too large for any batch. */
  tryAdd(op: O): boolean {
    if (this.count > 0 ? this.size + op.size > this.maxBytes : op.size > this.maxBytes) return false;
    const key = this.keyOf === undefined ? '' : this.keyOf(op.message);
    const batch = this.open.get(key);
    if (batch !== undefined) {
      // With ids by the caller, batches of several keys must not be open at once: see below.
      if (op.givenId !== undefined && this.open.size > 1) return false;
      batch.push(op);
    } else {
      if (this.open.size > 0 && this.idsWouldOverlap(op)) return false;
      this.open.set(key, [op]);
    }
    this.count += 1;
    this.size += op.size;
    return true;
  }

  /** Takes a message out again before its batch is sealed. */
  remove(op: O): void {
    for (const [key, batch] of this.open) {
      const index = batch.indexOf(op);
      if (index < 0) continue;
      batch.splice(index, 1);
      if (batch.length === 0) this.open.delete(key);
      this.count -= 1;
      this.size -= op.size;
      return;
    }
  }

  /** All batches in the order of their first message, taken out. */
  take(): O[][] {
    const all = [...this.open.values()];
    this.open = new Map();
    this.count = 0;
    this.size = 0;
    return all;
  }

  *messages(): IterableIterator<O> {
    for (const batch of this.open.values()) yield* batch;
  }

  /**
   * Ids given by the caller would interleave between the batches of several keys, and a broker with deduplication drops a
   * whole batch whose first id is not larger than the last one it has seen. Own ids are given batch by batch.
   */
  private idsWouldOverlap(op: O): boolean {
    if (op.givenId !== undefined) return true;
    for (const batch of this.open.values()) if (batch[0].givenId !== undefined) return true;
    return false;
  }
}

const METADATA_ROOM = 16 * 1024;
