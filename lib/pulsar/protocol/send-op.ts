import { type TransportError } from '../../errors.js';
import { type MessageId } from './message-id.js';

/** One message as the user gave it, checked and with its payload as bytes. */
export interface OutgoingMessage {
  /** Null: a tombstone (`null_value`). */
  readonly payload: Buffer | null;
  readonly key?: string;
  readonly keyBytes?: Uint8Array;
  readonly orderingKey?: Uint8Array;
  readonly properties?: Readonly<Record<string, string>>;
  /** Milliseconds since the Unix epoch. */
  readonly eventTime?: number;
  /** Given by the caller: must ascend. */
  readonly sequenceId?: number;
  /** Milliseconds since the Unix epoch. */
  readonly deliverAt?: number;
  readonly replicationClusters?: readonly string[];
  readonly disableBatching?: boolean;
}

/** What a stored (or deduplicated) message got. */
export interface SendResult {
  readonly messageId: MessageId;
  readonly sequenceId: number;
  /** The broker dropped it as a duplicate of one that it has. */
  readonly deduplicated: boolean;
}

export type SendCallback = (error: TransportError | undefined, result?: SendResult) => void;

/** `waiting` for room, in the `open` batch, in a sealed `pending` frame, `settled`. */
export type SendOpState = 'waiting' | 'open' | 'pending' | 'settled';

/** One accepted message on its way; the object is its identity. */
export class SendOp {
  state: SendOpState = 'waiting';
  /** Position in the order of calls. */
  ordinal = 0;
  /** Given when its frame is sealed, and never changed. */
  sequenceId = -1;
  /** Clock time of `submit`, for the send timeout. */
  submittedAt = 0;
  error: TransportError | undefined = undefined;
  result: SendResult | undefined = undefined;

  constructor(
    readonly message: OutgoingMessage,
    /** Bytes that count against the budgets: payload, key, properties and a fixed overhead. */
    readonly bytes: number,
    readonly callback: SendCallback,
  ) {}
}

/** What a message costs beside its payload: the objects that hold it. */
const OVERHEAD = 256;

export function messageBytes(message: OutgoingMessage): number {
  let bytes = OVERHEAD + (message.payload?.length ?? 0);
  if (message.key !== undefined) bytes += message.key.length;
  if (message.keyBytes !== undefined) bytes += message.keyBytes.length;
  if (message.properties !== undefined) {
    for (const key in message.properties) bytes += key.length + message.properties[key].length;
  }
  return bytes;
}
