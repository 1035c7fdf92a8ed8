import { type Outcomes } from './outcomes.js';
import { type PendingQueue } from './pending-queue.js';
import { type SealedFrame, type SendOp } from './send-op.js';

export interface Receipt {
  readonly sequenceId: number;
  /** 0 or -1: the broker did not say. */
  readonly highestSequenceId: number;
  readonly ledgerId: number;
  readonly entryId: number;
}

/**
 * What receipts mean for the frames under way. They come in the order of the frames, but for one case: what deduplication
 * drops is answered at once, and overtakes the receipts of chunks before it, which are stored once more (only the last chunk
 * of a message is ever dropped).
 */
export class Receipts<O extends SendOp> {
  constructor(
    private readonly pending: PendingQueue<O>,
    private readonly outcomes: Outcomes<O>,
  ) {}

  /** `late`: for what was settled before. `mismatch`: no answer to what was sent; nothing was changed. */
  take(receipt: Receipt): 'taken' | 'late' | 'mismatch' {
    const { pending } = this;
    const frame = pending.head;
    const { sequenceId, highestSequenceId, ledgerId, entryId } = receipt;
    if (frame === undefined || sequenceId < frame.sequenceId) return 'late';
    const dropped = ledgerId === -1 && entryId === -1;
    if (dropped && frame.chunk !== undefined && this.overtakes(sequenceId, frame)) return 'taken';
    if (
      sequenceId > frame.sequenceId ||
      (frame.batch && highestSequenceId > sequenceId && highestSequenceId !== frame.highestSequenceId)
    ) {
      return 'mismatch';
    }
    pending.shift();
    if (dropped) this.outcomes.notStored(frame);
    else this.outcomes.stored(frame, ledgerId, entryId);
    for (let next = pending.head; next?.dropped === true; next = pending.head) {
      pending.shift();
      this.outcomes.notStored(next);
    }
    return 'taken';
  }

  /** Remembers it at the frame it is for: that of a message, the last of its chunks. */
  private overtakes(sequenceId: number, head: SealedFrame<O>): boolean {
    const frame = this.pending.findLast(sequenceId);
    if (frame === undefined || frame === head || frame.dropped) return false;
    frame.dropped = true;
    return true;
  }
}
