import { type TransportError } from '../../errors.js';
import { type PendingFrame } from './pending-frame.js';
import { type SendOp } from './send-op.js';

/** A flush: settled when every message accepted before it is. */
export interface FlushMarker {
  /** The last message it covers. */
  readonly ordinal: number;
  remaining: number;
  /** The first failure among the messages it covers. */
  error: TransportError | undefined;
  readonly callback: (error: TransportError | undefined) => void;
}

export type ProducerAction =
  /** Look up the topic and create the producer; answer with `linkUp` or `linkDown` of this generation. */
  | { readonly kind: 'dial'; readonly generation: number }
  /** Close the connection of this generation; `linkDown` follows. */
  | { readonly kind: 'disconnect'; readonly generation: number; readonly error: TransportError }
  /** Nothing is left to send: tell the broker (if `generation` has a link) and forget the producer. */
  | {
      readonly kind: 'finish';
      readonly generation: number;
      readonly linked: boolean;
      readonly error: TransportError | undefined;
    }
  | { readonly kind: 'orderBroken'; readonly sequenceId: number; readonly error: TransportError }
  | { readonly kind: 'possibleDuplicate'; readonly sequenceId: number };

/** What the core wants done; the driver drains it after each input. */
export class ProducerOutbox {
  writes: PendingFrame[] = [];
  settled: SendOp[] = [];
  flushed: FlushMarker[] = [];
  actions: ProducerAction[] = [];
}
