import { Fifo } from './fifo.js';
import { type SealedFrame, type SendOp } from './send-op.js';

/** The frames without a receipt, in the order they were sealed, which is the order they are written in on every link. */
export class PendingQueue<O extends SendOp> {
  private readonly frames = new Fifo<SealedFrame<O>>();

  get length(): number {
    return this.frames.length;
  }

  get head(): SealedFrame<O> | undefined {
    return this.frames.peek();
  }

  push(frame: SealedFrame<O>): void {
    this.frames.push(frame);
  }

  shift(): void {
    this.frames.shift();
  }

  /**
   * The frame a SEND_ERROR is about. Of a batch the broker names the highest id there, in a receipt the lowest; the oldest
   * chunk stands for its message.
   */
  find(sequenceId: number): SealedFrame<O> | undefined {
    for (const frame of this.frames) {
      if (frame.sequenceId === sequenceId || frame.highestSequenceId === sequenceId) return frame;
    }
    return undefined;
  }

  /** The youngest frame with this id: of a message in chunks, the last one. */
  findLast(sequenceId: number): SealedFrame<O> | undefined {
    for (let index = this.frames.length - 1; index >= 0; index--) {
      const frame = this.frames.at(index)!;
      if (frame.sequenceId === sequenceId) return frame;
    }
    return undefined;
  }

  /** Of the link that is gone; on the next one every frame is answered again. */
  forgetDropped(): void {
    for (const frame of this.frames) frame.dropped = false;
  }

  /** Frames after `frame` that are under way too. */
  hasAfter(frame: SealedFrame<O>): boolean {
    return this.frames.at(this.frames.length - 1) !== frame;
  }

  /** All but `frame` may have been refused as well; until the broker has told all it has to tell of the link. */
  doubtAllBut(frame: SealedFrame<O>): void {
    for (const other of this.frames) if (other !== frame) other.doubtful = true;
  }

  clearDoubts(): void {
    for (const frame of this.frames) frame.doubtful = false;
  }

  remove(frame: SealedFrame<O>): void {
    if (this.frames.peek() === frame) this.frames.shift();
    else this.frames.remove(frame);
  }

  drain(): SealedFrame<O>[] {
    return this.frames.drain();
  }

  [Symbol.iterator](): IterableIterator<SealedFrame<O>> {
    return this.frames[Symbol.iterator]();
  }
}
