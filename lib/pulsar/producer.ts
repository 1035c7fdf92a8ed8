import { errorText } from '../error-text.js';
import { ClosedError, TransportError } from '../errors.js';
import { type Clock, type TimerHandle } from '../net/clock.js';
import { pulsarProducerChannel } from '../observability/channels.js';
import { CancelSignals } from './cancel-signals.js';
import { type ProducerEncryption } from './crypto/index.js';
import { EventHub } from './event-hub.js';
import { type IntakeSettings, MessageIntake } from './message-intake.js';
import { type PartitionHooks, type PartitionProducer } from './partition-producer.js';
import { type MessageRouter, type RoundRobin } from './protocol/partitioner.js';
import { type ProducerAction } from './protocol/producer-events.js';
import { type Send } from './send.js';
import {
  type CancelHandle,
  type ProducerEvents,
  type ProducerMessage,
  type ProducerState,
  type ProducerStats,
  type SendCallback,
  type SendResult,
} from './types.js';

/** What a producer is made of; see `PulsarClient.createProducer`. */
export interface ProducerParts extends IntakeSettings {
  readonly topic: string;
  readonly clock: Clock;
  readonly closeTimeout: number;
  readonly encryption: ProducerEncryption | undefined;
  readonly createTimeout: number;
  readonly lazy: boolean;
  readonly router: MessageRouter;
  readonly roundRobin: RoundRobin | undefined;
  /** 0: never. */
  readonly updateInterval: number;
  readonly countPartitions: () => Promise<number>;
  readonly makePartition: (index: number, hooks: PartitionHooks) => PartitionProducer;
  readonly released: (producer: PulsarProducer) => void;
}

export interface SendOptions {
  /** Takes the message back when it aborts, if nothing of it was written; the send then fails with ERR_ABORTED. */
  readonly signal?: AbortSignal;
}

/**
 * Sends messages to one topic, in the order of the calls (of each partition, where the topic has several). Made by
 * `PulsarClient.createProducer()`; reconnects by itself for as long as it is open.
 */
export class PulsarProducer<T = unknown> {
  /** The full name, without a partition. */
  readonly topic: string;

  private readonly events = new EventHub<ProducerEvents>();
  private readonly partitions: PartitionProducer[] = [];
  private readonly opened = new Set<PartitionProducer>();
  private readonly hooks: PartitionHooks;
  private readonly intake: MessageIntake;
  private readonly signals = new CancelSignals();
  private growth: TimerHandle | undefined = undefined;
  private outstanding = 0;
  private idleFrom: number;
  private closing: Promise<void> | undefined = undefined;

  /** @internal Use `PulsarClient.createProducer()`. */
  constructor(
    private readonly parts: ProducerParts,
    partitions: number,
  ) {
    this.topic = parts.topic;
    this.idleFrom = parts.clock.now();
    this.intake = new MessageIntake(parts, (cause) => this.interceptorFailed(cause));
    this.hooks = {
      settled: (send, error, result) => this.settled(send, error, result),
      event: (partition, action) => this.tell(partition, action),
    };
    this.add(partitions);
  }

  /** Given by the user or, without one, by the broker. */
  get name(): string {
    return this.partitions.find((partition) => partition.name !== '')?.name ?? '';
  }

  /** 0: the topic has no partitions. */
  get partitionCount(): number {
    return this.partitions[0].partition < 0 ? 0 : this.partitions.length;
  }

  /** `ready` only if every opened partition is. */
  get state(): ProducerState {
    if (this.closing !== undefined) {
      return this.partitions.every(({ core }) => core.phase === 'closed') ? 'closed' : 'closing';
    }
    const phases = new Set([...this.opened].map(({ core }) => core.phase));
    if (phases.has('terminated')) return 'terminated';
    if (phases.has('queued')) return 'queued';
    return phases.size === 0 || (phases.size === 1 && phases.has('ready')) ? 'ready' : 'connecting';
  }

  get stats(): ProducerStats {
    const sum = (value: (partition: PartitionProducer) => number): number =>
      this.partitions.reduce((total, partition) => total + value(partition), 0);
    return {
      submitted: sum(({ core }) => core.submitted),
      succeeded: sum(({ core }) => core.outcomes.succeeded),
      failed: sum(({ core }) => core.outcomes.settled - core.outcomes.succeeded),
      deduplicated: sum(({ core }) => core.outcomes.deduplicated),
      resentFrames: sum(({ core }) => core.resentFrames),
      lateReceipts: sum(({ core }) => core.lateReceipts),
      connects: sum(({ core }) => core.connects),
      orderBroken: sum(({ core }) => core.orderBroken),
      possibleDuplicates: sum(({ core }) => core.outcomes.possibleDuplicates),
      pendingMessages: sum(({ core }) => core.pendingMessages),
      pendingBytes: sum(({ core }) => core.pendingBytes),
      waitingMessages: sum(({ core }) => core.waitingMessages),
    };
  }

  /** Since when nothing is under way, on the client's clock; undefined while something is. */
  get idleSince(): number | undefined {
    return this.outstanding === 0 ? this.idleFrom : undefined;
  }

  /**
   * Sends one message. Resolves with the broker's receipt. While the queue or the memory is full it waits, in order; that
   * is the back-pressure.
   *
   * @throws TransportError see README, "Errors of a send": `ambiguous` says that it may be stored all the same
   */
  send(message: ProducerMessage<T>, options?: SendOptions): Promise<SendResult> {
    return new Promise((resolve, reject) => {
      this.submit(message, (error, result) => (error === undefined ? resolve(result!) : reject(error)), options);
    });
  }

  /**
   * `send()` without a promise. The callback is called exactly once, never before this returns.
   *
   * @returns takes the message back while nothing of it was written
   */
  submit(message: ProducerMessage<T>, callback: SendCallback, options?: SendOptions): CancelHandle {
    const send = this.intake.take(message, callback);
    const partition = this.partitions.length === 1 ? this.partitions[0] : this.route(send);
    send.owner = partition;
    this.outstanding += 1;
    if (send.problem === undefined && !this.opened.has(partition)) this.openLate(partition);
    partition.submit(send);
    if (options?.signal !== undefined) send.signal = this.signals.add(options.signal, send);
    return send;
  }

  /** Resolves when everything submitted before has its receipt; rejects with the first failure among it. */
  async flush(): Promise<void> {
    const results = await Promise.allSettled(this.partitions.map((partition) => partition.flush()));
    for (const result of results) if (result.status === 'rejected') throw result.reason as TransportError;
  }

  /**
   * Takes nothing in any more, waits for the receipts of what it has up to `timeout` milliseconds (default: option
   * `closeTimeout`), fails the rest with ERR_CLOSED, and closes. Always resolves; a second call gives the same promise.
   */
  close(options: { readonly timeout?: number } = {}): Promise<void> {
    this.closing ??= this.end(options.timeout ?? this.parts.closeTimeout);
    return this.closing;
  }

  /** Closes at once: what has no receipt fails with ERR_CLOSED. */
  destroy(): void {
    const end = this.end(0);
    this.closing ??= end;
  }

  /** @returns removes the listener */
  on<Name extends keyof ProducerEvents>(event: Name, listener: (payload: ProducerEvents[Name]) => void): () => void {
    return this.events.on(event, listener);
  }

  /** @internal Opens the partitions; rejects with the first that cannot be opened. */
  async open(): Promise<void> {
    const { lazy, createTimeout } = this.parts;
    const first = lazy && this.partitions.length > 1 ? [] : this.partitions;
    for (const partition of first) this.opened.add(partition);
    await Promise.all(first.map((partition) => partition.open(createTimeout)));
    if (this.partitionCount > 0) this.watchGrowth();
    this.parts.encryption?.start((cause, inTheClear) => {
      this.events.emit('encryptionFailed', { cause, inTheClear });
      this.publish('encryptionFailed', cause);
    });
  }

  /** What the router gets wrong is the outcome of that message; a partition of its own it does not need. */
  private route(send: Send): PartitionProducer {
    const { partitions, parts } = this;
    if (send.problem !== undefined) return partitions[0];
    const last = partitions.length - 1;
    try {
      parts.roundRobin?.advance(parts.clock.now());
      const index = parts.router(send.message, partitions.length);
      if (Number.isInteger(index) && index >= 0 && index <= last) return partitions[index];
      send.problem = new TransportError(
        'ERR_OPTIONS',
        `producer.routing: ${index} is not a partition from 0 to ${last}`,
      );
    } catch (error) {
      send.problem = new TransportError('ERR_OPTIONS', 'producer.routing threw', { cause: error });
    }
    return partitions[0];
  }

  private openLate(partition: PartitionProducer): void {
    this.opened.add(partition);
    if (this.closing === undefined) partition.start(0);
  }

  private settled(send: Send, error: TransportError | undefined, result: SendResult | undefined): void {
    this.outstanding -= 1;
    if (this.outstanding === 0) this.idleFrom = this.parts.clock.now();
    if (this.parts.interceptors.length > 0) this.intake.settled(send, error, result);
  }

  /** It only watches: its fault must not take the process down where nobody listens, and must not be hidden. */
  private interceptorFailed(cause: unknown): void {
    if (this.events.has('interceptorFailed')) this.events.emit('interceptorFailed', { cause });
    else process.emitWarning(`An afterReceipt of a producer of '${this.topic}' threw: ${errorText(cause)}`);
  }

  private async end(timeout: number): Promise<void> {
    this.parts.clock.clearTimer(this.growth);
    this.parts.encryption?.stop();
    await Promise.all(this.partitions.map((partition) => partition.close(timeout)));
    this.parts.released(this);
    this.events.emit('closed', undefined);
    this.publish('closed');
  }

  /** Asks for the number of partitions now and then. A failure changes nothing: the next look comes. */
  private watchGrowth(): void {
    const { clock, updateInterval, countPartitions } = this.parts;
    if (updateInterval === 0 || this.closing !== undefined) return;
    this.growth = clock.setTimer(
      () => {
        countPartitions()
          .then((now) => this.grow(now))
          .catch(() => undefined)
          .finally(() => this.watchGrowth());
      },
      updateInterval,
      false,
    );
  }

  private grow(now: number): void {
    const before = this.partitions.length;
    if (now <= before || this.closing !== undefined) return;
    this.add(now);
    if (!this.parts.lazy) for (const partition of this.partitions.slice(before)) this.openLate(partition);
    this.events.emit('partitionsChanged', { before, now });
  }

  private add(count: number): void {
    for (let index = this.partitions.length; index < Math.max(1, count); index++) {
      this.partitions.push(this.parts.makePartition(count === 0 ? -1 : index, this.hooks));
    }
  }

  private tell({ partition, broker }: PartitionProducer, action: ProducerAction): void {
    switch (action.kind) {
      case 'connected':
        this.events.emit('connected', { partition, broker, epoch: action.generation });
        return this.publish('connected');
      case 'queued':
        return this.events.emit('queued', { partition });
      case 'disconnected':
        this.events.emit('disconnected', { partition, cause: action.error });
        return this.publish('disconnected', action.error);
      case 'reconnecting': {
        const { attempt, delay, error } = action;
        this.events.emit('reconnecting', { partition, attempt, delay, cause: error });
        return this.publish('reconnecting', error);
      }
      case 'orderBroken':
      case 'possibleDuplicate': {
        const { sequenceId, error } = action;
        this.events.emit(action.kind, { partition, sequenceId, cause: error });
        return this.publish(action.kind, error);
      }
      case 'terminated':
        this.events.emit('terminated', { partition, cause: action.error });
        return this.publish('terminated', action.error);
      case 'dial':
      case 'leave':
      case 'closed':
    }
  }

  private publish(state: Parameters<typeof event>[2], cause?: unknown): void {
    if (pulsarProducerChannel.hasSubscribers) {
      pulsarProducerChannel.publish(event(this.topic, this.name, state, cause));
    }
  }
}

function event(
  topic: string,
  producer: string,
  state: import('../observability/channels.js').ProducerEvent['state'],
  cause: unknown,
): import('../observability/channels.js').ProducerEvent {
  return { topic, producer, state, ...(cause !== undefined && { cause }) };
}

/** For sends after the end. */
export function producerClosed(topic: string): ClosedError {
  return new ClosedError(`The producer of '${topic}' is closed`);
}
