import { type TransportError } from '../errors.js';
import { type MessageId } from './message-id.js';

/** One message to send. The bytes must not be changed before the send is settled: they are not copied at the call. */
export interface ProducerMessage<T = unknown> {
  /** The bytes; `null` is a tombstone (no value). May be absent if the producer has a schema and `value` is given. */
  readonly payload?: Uint8Array | null;
  /** Encoded by the producer's schema, in place of `payload`; `null` is a tombstone. */
  readonly value?: T | null;
  /** Partition key: the same key goes to the same partition, and to the same consumer of a Key_Shared subscription. */
  readonly key?: string;
  /** A partition key of bytes, in place of `key`. */
  readonly keyBytes?: Uint8Array;
  /** Takes the place of the key for Key_Shared subscriptions. */
  readonly orderingKey?: Uint8Array;
  readonly properties?: Readonly<Record<string, string>>;
  /** Milliseconds since 1970. */
  readonly eventTime?: number;
  /** An id of your own for deduplication; must be larger than every earlier one of this producer. */
  readonly sequenceId?: number;
  /** Delivered to Shared and Key_Shared consumers not before this time: milliseconds since 1970. */
  readonly deliverAt?: number;
  /** Like `deliverAt`, in milliseconds from the call. */
  readonly deliverAfter?: number;
  /** Replicated to these clusters only; an empty list replicates nowhere. */
  readonly replicationClusters?: readonly string[];
  /** Sent as an entry of its own, after everything that was submitted before it. */
  readonly disableBatching?: boolean;
}

/** What the broker's send receipt says. */
export interface SendResult {
  /** Where it is stored; `-1:-1` if `deduplicated`. */
  readonly messageId: MessageId;
  readonly sequenceId: number;
  /** The broker had a message with this sequence id already: this one was not stored a second time. */
  readonly deduplicated: boolean;
}

export type SendCallback = (error: TransportError | undefined, result?: SendResult) => void;

export interface CancelHandle {
  /**
   * Takes the message back: true if nothing of it was written; its callback is called with ERR_ABORTED. False if it was
   * written, settled or cancelled already.
   */
  cancel(): boolean;
}

export type ProducerState = 'connecting' | 'queued' | 'ready' | 'closing' | 'closed' | 'terminated';

/** Events of a producer; `partition` is -1 for a topic without partitions. */
export interface ProducerEvents {
  /** The broker accepted the producer (again). */
  connected: { readonly partition: number; readonly broker: string; readonly epoch: number };
  /** The connection or the broker's side of the producer is gone. Nothing is lost: what is pending is sent again. */
  disconnected: { readonly partition: number; readonly cause: TransportError };
  /** The next try comes in `delay` milliseconds. */
  reconnecting: {
    readonly partition: number;
    readonly attempt: number;
    readonly delay: number;
    readonly cause: TransportError;
  };
  /** `waitForExclusive`: accepted, and waiting until the topic is free. */
  queued: { readonly partition: number };
  /** The end: everything pending was rejected with `cause`, and nothing dials again. */
  terminated: { readonly partition: number; readonly cause: TransportError };
  /** A message failed at the broker while later ones were under way: it will be stored after them. */
  orderBroken: { readonly partition: number; readonly sequenceId: number; readonly cause: TransportError };
  /** A message failed although it may be stored: sending it again may make a duplicate. */
  possibleDuplicate: { readonly partition: number; readonly sequenceId: number; readonly cause: TransportError };
  /**
   * A public key could not be read for a new data key; it is tried again. `inTheClear`: there is no key yet, and messages
   * go out without encryption, as `failureAction: 'send'` asks.
   */
  encryptionFailed: { readonly cause: TransportError; readonly inTheClear: boolean };
  /** An interceptor threw in `afterReceipt`; the send is settled all the same. Without a listener it is a process warning. */
  interceptorFailed: { readonly cause: unknown };
  /** The topic has more partitions than before; the old ones were not touched. */
  partitionsChanged: { readonly before: number; readonly now: number };
  closed: undefined;
}

/** Counted since the producer was made. */
export interface ProducerStats {
  /** Messages taken in. */
  readonly submitted: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly deduplicated: number;
  /** Frames sent once more on a new connection. */
  readonly resentFrames: number;
  /** Receipts for what had been settled before. */
  readonly lateReceipts: number;
  readonly connects: number;
  readonly orderBroken: number;
  readonly possibleDuplicates: number;
  /** Messages with permit now: taken in, without an outcome. */
  readonly pendingMessages: number;
  readonly pendingBytes: number;
  /** Messages that wait for a permit now. */
  readonly waitingMessages: number;
}

/** May change a message before it is sent and sees what became of it. Runs in the order given. */
export interface ProducerInterceptor {
  /** Returns the message to send: the given one, or another. An exception fails the send. */
  beforeSend?(message: ProducerMessage): ProducerMessage;
  /** After the receipt or the failure, before the sender is told. An exception changes nothing: event `interceptorFailed`. */
  afterReceipt?(message: ProducerMessage, error: TransportError | undefined, result: SendResult | undefined): void;
}

/** The state of a connection to one broker, for `PulsarClient.status`. */
export interface BrokerConnectionStatus {
  readonly broker: string;
  readonly state: 'connecting' | 'ready' | 'closed';
}

export interface PulsarClientStatus {
  readonly state: 'open' | 'closing' | 'closed';
  /** At least one connection is up. */
  readonly connected: boolean;
  readonly connections: readonly BrokerConnectionStatus[];
  readonly producers: number;
  /** Why the last try to connect failed, until one succeeds. */
  readonly lastError: TransportError | undefined;
}

/** Events of a client: its connections. */
export interface PulsarClientEvents {
  connected: { readonly broker: string };
  disconnected: { readonly broker: string; readonly cause: TransportError };
  connectFailed: { readonly broker: string; readonly cause: TransportError };
  /**
   * The broker sent a command that nothing here has a use for: of a type that this version does not know, or an answer
   * that nobody waits for. The connection goes on.
   */
  ignoredCommand: { readonly broker: string; readonly command: string };
}
