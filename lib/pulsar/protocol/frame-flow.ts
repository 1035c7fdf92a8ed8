import { type TransportError } from '../../errors.js';
import { Admission } from './admission.js';
import { type FrameCodec, FrameMaker, type FrameMakerConfig } from './frame-maker.js';
import { type MemoryBudget, type MemoryWaiter } from './memory-budget.js';
import { PendingQueue } from './pending-queue.js';
import { type LinkInfo } from './producer-events.js';
import { OpState, type SealedFrame, type SendOp } from './send-op.js';

export interface FrameFlowConfig extends FrameMakerConfig {
  /** For errors. */
  readonly topic: string;
  readonly rejectWhenFull: boolean;
  /** Bytes that encryption adds to every chunk. */
  readonly chunkOverhead?: number;
  /** Milliseconds that an open batch waits while other frames are under way. */
  readonly batchDelay: number;
}

/** The way of the messages through a producer: line, permits, batches, frames without a receipt, frames to write now. */
export class FrameFlow<O extends SendOp> {
  readonly admission: Admission<O>;
  readonly maker: FrameMaker<O>;
  readonly pending = new PendingQueue<O>();
  /** To write on the current link, in order. */
  readonly writes: SealedFrame<O>[] = [];
  resentFrames = 0;
  /** Until when the open batch may wait. */
  batchDeadline = Infinity;

  /** Make frames of the open batches whatever is under way. */
  private sealNow = false;

  constructor(
    private readonly config: FrameFlowConfig,
    codec: FrameCodec<O['message']>,
    budget: MemoryBudget,
    waiter: MemoryWaiter,
    failed: (op: O, error: TransportError) => void,
  ) {
    this.admission = new Admission(config, budget, waiter);
    this.maker = new FrameMaker(config, codec, { frame: (frame) => this.write(frame), failed });
  }

  seal(): void {
    this.sealNow = true;
  }

  /** Writes what is pending once more. @param tooLarge for a frame that the new broker does not accept */
  linkUp(info: LinkInfo, tooLarge: (frame: SealedFrame<O>, limit: number) => void): void {
    this.maker.linkUp(info);
    this.admission.linkUp(info.maxMessageSize);
    for (const frame of [...this.pending]) {
      if (frame.ops[0]?.state === OpState.settled) continue;
      if (frame.bodySize > info.maxMessageSize) tooLarge(frame, info.maxMessageSize);
      else this.writeAgain(frame);
    }
  }

  /** The link went in the step that wrote: what the driver has not taken was never written. */
  linkDown(): void {
    for (const frame of this.writes) frame.writes -= 1;
    this.writes.length = 0;
    this.pending.forgetDropped();
    this.batchDeadline = Infinity;
  }

  /** Gives permits; until the next link nothing more can happen. */
  wait(): void {
    this.admission.admit();
  }

  /** Gives permits and makes frames, after all inputs of a step were taken: the only place where frames are made. */
  pump(now: number, wallTime: number): void {
    this.admission.admit();
    const { admission, maker } = this;
    for (let op = admission.nextAccepted(); op !== undefined; op = admission.nextAccepted()) maker.add(op, wallTime);
    if (maker.openCount === 0) {
      this.batchDeadline = Infinity;
      return;
    }
    this.batchDeadline = Math.min(this.batchDeadline, now + this.config.batchDelay);
    if (this.sealNow || this.worthwhile || now >= this.batchDeadline) {
      maker.seal(wallTime);
      this.batchDeadline = Infinity;
    }
  }

  /**
   * An idle link gains nothing by waiting, a busy one fills the batch meanwhile. In between, a batch of some size is sent
   * behind a few others, so that we, the network and the broker work at the same time.
   */
  private get worthwhile(): boolean {
    const { length } = this.pending;
    return length === 0 || (length < FRAMES_AHEAD && this.maker.openIsSizeable);
  }

  /** @param keepSealing what waits for a permit belongs to a flush too: it must not sit in an open batch later */
  pumped(keepSealing: boolean): void {
    this.sealNow &&= keepSealing;
  }

  private write(frame: SealedFrame<O>): void {
    this.pending.push(frame);
    frame.writes = 1;
    this.writes.push(frame);
  }

  private writeAgain(frame: SealedFrame<O>): void {
    if (frame.writes > 0) this.resentFrames += 1;
    frame.writes += 1;
    this.writes.push(frame);
  }
}

/** So many frames under way keep the broker busy (measured: 2 give 0.9 of the rate of 4, and 1 gives 0.7). */
const FRAMES_AHEAD = 4;
