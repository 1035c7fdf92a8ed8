import { type Properties, type Qos } from '../codec/packets.js';
import { type Subscription } from './types.js';

/** An outgoing QoS 1 or 2 publish. */
export interface StoredPublish {
  /** Ascending in the order of the publish calls; the key. */
  readonly sequence: number;
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly qos: Qos;
  readonly retain: boolean;
  readonly properties?: Properties;
  /** 0 until it was written for the first time. */
  readonly packetId: number;
  /** QoS 2: PUBREC has come, PUBREL is due [MQTT-4.3.3-6]. */
  readonly released: boolean;
  /** Milliseconds since the epoch; the Message Expiry Interval counts from here. */
  readonly storedAt: number;
}

/** Everything of a session that must outlive the process. */
export interface StoredSession {
  /** Ascending by sequence. */
  readonly publishes: readonly StoredPublish[];
  /** Sequences in the order of their PUBRECs, for the order of the PUBRELs [MQTT-4.6.0-4]. */
  readonly releaseOrder: readonly number[];
  /** Identifiers of QoS 2 messages between our PUBREC and the broker's PUBREL. */
  readonly receivedIds: readonly number[];
  /** What the broker has granted. */
  readonly filters: readonly Subscription[];
}

/** One change. A batch of them is applied completely or not at all. */
export type SessionStoreChange =
  | { readonly type: 'putPublish'; readonly publish: StoredPublish }
  | { readonly type: 'sendPublish'; readonly sequence: number; readonly packetId: number }
  | { readonly type: 'releasePublish'; readonly sequence: number }
  | { readonly type: 'deletePublish'; readonly sequence: number }
  | { readonly type: 'putReceived'; readonly packetId: number }
  | { readonly type: 'deleteReceived'; readonly packetId: number }
  | { readonly type: 'clearReceived' }
  | { readonly type: 'putFilters'; readonly filters: readonly Subscription[] };
