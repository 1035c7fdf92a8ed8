/** Defects planted into the settlement for the length of one run: the model must notice every one of them. */
import { FailureSettlement } from '../../../lib/nest/failure-settlement.js';
import { MqttServerStrategy } from '../../../lib/nest/mqtt-server.strategy.js';
import { ReplyStream } from '../../../lib/nest/reply-stream.js';
import { RunEnd } from '../../../lib/nest/run-end.js';

/** Private members are patched, so the types are left behind here. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Loose = any;

function patch(target: { prototype: Loose }, name: string, make: (original: Loose) => Loose): () => void {
  const original: Loose = target.prototype[name];
  target.prototype[name] = make(original);
  return () => (target.prototype[name] = original);
}

export const defects: Readonly<Record<string, () => () => void>> = {
  'forgets which letters were taken': () => patch(RunEnd, 'letterWasTaken', () => () => undefined),
  'acknowledges without the letter': () =>
    patch(FailureSettlement, 'sendLetters', () => () => Promise.resolve(undefined)),
  'acknowledges without the error reply': () => patch(RunEnd, 'reply', () => () => Promise.resolve('accepted')),
  'runs again whose requester has its answer': () =>
    patch(
      MqttServerStrategy,
      'again',
      (original) =>
        function (this: Loose, task: Loose) {
          const entries = task.ends.map(({ run }: Loose) => run.entry);
          original.call(this, task);
          task.pending = entries;
        },
    ),
  'sends the values of runs that run again': () => patch(ReplyStream, 'mute', () => () => undefined),
  'forgets what was not taken': () => patch(FailureSettlement, 'keep', () => () => undefined),
  'always acknowledges with success': () =>
    patch(
      MqttServerStrategy,
      'settle',
      (original) =>
        function (this: Loose, task: Loose, outcome: Loose) {
          original.call(this, task, outcome, 0);
        },
    ),
};
