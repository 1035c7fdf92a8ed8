import { type TransportError } from '../../errors.js';
import { type Admission } from './admission.js';
import { Fifo } from './fifo.js';
import { FlushTracker } from './flush-tracker.js';
import { type FrameMaker } from './frame-maker.js';
import { type PendingQueue } from './pending-queue.js';
import { ambiguous, deduplicatedError, timeoutError, tornError } from './producer-errors.js';
import { type ProducerAction } from './producer-events.js';
import { OpState, type SealedFrame, type SendOp, type Settlement } from './send-op.js';

/** Where the messages of a producer can be. */
export interface MessagePlaces<O extends SendOp> {
  readonly pending: PendingQueue<O>;
  readonly maker: FrameMaker<O>;
  readonly admission: Admission<O>;
}

/** How messages end: each exactly once, with its permits and memory given back and the flushes that wait for it told. */
export class Outcomes<O extends SendOp> {
  /** To tell, in order; the driver takes them out one by one. */
  readonly settlements = new Fifo<Settlement<O>>();
  private readonly flushes = new FlushTracker();

  settled = 0;
  succeeded = 0;
  deduplicated = 0;
  possibleDuplicates = 0;

  constructor(
    private readonly topic: string,
    private readonly places: MessagePlaces<O>,
    private readonly actions: ProducerAction[],
  ) {}

  get flushing(): boolean {
    return this.flushes.active;
  }

  /** A flush over everything up to the ordinal `submitted`, as the caller sees it: what is not told yet is not settled. */
  flush(submitted: number, token: unknown): void {
    let error: TransportError | undefined;
    for (const settlement of this.settlements) if (settlement.kind === 'failed') error ??= settlement.error;
    this.flushes.add(submitted, submitted - this.settled, token, error);
  }

  /** The receipt of the oldest frame came; the frame has left the queue. */
  stored(frame: SealedFrame<O>, ledgerId: number, entryId: number): void {
    if (frame.chunk !== undefined) {
      frame.chunk.stored.push({ ledgerId, entryId });
      if (frame.chunk.index < frame.chunk.count - 1) return;
    }
    for (const op of frame.ops) {
      if (op === undefined) continue;
      this.succeeded += 1;
      this.release(op, undefined);
    }
    this.settlements.push({ kind: 'stored', frame, ledgerId, entryId });
  }

  /**
   * The receipt said -1:-1: deduplication dropped the frame. That is a success if an earlier copy of it is what is stored,
   * or if the caller gave the id. After a refusal it is none: what came after the frame was stored, and for the broker
   * everything with a smaller id is a duplicate then.
   */
  notStored(frame: SealedFrame<O>): void {
    if (frame.chunk !== undefined && frame.chunk.index < frame.chunk.count - 1) {
      frame.chunk.stored.push({ ledgerId: -1, entryId: -1 });
      return;
    }
    const refused = frame.refusals > 0 || frame.doubtful || frame.chunk?.whole.refused === true;
    const torn = !refused && this.mayBeTorn(frame);
    for (const op of frame.ops) {
      if (op === undefined) continue;
      if (torn) {
        this.fail(op, tornError(this.topic, op.sequenceId));
        continue;
      }
      if (refused || (frame.writes === 1 && op.givenId === undefined)) {
        const error = deduplicatedError(this.topic, op.sequenceId, refused);
        this.fail(op, frame.doubtful || frame.refusals < frame.writes - 1 ? ambiguous(error) : error);
        continue;
      }
      this.succeeded += 1;
      this.deduplicated += 1;
      this.release(op, undefined);
      this.settlements.push({ kind: 'deduplicated', op });
    }
  }

  /**
   * A broker that loads a topic again takes every stored chunk for its whole message (`MessageDeduplication.replayCursor`,
   * measured on 4.0.7): after chunks 0 to 4 of 9 it drops the last one, and nobody can read the message. It is complete for
   * sure only if the broker has stored what was sent after it.
   */
  private mayBeTorn(frame: SealedFrame<O>): boolean {
    return frame.chunk !== undefined && frame.writes > 1 && this.places.maker.brokerLast <= frame.sequenceId;
  }

  /** Takes a frame, and for a chunk those of the same message, out of the queue. */
  failFrame(frame: SealedFrame<O>, error: TransportError): void {
    const { pending } = this.places;
    if (frame.chunk === undefined) {
      pending.remove(frame);
    } else {
      const [op] = frame.ops;
      for (const other of [...pending]) if (other.ops[0] === op) pending.remove(other);
    }
    const outcome = refusedAlways(frame) ? error : ambiguous(error);
    for (const op of frame.ops) if (op !== undefined) this.fail(op, outcome);
  }

  /** Everything accepted or waiting, in order. */
  failAll(error: TransportError): void {
    const { pending, maker, admission } = this.places;
    const written = ambiguous(error);
    for (const frame of pending.drain()) {
      for (const op of frame.ops) if (op !== undefined) this.fail(op, refusedAlways(frame) ? error : written);
    }
    for (const op of [...maker.openMessages(), ...admission.all()]) this.fail(op, error);
  }

  /**
   * Fails what is older than the send timeout, wherever it is.
   *
   * @returns when the next one expires, Infinity if none is left
   */
  expire(now: number, sendTimeout: number): number {
    const { pending, maker, admission } = this.places;
    const limit = now - sendTimeout;
    let oldest = Infinity;
    const isLate = (op: O): boolean => {
      if (op.submittedAt <= limit) return true;
      oldest = Math.min(oldest, op.submittedAt);
      return false;
    };
    for (const frame of [...pending]) {
      frame.ops.forEach((op, index) => {
        if (op === undefined || (op.state !== OpState.settled && !isLate(op))) return;
        frame.ops[index] = undefined;
        frame.live -= 1;
        this.fail(op, timeoutError(this.topic, sendTimeout, true));
      });
      if (frame.live === 0) pending.remove(frame);
    }
    for (const op of [...maker.openMessages(), ...admission.all()]) {
      if (op.state !== OpState.settled && isLate(op)) this.fail(op, timeoutError(this.topic, sendTimeout, false));
    }
    return oldest + sendTimeout;
  }

  fail(op: O, error: TransportError): void {
    if (op.state === OpState.settled) return;
    if (op.state === OpState.batched) this.places.maker.remove(op);
    if (op.state === OpState.sealed && error.ambiguous) {
      this.possibleDuplicates += 1;
      this.actions.push({ kind: 'possibleDuplicate', sequenceId: op.sequenceId, error });
    }
    this.release(op, error);
    this.settlements.push({ kind: 'failed', op, error });
  }

  tellFlushes(): void {
    for (let flush = this.flushes.takeFinished(); flush !== undefined; flush = this.flushes.takeFinished()) {
      for (const token of flush.tokens) this.settlements.push({ kind: 'flushed', token, error: flush.error });
    }
  }

  /** The one place where a message leaves: permits, memory and flushes are told here. */
  private release(op: O, error: TransportError | undefined): void {
    this.places.admission.release(op);
    op.state = OpState.settled;
    this.settled += 1;
    if (this.flushes.active) this.flushes.settled(op.ordinal, error);
  }
}

/** No write of it can have been stored. */
function refusedAlways(frame: SealedFrame): boolean {
  return frame.refusals === frame.writes;
}
