import { ClosedError, isTransportError, TransportError } from '../errors.js';
import { type BackoffOptions } from '../net/backoff.js';
import { type Clock } from '../net/clock.js';
import { type MessageId, type ProducerMessage, type PulsarClient, type SendResult } from '../pulsar/index.js';
import { type Emission, takenBack } from './emission.js';
import { type IdleEntry, IdleList } from './idle-list.js';

/** What the pool uses of a producer and of the client that makes it. */
export type PooledProducer = Pick<Awaited<ReturnType<PulsarClient['createProducer']>>, 'submit' | 'close' | 'destroy'>;
export type ProducerFactory = (topic: string) => Promise<PooledProducer>;

export interface ProducerPoolOptions {
  readonly maxProducers: number;
  readonly maxPendingEmits: number;
  /** How long a refused topic is not asked for again. */
  readonly refusalBackoff: BackoffOptions;
}

/** How many topics without a producer are remembered as refused, so that each emit does not ask the broker again. */
const MAX_REFUSALS = 1000;

/**
 * One producer per topic, made at the first emit. The order of emits is fixed by the call: until the producer is there they
 * wait in the topic's lane, and they are handed over in the step that makes it ready.
 *
 * There are never more than `maxProducers`. A topic over that takes the place of the one that has been idle longest, which
 * is closed first; while none is idle the new topic waits.
 */
export class ProducerPool {
  /** Emits without an outcome, waiting ones included. */
  pending = 0;
  /** Producers closed to make room. */
  evicted = 0;

  private readonly lanes = new Map<string, Lane>();
  private readonly idle = new IdleList<Lane>();
  private readonly waitingForPlace = new Set<Lane>();
  private readonly refusals = new Map<string, Refusal>();
  private places = 0;
  /** Producers being closed to make room. */
  private closing = 0;
  private closed = false;
  private onEmpty: (() => void) | undefined = undefined;

  constructor(
    private readonly createProducer: ProducerFactory,
    private readonly options: ProducerPoolOptions,
    private readonly clock: Clock,
  ) {}

  /** Producers that exist, are being made or are being closed. */
  get producers(): number {
    return this.places;
  }

  /** @throws TransportError if nothing more is taken in; nothing was changed then */
  submit(topic: string, message: ProducerMessage, emission: Emission<MessageId>): void {
    if (this.closed) throw new ClosedError(`emit('${emission.pattern}'): the proxy is closed`);
    if (this.pending >= this.options.maxPendingEmits) throw this.full(emission.pattern);
    let lane = this.lanes.get(topic);
    if (lane === undefined) {
      this.throwIfRefused(topic);
      lane = new Lane(topic);
      this.lanes.set(topic, lane);
      this.claimPlace(lane);
    }
    this.pending += 1;
    if (lane.producer !== undefined) {
      this.hand(lane, lane.producer, message, emission);
      return;
    }
    const queued = new QueuedEmit(message, emission, this, lane);
    emission.handle = queued;
    lane.queue.add(queued);
  }

  /**
   * The broker has ended the topic's producer for good, a schema or a right was taken away, say. What it has fails by itself;
   * a later emit makes another one, when the refusal is no longer fresh.
   */
  ended(topic: string, producer: PooledProducer, cause: TransportError): void {
    const lane = this.lanes.get(topic);
    // Fenced means that another process has the topic now: taking it back would be a fight without an end.
    if (lane?.producer !== producer || this.closed || cause.code === 'ERR_FENCED') return;
    this.idle.remove(lane);
    this.refuse(topic, cause);
    this.leave(lane, producer);
  }

  /** Waits for every emit up to `timeoutMs`, closes the producers and fails what is left. Takes nothing in any more. */
  async close(timeoutMs: number): Promise<void> {
    this.closed = true;
    const until = this.clock.now() + timeoutMs;
    await this.settledWithin(timeoutMs);
    const left = Math.max(0, until - this.clock.now());
    await Promise.all([...this.lanes.values()].map(async (lane) => lane.producer?.close({ timeout: left })));
    for (const lane of [...this.lanes.values()]) this.drop(lane, new ClosedError('The proxy was closed'));
  }

  /** Closes without waiting. */
  destroy(): void {
    this.closed = true;
    for (const lane of [...this.lanes.values()]) {
      lane.producer?.destroy();
      this.drop(lane, new ClosedError('The proxy was destroyed'));
    }
  }

  /** @internal */
  takeBack(queued: QueuedEmit, lane: Lane): boolean {
    if (!lane.queue.delete(queued)) return false;
    this.settled(queued.emission, takenBack(queued.emission.pattern), undefined);
    return true;
  }

  // From here on: one lane's life. waiting for a place -> creating -> ready -> closing -> gone (or again from the start).

  private claimPlace(lane: Lane): void {
    if (this.places < this.options.maxProducers) {
      this.places += 1;
      this.create(lane);
      return;
    }
    this.waitingForPlace.add(lane);
    this.makeRoom();
  }

  /** Closes as many idle producers as topics wait for a place, not more. */
  private makeRoom(): void {
    while (this.closing < this.waitingForPlace.size) {
      const longestIdle = this.idle.shift();
      if (longestIdle === undefined) return;
      this.evict(longestIdle);
    }
  }

  private create(lane: Lane): void {
    this.createProducer(lane.topic).then(
      (producer) => this.created(lane, producer),
      (error: unknown) => this.notCreated(lane, error),
    );
  }

  private created(lane: Lane, producer: PooledProducer): void {
    if (this.lanes.get(lane.topic) !== lane) {
      producer.destroy();
      return;
    }
    this.refusals.delete(lane.topic);
    // What is emitted meanwhile joins the end of the queue: the lane is ready only when all before it was handed over.
    for (const queued of lane.queue) {
      lane.queue.delete(queued);
      this.hand(lane, producer, queued.message, queued.emission);
    }
    lane.producer = producer;
    this.restIfIdle(lane);
  }

  /** `createProducer` has tried for as long as it is worth; what no further try cures is not asked for again at once. */
  private notCreated(lane: Lane, error: unknown): void {
    if (this.lanes.get(lane.topic) !== lane) return;
    if (!(isTransportError(error) && error.retriable)) this.refuse(lane.topic, error);
    this.drop(lane, error);
  }

  private hand(lane: Lane, producer: PooledProducer, message: ProducerMessage, emission: Emission<MessageId>): void {
    if (lane.outstanding === 0) this.idle.remove(lane);
    lane.outstanding += 1;
    const done = (error: TransportError | undefined, result?: SendResult): void => {
      lane.outstanding -= 1;
      this.settled(emission, error, result);
      this.restIfIdle(lane);
    };
    try {
      emission.handle = producer.submit(message, done);
    } catch (error) {
      done(error as TransportError);
    }
  }

  private settled(emission: Emission<MessageId>, error: unknown, result: SendResult | undefined): void {
    this.pending -= 1;
    if (error === undefined && result !== undefined) emission.succeed(result.messageId);
    else emission.fail(error);
    if (this.pending === 0) this.onEmpty?.();
  }

  private restIfIdle(lane: Lane): void {
    if (lane.outstanding > 0 || lane.producer === undefined || this.closed) return;
    if (this.closing < this.waitingForPlace.size) this.evict(lane);
    else this.idle.push(lane);
  }

  private evict(lane: Lane): void {
    this.evicted += 1;
    this.leave(lane, lane.producer!);
  }

  private leave(lane: Lane, producer: PooledProducer): void {
    lane.producer = undefined;
    this.closing += 1;
    const gone = (): void => {
      this.closing -= 1;
      if (this.lanes.get(lane.topic) !== lane) return;
      this.places -= 1;
      // Emitted to again while it was closing: the same lane, so the order holds, with a new producer.
      if (lane.queue.size > 0) this.waitingForPlace.add(lane);
      else this.lanes.delete(lane.topic);
      this.fillPlaces();
    };
    producer.close().then(gone, gone);
  }

  private fillPlaces(): void {
    for (const lane of this.waitingForPlace) {
      if (this.places >= this.options.maxProducers) {
        this.makeRoom();
        return;
      }
      this.waitingForPlace.delete(lane);
      if (lane.queue.size === 0) {
        this.lanes.delete(lane.topic);
        continue;
      }
      this.places += 1;
      this.create(lane);
    }
  }

  /** Ends a lane; what waits in it fails. */
  private drop(lane: Lane, error: unknown): void {
    this.lanes.delete(lane.topic);
    this.idle.remove(lane);
    if (!this.waitingForPlace.delete(lane)) this.places -= 1;
    const waiting = [...lane.queue];
    lane.queue.clear();
    for (const { emission } of waiting) this.settled(emission, error, undefined);
    if (!this.closed) this.fillPlaces();
  }

  private refuse(topic: string, error: unknown): void {
    const attempt = (this.refusals.get(topic)?.attempt ?? -1) + 1;
    this.refusals.delete(topic);
    if (this.refusals.size >= MAX_REFUSALS) {
      for (const oldest of this.refusals.keys()) {
        this.refusals.delete(oldest);
        break;
      }
    }
    const { initial, max, factor } = this.options.refusalBackoff;
    const until = this.clock.now() + Math.min(max, initial * factor ** attempt);
    this.refusals.set(topic, { error, until, attempt });
  }

  private throwIfRefused(topic: string): void {
    const refusal = this.refusals.get(topic);
    if (refusal !== undefined && this.clock.now() < refusal.until) throw refusal.error;
  }

  private full(pattern: string): TransportError {
    const { maxPendingEmits } = this.options;
    return new TransportError(
      'ERR_QUEUE_FULL',
      `emit('${pattern}'): ${maxPendingEmits} emits have no outcome yet (option maxPendingEmits)`,
      { retriable: true },
    );
  }

  private settledWithin(timeoutMs: number): Promise<void> {
    if (this.pending === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.clock.setTimer(resolve, timeoutMs);
      this.onEmpty = () => {
        this.clock.clearTimer(timer);
        resolve();
      };
    });
  }
}

interface Refusal {
  readonly error: unknown;
  readonly until: number;
  readonly attempt: number;
}

/** A topic with its producer, or on the way to one. */
class Lane implements IdleEntry<Lane> {
  idlePrevious: Lane | undefined = undefined;
  idleNext: Lane | undefined = undefined;
  isIdle = false;
  producer: PooledProducer | undefined = undefined;
  /** Handed to the producer, without an outcome. */
  outstanding = 0;
  /** Emits that wait for the producer, in order. */
  readonly queue = new Set<QueuedEmit>();

  constructor(readonly topic: string) {}
}

class QueuedEmit {
  constructor(
    readonly message: ProducerMessage,
    readonly emission: Emission<MessageId>,
    private readonly pool: ProducerPool,
    private readonly lane: Lane,
  ) {}

  cancel(): boolean {
    return this.pool.takeBack(this, this.lane);
  }
}
