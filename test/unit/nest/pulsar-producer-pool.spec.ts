import { setImmediate as turn } from 'node:timers/promises';
import { ConnectionError, TransportError } from '../../../lib/errors.js';
import { Emission, type EmissionOwner } from '../../../lib/nest/emission.js';
import { type PooledProducer, ProducerPool, type ProducerPoolOptions } from '../../../lib/nest/pulsar-producer-pool.js';
import { systemClock } from '../../../lib/net/clock.js';
import { type MessageId } from '../../../lib/pulsar/index.js';
import { FakeProducer } from './support/fake-producers.js';

const nobody: EmissionOwner = { emissionSettled: () => undefined, emittedLate: () => undefined };
const OPTIONS: ProducerPoolOptions = {
  maxProducers: 3,
  maxPendingEmits: 1000,
  refusalBackoff: { initial: 1, max: 2, factor: 2 },
};

class Bench {
  readonly asked: string[] = [];
  readonly live = new Map<string, FakeProducer>();
  readonly made: FakeProducer[] = [];
  /** Set: the next producers are made only when the test says so. */
  gates: { topic: string; open: () => void; refuse: (error: unknown) => void }[] | undefined = undefined;
  slowClose = false;
  onSubmit: ((text: string) => TransportError | undefined) | undefined = undefined;
  readonly pool: ProducerPool;

  constructor(options: Partial<ProducerPoolOptions> = {}) {
    this.pool = new ProducerPool((topic) => this.create(topic), { ...OPTIONS, ...options }, systemClock);
  }

  private create(topic: string): Promise<PooledProducer> {
    this.asked.push(topic);
    const make = (): FakeProducer => {
      const producer = new FakeProducer(topic, this.slowClose, this.onSubmit);
      this.live.set(topic, producer);
      this.made.push(producer);
      return producer;
    };
    const { gates } = this;
    if (gates === undefined) return Promise.resolve(make() as unknown as PooledProducer);
    return new Promise((resolve, reject) => {
      gates.push({
        topic,
        open: () => resolve(make()),
        refuse: reject,
      });
    });
  }

  emit(topic: string, text = topic): Emission<MessageId> {
    const emission = new Emission<MessageId>(nobody, topic, true);
    this.pool.submit(topic, { payload: Buffer.from(text) }, emission);
    return emission;
  }
}

describe('ProducerPool', () => {
  it('keeps the order of the calls while the producer is being made, and after', async () => {
    const bench = new Bench();
    bench.gates = [];
    bench.emit('t', '1');
    bench.emit('t', '2');
    await turn();
    bench.emit('t', '3');
    expect(bench.asked).toEqual(['t']);
    bench.gates[0].open();
    await turn();
    bench.emit('t', '4');
    expect(bench.live.get('t')!.payloads).toEqual(['1', '2', '3', '4']);
    expect(bench.pool.pending).toBe(4);
    bench.live.get('t')!.receive();
    expect(bench.pool.pending).toBe(0);
  });

  it('an emit from a subscriber, called while the queue is handed over, comes after what was emitted before it', async () => {
    const bench = new Bench();
    bench.gates = [];
    const order: string[] = [];
    const first = bench.emit('t', '1');
    first.subscribe({ error: () => bench.emit('t', '3') });
    bench.emit('t', '2');
    // The producer refuses the first message at once, inside submit().
    bench.onSubmit = (text) => {
      order.push(text);
      return text === '1' ? new TransportError('ERR_MESSAGE_TOO_LARGE', 'too large') : undefined;
    };
    bench.gates[0].open();
    await turn();
    expect(order).toEqual(['1', '2', '3']);
  });

  it('resolves with the message id of the receipt, fails with the error of the producer', async () => {
    const bench = new Bench();
    const good = bench.emit('t');
    const bad = bench.emit('t');
    await turn();
    const { submitted } = bench.live.get('t')!;
    const error = new TransportError('ERR_BROKER', 'no');
    submitted[1].done(error);
    submitted[0].done(undefined, { messageId: 'id' as never, sequenceId: 1, deduplicated: false });
    expect([good.state, good.value, bad.state, bad.error]).toEqual(['stored', 'id', 'failed', error]);
  });

  it('never holds more producers than it may, closes the one idle longest, loses nothing', async () => {
    const bench = new Bench();
    for (const topic of ['a', 'b', 'c']) bench.emit(topic);
    await turn();
    for (const topic of ['b', 'a', 'c']) bench.live.get(topic)!.receive();
    const closed = (): string[] => bench.made.filter((producer) => producer.closed).map((producer) => producer.topic);
    bench.emit('d');
    await turn();
    expect(closed()).toEqual(['b']);
    bench.emit('e');
    await turn();
    expect(closed()).toEqual(['a', 'b']);
    expect([bench.pool.producers, bench.pool.evicted]).toEqual([3, 2]);
    expect(bench.live.get('d')!.payloads).toEqual(['d']);
    expect(bench.live.get('e')!.payloads).toEqual(['e']);
  });

  it('a topic waits while every producer has something under way, and takes the first place that gets free', async () => {
    const bench = new Bench();
    for (const topic of ['a', 'b', 'c', 'd', 'e']) bench.emit(topic);
    await turn();
    expect(bench.asked).toEqual(['a', 'b', 'c']);
    bench.live.get('b')!.receive();
    await turn();
    expect(bench.asked).toEqual(['a', 'b', 'c', 'd']);
    expect(bench.live.get('a')!.closed).toBe(false);
    bench.live.get('a')!.receive();
    bench.live.get('c')!.receive();
    await turn();
    expect(bench.asked).toEqual(['a', 'b', 'c', 'd', 'e']);
    // Only as many as were needed were closed.
    expect(bench.made.filter((producer) => producer.closed)).toHaveLength(2);
  });

  it('an emit to a topic whose producer is being closed waits for the end of the closing', async () => {
    const bench = new Bench({ maxProducers: 1 });
    bench.slowClose = true;
    bench.emit('a', 'a1');
    await turn();
    const old = bench.live.get('a')!;
    old.receive();
    bench.emit('b');
    bench.emit('a', 'a2');
    bench.emit('a', 'a3');
    await turn();
    expect(bench.asked).toEqual(['a']);
    old.finishClose();
    await turn();
    expect(bench.asked).toEqual(['a', 'b']);
    bench.live.get('b')!.receive();
    bench.live.get('b')!.finishClose();
    await turn();
    expect(bench.asked).toEqual(['a', 'b', 'a']);
    expect(bench.live.get('a')!.payloads).toEqual(['a2', 'a3']);
  });

  it('thousands of topics through a few producers: all stored, nothing kept', async () => {
    const bench = new Bench({ maxProducers: 10, maxPendingEmits: 100_000 });
    const emissions: Emission<MessageId>[] = [];
    for (let i = 0; i < 3000; i++) emissions.push(bench.emit(`t${i}`));
    for (let round = 0; round < 10_000 && bench.pool.pending > 0; round++) {
      expect(bench.pool.producers).toBeLessThanOrEqual(10);
      for (const producer of bench.live.values()) {
        producer.receive();
        if (producer.closed) bench.live.delete(producer.topic);
      }
      await turn();
    }
    expect(emissions.filter((emission) => emission.state === 'stored')).toHaveLength(3000);
    expect(bench.pool.evicted).toBeGreaterThanOrEqual(2990);
    expect((bench.pool as unknown as { lanes: Map<string, unknown> }).lanes.size).toBeLessThanOrEqual(10);
  });

  it('fails the emits that wait when there is no producer, and asks again for the next one', async () => {
    const bench = new Bench();
    bench.gates = [];
    const emissions = [bench.emit('t'), bench.emit('t')];
    const error = new ConnectionError('down');
    bench.gates[0].refuse(error);
    await turn();
    expect(emissions.map(({ state, error: reason }) => [state, reason])).toEqual([
      ['failed', error],
      ['failed', error],
    ]);
    expect([bench.pool.pending, bench.pool.producers]).toEqual([0, 0]);
    const next = bench.emit('t');
    bench.gates[1].open();
    await turn();
    bench.live.get('t')!.receive();
    expect(next.state).toBe('stored');
  });

  it('a lasting refusal fails the emits at once, and the next ones without asking again for a while', async () => {
    const bench = new Bench({ refusalBackoff: { initial: 10_000, max: 10_000, factor: 1 } });
    bench.gates = [];
    const emission = bench.emit('t');
    const error = new TransportError('ERR_AUTHORIZATION', 'not allowed');
    bench.gates[0].refuse(error);
    await turn();
    expect([emission.state, emission.error]).toEqual(['failed', error]);
    expect(() => bench.emit('t')).toThrow(error);
    expect(bench.asked).toEqual(['t']);
    expect([bench.pool.pending, bench.pool.producers]).toEqual([0, 0]);
  });

  it('a topic that was refused can be used when it is allowed later', async () => {
    const bench = new Bench({ refusalBackoff: { initial: 0.001, max: 0.001, factor: 1 } });
    bench.gates = [];
    bench.emit('t');
    bench.gates[0].refuse(new TransportError('ERR_TOPIC', 'not found'));
    await turn();
    const emission = bench.emit('t');
    bench.gates[1].open();
    await turn();
    bench.live.get('t')!.receive();
    expect(emission.state).toBe('stored');
  });

  it.each([
    ['not at once', 10_000],
    ['but later', 0.001],
  ])('makes another producer where the broker has ended the one there was, %s', async (_when, initial) => {
    const bench = new Bench({ refusalBackoff: { initial, max: initial, factor: 1 } });
    const cause = new TransportError('ERR_AUTHORIZATION', 'the right was taken away');
    const first = bench.emit('t', '1');
    await turn();
    const [old] = bench.made;
    bench.pool.ended('t', old, cause);
    old.submitted[0].done(cause);
    await expect(first.outcome()).rejects.toBe(cause);
    expect(old.closed).toBe(true);
    await turn();
    expect([bench.asked, bench.pool.producers, bench.pool.pending]).toEqual([['t'], 0, 0]);
    if (initial > 1) {
      expect(() => bench.emit('t', '2')).toThrow(cause);
      return;
    }
    bench.emit('t', '2');
    await turn();
    expect(bench.made.map(({ payloads }) => payloads)).toEqual([['1'], ['2']]);
    expect([bench.pool.producers, bench.pool.evicted]).toEqual([1, 0]);
  });

  it('what is emitted while the ended one is still closing goes to the next, in order', async () => {
    const bench = new Bench();
    bench.slowClose = true;
    bench.emit('t', '1');
    await turn();
    const [old] = bench.made;
    bench.pool.ended('t', old, new TransportError('ERR_SCHEMA', 'not any more'));
    bench.emit('t', '2');
    bench.emit('t', '3');
    await turn();
    expect(bench.made).toHaveLength(1);
    old.finishClose();
    await turn();
    expect(bench.live.get('t')!.payloads).toEqual(['2', '3']);
  });

  it('does not take back a topic from whoever fenced it, and ignores the end of a producer that is gone', async () => {
    const bench = new Bench();
    bench.emit('t', '1');
    await turn();
    const [only] = bench.made;
    bench.pool.ended('t', only, new TransportError('ERR_FENCED', 'fenced'));
    bench.pool.ended('t', new FakeProducer('t'), new TransportError('ERR_SCHEMA', 'other'));
    bench.pool.ended('u', only, new TransportError('ERR_SCHEMA', 'other'));
    bench.emit('t', '2');
    await turn();
    expect([bench.made.length, only.closed, only.payloads]).toEqual([1, false, ['1', '2']]);
  });

  it('takes back what waits, and what the producer gives back', async () => {
    const bench = new Bench();
    bench.gates = [];
    const first = bench.emit('t', '1');
    bench.emit('t', '2');
    expect(first.cancel()).toBe(true);
    expect([first.state, (first.error as TransportError).code]).toEqual(['failed', 'ERR_ABORTED']);
    expect(first.cancel()).toBe(false);
    bench.gates[0].open();
    await turn();
    expect(bench.live.get('t')!.payloads).toEqual(['2']);
    const third = bench.emit('t', '3');
    expect(third.cancel()).toBe(false);
    bench.live.get('t')!.submitted[1].written = false;
    expect(third.cancel()).toBe(true);
  });

  it('is bounded: one emit too many is refused and changes nothing', async () => {
    const bench = new Bench({ maxPendingEmits: 2 });
    bench.emit('t');
    bench.emit('u');
    expect(() => bench.emit('v')).toThrow(expect.objectContaining({ code: 'ERR_QUEUE_FULL', retriable: true }));
    await turn();
    expect(bench.asked).toEqual(['t', 'u']);
    bench.live.get('t')!.receive();
    bench.emit('v');
    expect(bench.pool.pending).toBe(2);
  });

  it('close() waits for what is under way, then takes nothing in', async () => {
    const bench = new Bench();
    bench.gates = [];
    const emission = bench.emit('t');
    let closed = false;
    const closing = bench.pool.close(60_000).then(() => (closed = true));
    expect(() => bench.emit('t')).toThrow(expect.objectContaining({ code: 'ERR_CLOSED' }));
    bench.gates[0].open();
    await turn();
    expect(closed).toBe(false);
    bench.live.get('t')!.receive();
    await closing;
    expect(emission.state).toBe('stored');
    expect(bench.live.get('t')!.closed).toBe(true);
  });

  it('close() ends after its time, and what waits for a producer fails', async () => {
    const bench = new Bench();
    bench.gates = [];
    const emission = bench.emit('t');
    await bench.pool.close(1);
    expect([emission.state, (emission.error as TransportError).code]).toEqual(['failed', 'ERR_CLOSED']);
    // A producer that comes after that is not kept.
    bench.gates[0].open();
    await turn();
    expect(bench.live.get('t')!.closed).toBe(true);
  });

  it('destroy() fails what waits and destroys the producers', async () => {
    const bench = new Bench();
    bench.emit('t');
    await turn();
    bench.gates = [];
    const waiting = bench.emit('u');
    bench.pool.destroy();
    expect([waiting.state, bench.live.get('t')!.closed]).toEqual(['failed', true]);
  });
});
