import { DeliveryGate, type GateEntry } from '../../../lib/nest/delivery-gate.js';

class Entry implements GateEntry {
  sequence = 0;
  hasSlot = false;
  hasKey = false;
  onAwaited: (() => void) | undefined = undefined;
  constructor(
    readonly name: string,
    readonly key: string | undefined = undefined,
    private readonly onBegin: (entry: Entry) => void = () => undefined,
  ) {}
  begin() {
    begun.push(this.name);
    this.onBegin(this);
  }
}
let begun: string[] = [];
beforeEach(() => {
  begun = [];
});

it('starts up to its limit, then in received order as places become free', () => {
  const gate = new DeliveryGate<Entry>(2);
  const entries = ['a', 'b', 'c', 'd'].map((name) => new Entry(name));
  for (const entry of entries) gate.enter(entry);
  expect(begun).toEqual(['a', 'b']);
  expect([gate.runningCount, gate.waitingCount]).toEqual([2, 2]);
  gate.release(entries[1]);
  gate.release(entries[0]);
  expect(begun).toEqual(['a', 'b', 'c', 'd']);
});

it('an entry that comes back is older than what waits, so it is served first', () => {
  const gate = new DeliveryGate<Entry>(1);
  const [a, b, c] = ['a', 'b', 'c'].map((name) => new Entry(name));
  gate.enter(a);
  gate.enter(b);
  gate.enter(c);
  gate.yieldSlot(a);
  gate.enter(a);
  gate.release(b);
  expect(begun).toEqual(['a', 'b', 'a']);
});

it('a key is kept over yieldSlot and passed on by release only', () => {
  const gate = new DeliveryGate<Entry>(4);
  const [a, b, other] = [new Entry('a', 'k'), new Entry('b', 'k'), new Entry('other', 'l')];
  for (const entry of [a, b, other]) gate.enter(entry);
  expect(begun).toEqual(['a', 'other']);
  gate.yieldSlot(a);
  expect(begun).toEqual(['a', 'other']);
  gate.enter(a);
  gate.release(a);
  expect(begun).toEqual(['a', 'other', 'a', 'b']);
  gate.release(b);
  gate.release(other);
  expect([gate.keyCount, gate.runningCount, gate.waitingCount]).toEqual([0, 0, 0]);
});

describe('a message that comes once more', () => {
  it('takes the place of one that failed: its key, and its turn before what waits for the key', () => {
    const gate = new DeliveryGate<Entry>(4);
    const [a, b, again] = [new Entry('a', 'k'), new Entry('b', 'k'), new Entry('again', 'k')];
    for (const entry of [a, b]) gate.enter(entry);
    gate.yieldSlot(a);
    gate.enterFor(a, again, false);
    gate.release(a);
    expect(begun).toEqual(['a', 'again']);
    gate.release(again);
    expect(begun).toEqual(['a', 'again', 'b']);
    gate.release(b);
    expect([gate.keyCount, gate.runningCount, gate.waitingCount]).toEqual([0, 0, 0]);
  });

  it('takes the place of one that waits: for its key, or for a running place', () => {
    const gate = new DeliveryGate<Entry>(1);
    const entries = [new Entry('a', 'k'), new Entry('b', 'k'), new Entry('c', 'k'), new Entry('d'), new Entry('e')];
    for (const entry of entries) gate.enter(entry);
    const [b2, d2] = [new Entry('b2', 'k'), new Entry('d2')];
    gate.enterFor(entries[1], b2, false);
    gate.enterFor(entries[3], d2, false);
    expect(gate.waitingCount).toBe(4);
    for (const entry of [entries[0], b2, entries[2], d2, entries[4]]) gate.release(entry);
    expect(begun).toEqual(['a', 'b2', 'c', 'd2', 'e']);
    expect([gate.keyCount, gate.runningCount, gate.waitingCount]).toEqual([0, 0, 0]);
  });

  it.each(['k', undefined])('comes right behind one that goes on (key %s)', (key) => {
    const gate = new DeliveryGate<Entry>(1);
    const [a, b, again] = [new Entry('a', key), new Entry('b', key), new Entry('again', key)];
    for (const entry of [a, b]) gate.enter(entry);
    gate.enterFor(a, again, true);
    for (const entry of [a, again, b]) gate.release(entry);
    expect(begun).toEqual(['a', 'again', 'b']);
    expect([gate.keyCount, gate.runningCount, gate.waitingCount]).toEqual([0, 0, 0]);
  });
});

it('pause() starts nothing, resume() goes on in order', () => {
  const gate = new DeliveryGate<Entry>(2);
  gate.pause();
  for (const name of ['a', 'b', 'c']) gate.enter(new Entry(name));
  expect(begun).toEqual([]);
  gate.resume();
  expect(begun).toEqual(['a', 'b']);
});

it('dropOldest() takes the oldest that is eligible, also one that waits for its key, and passes keys on', () => {
  const gate = new DeliveryGate<Entry>(1);
  const [run, first, second, third] = [new Entry('run'), new Entry('1', 'k'), new Entry('2', 'k'), new Entry('3')];
  for (const entry of [run, first, second, third]) gate.enter(entry);
  expect(gate.dropOldest(({ name }) => name === '2')).toBe(second);
  expect(gate.dropOldest(({ key }) => key === 'k')).toBe(first);
  expect(gate.dropOldest(({ name }) => name === 'none')).toBeUndefined();
  expect([gate.keyCount, gate.waitingCount]).toEqual([0, 1]);
});

it('thousands that settle while they begin need no deep stack', () => {
  const gate = new DeliveryGate<Entry>(1);
  const blocker = new Entry('blocker');
  gate.enter(blocker);
  for (let i = 0; i < 20_000; i += 1) gate.enter(new Entry('x', undefined, (entry) => gate.release(entry)));
  gate.release(blocker);
  expect(begun).toHaveLength(20_001);
  expect([gate.runningCount, gate.waitingCount]).toEqual([0, 0]);
});

it.each([1, 2, 3, 4, 5])(
  'any schedule (seed %i): never over the limit, one per key, received order per key',
  (seed) => {
    let state = seed * 2654435761;
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const gate = new DeliveryGate<Entry>(3);
    const running = new Set<Entry>();
    const yielded = new Set<Entry>();
    const started = new Map<string, Entry[]>();
    const holders = new Map<string, Entry>();
    const begin = (entry: Entry): void => {
      running.add(entry);
      expect(running.size).toBeLessThanOrEqual(3);
      if (entry.key === undefined) return;
      const holder = holders.get(entry.key);
      expect(holder === undefined || holder === entry).toBe(true);
      holders.set(entry.key, entry);
      const list = started.get(entry.key) ?? [];
      if (!list.includes(entry)) list.push(entry);
      started.set(entry.key, list);
    };
    const pick = (set: Set<Entry>): Entry => [...set][random(set.size)];
    let made = 0;
    for (let step = 0; step < 3_000 || running.size + yielded.size > 0; step += 1) {
      const what = step < 3_000 ? random(4) : 2 + random(2);
      if (what < 2) gate.enter(new Entry(String(made++), random(3) === 0 ? undefined : `k${random(4)}`, begin));
      else if (what === 2 && running.size > 0) {
        const entry = pick(running);
        running.delete(entry);
        if (entry.key !== undefined && random(4) > 0) holders.delete(entry.key);
        else if (entry.key !== undefined || step < 3_000) {
          yielded.add(entry);
          gate.yieldSlot(entry);
          continue;
        }
        gate.release(entry);
      } else if (yielded.size > 0) {
        const entry = pick(yielded);
        yielded.delete(entry);
        gate.enter(entry);
      }
    }
    expect(new Set(begun).size).toBe(made);
    expect([gate.runningCount, gate.waitingCount, gate.keyCount]).toEqual([0, 0, 0]);
    for (const list of started.values()) {
      const order = list.map(({ sequence }) => sequence);
      expect(order).toEqual([...order].sort((a, b) => a - b));
    }
  },
);

it('tells the holder of a key when another one has to wait for it, and who asks whether one waits', () => {
  const gate = new DeliveryGate<Entry>(9);
  const [first, second, third] = ['1', '2', '3'].map((name) => new Entry(name, 'k'));
  const told: string[] = [];
  for (const entry of [first, second, third]) entry.onAwaited = () => told.push(entry.name);
  gate.enter(first);
  gate.enter(new Entry('other', 'o'));
  expect(gate.isAwaited(first)).toBe(false);
  expect(told).toEqual([]);
  gate.enter(second);
  gate.enter(third);
  expect(told).toEqual(['1', '1']);
  expect([first, second].map((entry) => gate.isAwaited(entry))).toEqual([true, false]);
  gate.release(first);
  expect([first, second].map((entry) => gate.isAwaited(entry))).toEqual([false, true]);
  gate.release(second);
  expect(gate.isAwaited(third)).toBe(false);
  gate.enter(new Entry('4', 'k'));
  expect(told).toEqual(['1', '1', '3']);
});

it('the holder of a key is never dropped in the place of one that waits for it', () => {
  const gate = new DeliveryGate<Entry>(9);
  const [holder, waiting] = ['holder', 'waiting'].map((name) => new Entry(name, 'k'));
  gate.enter(holder);
  gate.enter(waiting);
  expect(gate.dropOldest(() => true)).toBe(waiting);
  expect(gate.dropOldest(() => true)).toBeUndefined();
  expect(gate.waitingCount).toBe(0);
  gate.release(holder);
  expect(gate.keyCount).toBe(0);
});

it('100,000 keys: nothing of them is left at the end, whatever waited, came back or was dropped', () => {
  const gate = new DeliveryGate<Entry>(100);
  const running = new Set<Entry>();
  let mostKeys = 0;
  let dropped = 0;
  for (let i = 0; i < 100_000; i += 1) {
    // Three messages per key, and one of seven comes back once.
    for (let n = 0; n < 3; n += 1) {
      gate.enter(new Entry(`${i}/${n}`, `device ${i}`, (entry) => running.add(entry)));
    }
    if (i % 50 === 0 && gate.dropOldest((entry) => entry.name.endsWith('/2')) !== undefined) dropped += 1;
    mostKeys = Math.max(mostKeys, gate.keyCount);
    if (gate.waitingCount < 600) continue;
    while (running.size > 0) {
      const [entry] = running;
      running.delete(entry);
      gate.yieldSlot(entry);
      if (entry.sequence % 7 === 0 && !entry.name.startsWith('again')) {
        Object.assign(entry, { name: `again ${entry.name}` });
        gate.enter(entry);
      } else gate.release(entry);
    }
  }
  while (running.size > 0) {
    const [entry] = running;
    running.delete(entry);
    gate.release(entry);
  }
  expect(begun.length).toBeGreaterThan(300_000 - dropped);
  expect(dropped).toBeGreaterThan(0);
  expect(mostKeys).toBeGreaterThan(100);
  expect([gate.keyCount, gate.waitingCount, gate.runningCount]).toEqual([0, 0, 0]);
});
