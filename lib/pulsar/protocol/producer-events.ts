import { type TransportError } from '../../errors.js';
import { type SendOp } from './send-op.js';

/** What PRODUCER_SUCCESS and the connection told. */
export interface LinkInfo {
  readonly producerName: string;
  /** The last id the broker has, -1 if none or without deduplication. */
  readonly lastSequenceId: number;
  readonly schemaVersion: Uint8Array | undefined;
  /** Of metadata and payload together. */
  readonly maxMessageSize: number;
}

/** Where the next try should go first: the broker named it. */
export interface DialHint {
  readonly brokerServiceUrl: string | undefined;
  readonly brokerServiceUrlTls: string | undefined;
  /** All later lookups go there too (TOPIC_MIGRATED). */
  readonly migrated: boolean;
}

/** Everything that can happen to a producer, in one inbox. */
export type ProducerInput<O extends SendOp> =
  | O
  | { readonly kind: 'cancel'; readonly op: O }
  | { readonly kind: 'flush' }
  | { readonly kind: 'start'; readonly deadline: number }
  | { readonly kind: 'close'; readonly deadline: number }
  | { readonly kind: 'wake' }
  | LinkEvent;

/** What happens to a link; dropped if it is not the current one's. */
export type LinkEvent =
  | { readonly kind: 'linkUp'; readonly generation: number; readonly info: LinkInfo }
  | { readonly kind: 'linkQueued'; readonly generation: number }
  | { readonly kind: 'linkFailed'; readonly generation: number; readonly error: TransportError }
  | { readonly kind: 'linkDown'; readonly generation: number; readonly error: TransportError }
  /** The broker has answered our CLOSE_PRODUCER: it has told everything about the frames of that link. */
  | { readonly kind: 'left'; readonly generation: number }
  | {
      readonly kind: 'brokerClose';
      readonly generation: number;
      readonly error: TransportError;
      readonly hint: DialHint | undefined;
    }
  | {
      readonly kind: 'receipt';
      readonly generation: number;
      readonly sequenceId: number;
      /** 0 or -1: the broker did not say. */
      readonly highestSequenceId: number;
      readonly ledgerId: number;
      readonly entryId: number;
    }
  | {
      readonly kind: 'sendError';
      readonly generation: number;
      readonly sequenceId: number;
      readonly code: number;
      readonly message: string;
    };

/** What the driver has to do, beside writing and settling. */
export type ProducerAction =
  | { readonly kind: 'dial'; readonly generation: number; readonly hint: DialHint | undefined }
  /**
   * The producer leaves this link: `closeProducer` says so to the broker and keeps the connection, `disconnect` closes the
   * connection.
   */
  | { readonly kind: 'leave'; readonly generation: number; readonly how: 'closeProducer' | 'disconnect' }
  | { readonly kind: 'connected'; readonly generation: number }
  | { readonly kind: 'queued' }
  | { readonly kind: 'disconnected'; readonly error: TransportError }
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delay: number; readonly error: TransportError }
  | { readonly kind: 'orderBroken'; readonly sequenceId: number; readonly error: TransportError }
  | { readonly kind: 'possibleDuplicate'; readonly sequenceId: number; readonly error: TransportError }
  | { readonly kind: 'terminated'; readonly error: TransportError }
  | { readonly kind: 'closed' };
