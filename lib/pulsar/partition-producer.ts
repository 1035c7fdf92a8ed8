import { ClosedError, isTransportError, TransportError } from '../errors.js';
import { type Clock } from '../net/clock.js';
import { type Endpoint } from '../net/dial.js';
import { Alarm } from './alarm.js';
import { type EncodableMessage } from './codec/send-types.js';
import { type ClientCommand, type KeyValue, type SchemaInfo } from './codec/command-types.js';
import { type BrokerTarget, type Connection } from './connection.js';
import { type ConnectionPool } from './connection-pool.js';
import { type Lookup } from './lookup.js';
import { PartitionLink } from './partition-link.js';
import { MessageId } from './message-id.js';
import { type FrameCodec } from './protocol/frame-maker.js';
import { type MemoryBudget } from './protocol/memory-budget.js';
import { type DialHint, type ProducerAction } from './protocol/producer-events.js';
import { type ProducerCoreConfig, ProducerState } from './protocol/producer-state.js';
import { type SealedFrame, type Settlement } from './protocol/send-op.js';
import { type Send } from './send.js';
import { type SendResult } from './types.js';

/** What the producers of a client share. */
export interface ProducerServices {
  readonly pool: ConnectionPool;
  readonly lookup: Lookup;
  readonly budget: MemoryBudget;
  readonly clock: Clock;
}

/** What PRODUCER says, the same on every link. */
export interface ProducerIdentity {
  /** Full name, of the partition if it is one. */
  readonly topic: string;
  /** -1: the topic has no partitions. */
  readonly partition: number;
  /** Given by the user. */
  readonly name: string | undefined;
  readonly accessMode: number;
  readonly properties: readonly KeyValue[];
  readonly schema: SchemaInfo | undefined;
  readonly encrypted: boolean;
}

export interface PartitionHooks {
  /** Told for every outcome before the sender is. */
  settled(send: Send, error: TransportError | undefined, result: SendResult | undefined): void;
  event(partition: PartitionProducer, action: ProducerAction): void;
}

/** The I/O of one partition's producer: one guarded loop around {@link ProducerState}, one timer, one link at a time. */
export class PartitionProducer {
  readonly partition: number;
  readonly producerId: number;
  readonly core: ProducerState<Send>;
  /** Given by the user, or by the broker at the first link. */
  name: string;
  /** The URL of the broker of the current or last link. */
  broker = '';

  private readonly alarm: Alarm;
  private running = false;
  private scheduled = false;

  private link: PartitionLink | undefined = undefined;

  /** The cluster the topic has moved to. */
  private serviceUrl: Endpoint | undefined = undefined;
  /** The broker of the last try. */
  private target: BrokerTarget | undefined = undefined;
  private topicEpoch: number | undefined = undefined;
  private leaving: Promise<void> = Promise.resolve();
  private closeTimeout = 0;
  private readonly whenUp: { resolve: () => void; reject: (error: TransportError) => void }[] = [];
  private readonly whenClosed: (() => void)[] = [];
  private hasClosed = false;

  constructor(
    private readonly identity: ProducerIdentity,
    config: ProducerCoreConfig,
    codec: FrameCodec<EncodableMessage>,
    private readonly services: ProducerServices,
    private readonly hooks: PartitionHooks,
  ) {
    this.partition = identity.partition;
    this.producerId = config.producerId;
    this.name = identity.name ?? '';
    this.core = new ProducerState<Send>(config, codec, services.budget, { memoryFreed: () => this.wake() });
    this.alarm = new Alarm(services.clock, () => this.run());
  }

  /**
   * Opens the producer. Resolves when the broker has accepted it.
   *
   * @param timeoutMs how long passing failures are tried again; 0 = for ever
   */
  open(timeoutMs: number): Promise<void> {
    const opened = new Promise<void>((resolve, reject) => this.whenUp.push({ resolve, reject }));
    this.start(timeoutMs);
    return opened;
  }

  start(timeoutMs: number): void {
    this.core.start(timeoutMs === 0 ? Infinity : this.services.clock.now() + timeoutMs);
    this.schedule();
  }

  submit(send: Send): void {
    this.core.submit(send);
    if (!this.scheduled) this.schedule();
  }

  cancel(send: Send): boolean {
    const cancelled = this.core.cancel(send);
    if (cancelled) this.schedule();
    return cancelled;
  }

  flush(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.core.flush((error: TransportError | undefined) => (error === undefined ? resolve() : reject(error)));
      this.schedule();
    });
  }

  /** Drains, then closes. Always resolves. */
  close(timeoutMs: number): Promise<void> {
    if (this.hasClosed) return this.leaving;
    const closed = new Promise<void>((resolve) => this.whenClosed.push(resolve));
    this.closeTimeout = timeoutMs;
    this.core.close(this.services.clock.now() + timeoutMs);
    this.schedule();
    return closed;
  }

  private wake(): void {
    this.core.wake();
    this.schedule();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    this.services.clock.endOfTurn(this.scheduledRun);
  }

  private readonly scheduledRun = (): void => {
    this.scheduled = false;
    this.run();
  };

  /** The loop. User code that is called from within it only appends, and is taken up by the same loop. */
  private run(): void {
    if (this.running) return;
    this.running = true;
    const { core, services } = this;
    const { clock } = services;
    do {
      core.step(clock.now(), clock.wallTime(), clock.random());
      this.write();
      this.act();
      this.settle();
    } while (core.hasInput);
    this.running = false;
    if (!this.hasClosed) this.alarm.set(core.nextDeadline());
    services.budget.wakeFirst();
  }

  private write(): void {
    const { writes } = this.core;
    if (writes.length === 0) return;
    const connection = this.link?.connection;
    for (let index = 0; index < writes.length; index++) connection?.write(writes[index].bytes);
    writes.length = 0;
  }

  private act(): void {
    const { actions } = this.core;
    if (actions.length === 0) return;
    for (const action of actions.splice(0)) {
      switch (action.kind) {
        case 'dial':
          void this.dial(action.generation, action.hint);
          break;
        case 'leave':
          this.leave(action.how);
          break;
        case 'connected':
          for (const waiter of this.whenUp.splice(0)) waiter.resolve();
          break;
        case 'terminated':
          for (const waiter of this.whenUp.splice(0)) waiter.reject(action.error);
          break;
        case 'closed':
          this.closed();
          break;
        default:
      }
      this.hooks.event(this, action);
    }
  }

  private settle(): void {
    const { settlements } = this.core;
    for (let next = settlements.shift(); next !== undefined; next = settlements.shift()) this.tell(next);
  }

  private tell(settlement: Settlement<Send>): void {
    switch (settlement.kind) {
      case 'stored': {
        const { frame, ledgerId, entryId } = settlement;
        const { ops } = frame;
        for (let index = 0; index < ops.length; index++) {
          const send = ops[index];
          if (send === undefined) continue;
          const messageId = this.messageId(frame, index, ledgerId, entryId);
          this.call(send, undefined, { messageId, sequenceId: send.sequenceId, deduplicated: false });
        }
        return;
      }
      case 'deduplicated': {
        const { op } = settlement;
        const messageId = new MessageId(-1, -1, this.partition);
        return this.call(op, undefined, { messageId, sequenceId: op.sequenceId, deduplicated: true });
      }
      case 'failed':
        return this.call(settlement.op, settlement.error, undefined);
      case 'flushed':
        return (settlement.token as (error: TransportError | undefined) => void)(settlement.error);
    }
  }

  private call(send: Send, error: TransportError | undefined, result: SendResult | undefined): void {
    this.hooks.settled(send, error, result);
    try {
      send.settle(error, result);
    } catch (thrown) {
      // A fault in the user's callback is the user's: it must not stop the loop, and must not be hidden.
      queueMicrotask(() => {
        throw thrown;
      });
    }
  }

  private messageId(frame: SealedFrame<Send>, index: number, ledgerId: number, entryId: number): MessageId {
    if (frame.batch) return new MessageId(ledgerId, entryId, this.partition, index, frame.ops.length);
    const first = frame.chunk?.stored[0];
    if (first === undefined) return new MessageId(ledgerId, entryId, this.partition);
    const firstChunk = new MessageId(first.ledgerId, first.entryId, this.partition);
    return new MessageId(ledgerId, entryId, this.partition, -1, 0, firstChunk);
  }

  private leave(how: 'closeProducer' | 'disconnect'): void {
    const { link } = this;
    this.link = undefined;
    if (link === undefined) return;
    if (how === 'disconnect') {
      const { broker } = link.connection;
      link.connection.destroy(new TransportError('ERR_REMOTE_PROTOCOL', `${broker}: the answers do not fit`));
      return;
    }
    const timeout = Math.min(LEAVE_TIMEOUT, this.closeTimeout || LEAVE_TIMEOUT);
    this.leaving = link.connection.closeProducer(this.producerId, timeout).then((acknowledged) => {
      if (!acknowledged) return;
      this.core.post({ kind: 'left', generation: link.generation });
      this.run();
    });
  }

  private closed(): void {
    this.hasClosed = true;
    this.alarm.clear();
    const error = new ClosedError(`The producer of '${this.identity.topic}' was closed`);
    for (const waiter of this.whenUp.splice(0)) waiter.reject(error);
    const waiting = this.whenClosed.splice(0);
    void this.leaving.then(() => {
      for (const resolve of waiting) resolve();
    });
  }

  /** One try: find the broker, connect, PRODUCER. Whatever comes of it is posted with its generation. */
  private async dial(generation: number, hint: DialHint | undefined): Promise<void> {
    const { core, identity } = this;
    try {
      // A CLOSE_PRODUCER under way would close the next one too.
      await this.leaving;
      const connection = await this.connect(hint);
      if (core.generation !== generation || core.phase !== 'connecting') return;
      const link = new PartitionLink(core, generation, connection, this.producerId, () => this.run());
      this.link = link;
      const success = await connection.openProducer(
        link,
        (requestId) => this.command(requestId, generation),
        `PRODUCER on '${identity.topic}'`,
        () => link.queued(),
      );
      if (this.link !== link) {
        // Too late, nobody waits for it: unless a newer try uses the connection, the broker must not keep it.
        if (this.link?.connection !== connection) void connection.closeProducer(this.producerId, LEAVE_TIMEOUT);
        return;
      }
      this.name = success.producerName;
      this.topicEpoch = success.topicEpoch ?? this.topicEpoch;
      this.broker = connection.broker;
      core.post({
        kind: 'linkUp',
        generation,
        info: {
          producerName: success.producerName,
          lastSequenceId: success.lastSequenceId ?? -1,
          schemaVersion: success.schemaVersion,
          maxMessageSize: connection.maxMessageSize,
        },
      });
    } catch (error) {
      if (this.link?.generation === generation) this.link = undefined;
      core.post({ kind: 'linkFailed', generation, error: asTransportError(error, identity.topic) });
    }
    this.run();
  }

  private async connect(hint: DialHint | undefined): Promise<Connection> {
    const { pool, lookup } = this.services;
    const hinted = lookup.hinted(hint);
    if (hinted !== undefined && hint?.migrated === true) this.serviceUrl = hinted;
    this.target =
      hinted !== undefined && hint?.migrated === false
        ? lookup.assigned(hinted, this.target)
        : await lookup.broker(this.identity.topic, this.serviceUrl);
    return pool.connect(this.target, this.producerId);
  }

  private command(requestId: number, epoch: number): ClientCommand {
    const { topic, name, accessMode, properties, schema, encrypted } = this.identity;
    // A name that the broker gave is kept, but not claimed as the user's.
    const producerName = this.name === '' ? undefined : this.name;
    return {
      type: 'producer',
      topic,
      producerId: this.producerId,
      requestId,
      epoch,
      ...(producerName !== undefined && { producerName }),
      userProvidedProducerName: name !== undefined,
      producerAccessMode: accessMode,
      ...(properties.length > 0 && { metadata: properties }),
      ...(schema !== undefined && { schema }),
      ...(encrypted && { encrypted }),
      ...(this.topicEpoch !== undefined && { topicEpoch: this.topicEpoch }),
    };
  }
}

/** Milliseconds to wait for the answer to CLOSE_PRODUCER. */
const LEAVE_TIMEOUT = 5000;

function asTransportError(error: unknown, topic: string): TransportError {
  if (isTransportError(error)) return error;
  return new TransportError('ERR_CONNECTION', `No producer for '${topic}'`, { retriable: true, cause: error });
}
