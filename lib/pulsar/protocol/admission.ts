import { MessageTooLargeError, TransportError } from '../../errors.js';
import { Fifo } from './fifo.js';
import { type MemoryBudget, type MemoryWaiter } from './memory-budget.js';
import { OpState, type SendOp } from './send-op.js';

/**
 * Permits (messages) and memory (bytes): who has them is `accepted`, who has not waits, in order. A chunked message takes
 * one permit a chunk, all or none.
 */
export class Admission<O extends SendOp> {
  /** Permits in use. */
  permits = 0;
  /** Bytes in use. */
  bytes = 0;
  waitingCount = 0;

  private readonly waiting = new Fifo<O>();
  private readonly accepted = new Fifo<O>();
  /** Messages that ended and still stand in one of the lines. */
  private gone = 0;
  /** Known from the first link on. */
  private maxMessageSize = Infinity;

  constructor(
    private readonly config: {
      readonly topic: string;
      readonly maxPendingMessages: number;
      readonly rejectWhenFull: boolean;
      readonly chunkBytes: number | undefined;
      /** Bytes that encryption adds to every chunk. */
      readonly chunkOverhead?: number;
    },
    private readonly budget: MemoryBudget,
    private readonly waiter: MemoryWaiter,
  ) {}

  linkUp(maxMessageSize: number): void {
    this.maxMessageSize = maxMessageSize;
  }

  /** Puts a message in line, or says why not. */
  enter(op: O): TransportError | undefined {
    const { limit } = this.budget;
    if (limit > 0 && op.bytes > limit) {
      return new MessageTooLargeError(
        `The message needs ${op.bytes} bytes; the client's memory limit is ${limit} (memoryLimit)`,
        op.bytes,
        limit,
      );
    }
    if (this.config.rejectWhenFull && this.isFull(op)) {
      return new TransportError(
        'ERR_QUEUE_FULL',
        `'${this.config.topic}': ${this.permits + this.waitingCount} messages are pending (maxPendingMessages, memoryLimit)`,
        { retriable: true },
      );
    }
    op.state = OpState.waiting;
    this.waitingCount += 1;
    this.waiting.push(op);
    return undefined;
  }

  /** Gives permits and memory to those in line as far as they go. Needs a link to have been up: sizes are known then. */
  admit(): void {
    for (;;) {
      const op = this.waiting.peek();
      if (op === undefined) return;
      if (op.state !== OpState.waiting) {
        this.waiting.shift();
        this.gone -= 1;
        continue;
      }
      op.permits = this.permitsFor(op);
      if (this.permits + op.permits > this.config.maxPendingMessages) return;
      if (!this.budget.take(this.waiter, op.bytes)) return;
      this.waiting.shift();
      this.waitingCount -= 1;
      this.permits += op.permits;
      this.bytes += op.bytes;
      op.state = OpState.accepted;
      this.accepted.push(op);
    }
  }

  nextAccepted(): O | undefined {
    for (;;) {
      const op = this.accepted.shift();
      if (op === undefined || op.state === OpState.accepted) return op;
      this.gone -= 1;
    }
  }

  /** Gives back what a message holds; called once, before its state becomes `settled`. */
  release(op: O): void {
    switch (op.state) {
      case OpState.submitted:
      case OpState.settled:
        return;
      case OpState.waiting:
        this.waitingCount -= 1;
        if (this.waitingCount === 0) this.budget.leave(this.waiter);
        return this.leaveLine(op);
      case OpState.accepted:
        this.giveBack(op);
        return this.leaveLine(op);
      case OpState.batched:
      case OpState.sealed:
        return this.giveBack(op);
    }
  }

  /** Accepted and waiting messages, in order. */
  all(): O[] {
    return [...this.accepted, ...this.waiting];
  }

  end(): void {
    this.budget.leave(this.waiter);
  }

  private giveBack(op: O): void {
    this.permits -= op.permits;
    this.bytes -= op.bytes;
    this.budget.release(op.bytes);
  }

  /**
   * Takes out what has ended once that is most of the lines: while no link comes up, messages that time out or are taken
   * back would stay there, payload and all.
   */
  private leaveLine(op: O): void {
    const { waiting, accepted } = this;
    this.gone += 1;
    if (this.gone < FEW || this.gone * 2 < waiting.length + accepted.length) return;
    waiting.retain((other) => other.state === OpState.waiting && other !== op);
    accepted.retain((other) => other.state === OpState.accepted && other !== op);
    this.gone = 0;
  }

  /** Enough for its chunks before compression, but never more than there are: the encoder refuses what needs more. */
  private permitsFor(op: O): number {
    const { chunkBytes, chunkOverhead = 0, maxPendingMessages } = this.config;
    if (chunkBytes === undefined) return 1;
    const limit = chunkBytes === 0 ? this.maxMessageSize : Math.min(chunkBytes, this.maxMessageSize);
    const room = limit - METADATA_ROOM - chunkOverhead;
    if (op.size <= room) return 1;
    return Math.min(maxPendingMessages, Math.max(2, Math.ceil(op.size / Math.max(1, room))));
  }

  private isFull(op: O): boolean {
    if (this.permits + this.waitingCount >= this.config.maxPendingMessages) return true;
    return this.budget.limit > 0 && this.budget.used + op.bytes > this.budget.limit;
  }
}

/** Of a chunk's bytes, what its metadata may take at most as an estimate. */
const METADATA_ROOM = 512;

/** So many are not worth a walk through the lines. */
const FEW = 64;
