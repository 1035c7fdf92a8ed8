import { TransportError } from '../../../lib/errors.js';
import { Admission } from '../../../lib/pulsar/protocol/admission.js';
import { FlushTracker } from '../../../lib/pulsar/protocol/flush-tracker.js';
import { Outcomes } from '../../../lib/pulsar/protocol/outcomes.js';
import { PendingQueue } from '../../../lib/pulsar/protocol/pending-queue.js';
import { ProducerLink } from '../../../lib/pulsar/protocol/producer-link.js';
import { FrameFlow } from '../../../lib/pulsar/protocol/frame-flow.js';
import { ProducerState } from '../../../lib/pulsar/protocol/producer-state.js';
import { type SealedFrame } from '../../../lib/pulsar/protocol/send-op.js';

type Prototype = { [name: string]: (...args: never[]) => unknown };

/** Puts `make(original)` in a method's place; the result puts the original back. */
function patch(
  target: object,
  name: string,
  make: (original: (...args: unknown[]) => unknown) => (this: never, ...args: never[]) => unknown,
): () => void {
  const prototype = target as Prototype;
  const original = prototype[name];
  prototype[name] = make(original as (...args: unknown[]) => unknown);
  return () => {
    prototype[name] = original;
  };
}

type Core = { writes: SealedFrame[]; pending: PendingQueue<never>; resentFrames: number };

/** What could be wrong with a producer. Each breaks the core until the returned function is called. */
export const defects: Readonly<Record<string, () => () => void>> = {
  'lets a flush overtake the sends before it': () =>
    patch(FlushTracker.prototype, 'add', (original) => {
      return function (this: FlushTracker, upTo: number, unsettled: number, ...rest: unknown[]) {
        return original.call(this, upTo, Math.max(0, unsettled - 1), ...rest);
      };
    }),
  'sends new messages beside the resent ones': () =>
    patch(ProducerState.prototype, 'pump', (original) => {
      return function (this: Core, ...args: unknown[]) {
        const resent = this.writes.splice(0);
        const result = original.apply(this, args);
        this.writes.push(...resent);
        return result;
      };
    }),
  'drops one resent frame': () =>
    patch(ProducerState.prototype, 'step', (original) => {
      return function (this: Core, ...args: unknown[]) {
        const before = this.resentFrames;
        original.apply(this, args);
        if (this.resentFrames > before + 1) this.writes.splice(1, 1);
      };
    }),
  'swaps two frames': () =>
    patch(ProducerState.prototype, 'step', (original) => {
      return function (this: Core, ...args: unknown[]) {
        original.apply(this, args);
        if (this.writes.length > 2) this.writes.push(this.writes.splice(this.writes.length - 2, 1)[0]);
      };
    }),
  'takes events of older links': () =>
    patch(ProducerLink.prototype, 'concerns', () => {
      return function (this: ProducerLink) {
        return this.open;
      };
    }),
  'dials again at once': () =>
    patch(ProducerLink.prototype, 'down', (original) => {
      return function (this: ProducerLink, cause: string, error: unknown, now: number, random: number, hint: unknown) {
        original.call(this, cause, error, now, random, hint);
        this.dialAt = now;
      };
    }),
  'leaks a permit now and then': () =>
    patch(Admission.prototype, 'release', (original) => {
      let count = 0;
      return function (this: Admission<never>, ...args: unknown[]) {
        if (++count % 50 === 0) return;
        return original.apply(this, args);
      };
    }),
  'takes a receipt for a later frame as one for the oldest': () =>
    patch(PendingQueue.prototype, 'shift', (original) => {
      let count = 0;
      return function (this: PendingQueue<never>) {
        original.call(this);
        if (++count % 20 === 0) original.call(this);
      };
    }),
  'hides that a failed message may be stored': () =>
    patch(Outcomes.prototype, 'fail', (original) => {
      return function (this: Outcomes<never>, op: unknown, error: TransportError) {
        return original.call(this, op, new TransportError(error.code, error.message, { retriable: error.retriable }));
      };
    }),
  'calls a duplicate stored although it was refused': () =>
    patch(Outcomes.prototype, 'notStored', (original) => {
      return function (this: Outcomes<never>, frame: SealedFrame) {
        frame.refusals = 0;
        frame.doubtful = false;
        return original.call(this, frame);
      };
    }),
  'changes a frame before it is sent again': () =>
    patch(FrameFlow.prototype, 'writeAgain', (original) => {
      return function (this: Core, frame: SealedFrame) {
        frame.bytes[frame.bytes.length - 1] ^= 1;
        return original.call(this, frame);
      };
    }),
  'keeps a message for ever when its batch is left alone': () =>
    patch(ProducerState.prototype, 'nextDeadline', () => {
      return function (this: { link: ProducerLink; closeDeadline: number }) {
        return Math.min(this.link.dialAt, this.closeDeadline);
      };
    }),
  'writes before the producer is ready': () =>
    patch(FrameFlow.prototype, 'linkDown', () => {
      return function () {
        return undefined;
      };
    }),
};
