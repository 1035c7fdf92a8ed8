import { Admission } from '../../../../lib/pulsar/protocol/admission.js';
import { MemoryBudget } from '../../../../lib/pulsar/protocol/memory-budget.js';
import { OpState, SendOp } from '../../../../lib/pulsar/protocol/send-op.js';

/** Messages that end while they stand in line (cancelled, timed out) must not stay there, payload and all. */
describe('Admission', () => {
  const SIZE = 1000;

  function make(maxPendingMessages: number): { line: Admission<SendOp>; budget: MemoryBudget } {
    const budget = new MemoryBudget(0);
    const config = { topic: 'unit', maxPendingMessages, rejectWhenFull: false, chunkBytes: undefined };
    return { line: new Admission(config, budget, { memoryFreed: () => undefined }), budget };
  }

  function enter(line: Admission<SendOp>): SendOp {
    const op = new SendOp({}, SIZE, undefined, false, 0);
    expect(line.enter(op)).toBeUndefined();
    line.admit();
    return op;
  }

  function end(line: Admission<SendOp>, op: SendOp): void {
    line.release(op);
    op.state = OpState.settled;
  }

  it('lets go of messages that had a permit and ended before a link came up', () => {
    const { line, budget } = make(1000);
    const kept = enter(line);
    for (let count = 0; count < 10_000; count++) end(line, enter(line));
    expect(line.all().length).toBeLessThan(200);
    expect(line.all()[0]).toBe(kept);
    expect(line).toMatchObject({ permits: 1, bytes: kept.bytes, waitingCount: 0 });
    expect(budget.used).toBe(kept.bytes);
    expect(line.nextAccepted()).toBe(kept);
    expect(line.nextAccepted()).toBeUndefined();
  });

  it('lets go of messages that ended behind one that waits, and keeps the order of the others', () => {
    const { line } = make(1);
    const first = enter(line);
    const waiting: SendOp[] = [];
    for (let count = 0; count < 10_000; count++) {
      const op = enter(line);
      if (count % 1000 === 0) waiting.push(op);
      else end(line, op);
    }
    expect(line.all().length).toBeLessThan(200);
    expect(line.waitingCount).toBe(waiting.length);
    const order: SendOp[] = [];
    for (let op = line.nextAccepted(); op !== undefined; op = line.nextAccepted()) {
      order.push(op);
      end(line, op);
      line.admit();
    }
    expect(order).toEqual([first, ...waiting]);
    expect(line).toMatchObject({ permits: 0, bytes: 0, waitingCount: 0 });
  });
});
