import { type ConnectResult, type PublishResult } from './protocol/types.js';

export {
  type ConnectResult,
  type PublishRequest,
  type PublishResult,
  type ServerLimits,
  type Subscription,
  type SubscriptionGrant,
  type UnsubscribeResult,
} from './protocol/types.js';

export type PublishCallback = (error: Error | undefined, result?: PublishResult) => void;

/** A publish on its way. */
export interface PublishHandle {
  /** True if it had not been written: it is removed and fails with ERR_ABORTED. False if it may be at the broker already. */
  cancel(): boolean;
  /** Its bytes were handed to a socket at least once. */
  readonly written: boolean;
}

/**
 * - `idle`: not connected yet. `connecting`, `connected`: as they say. `reconnecting`: lost, the next try is planned.
 * - `draining`: intake is stopped. `closed`: by `close()` or `destroy()`. `failed`: given up, see `lastError`.
 */
export type MqttState = 'idle' | 'connecting' | 'connected' | 'reconnecting' | 'draining' | 'closed' | 'failed';

export interface MqttStatus {
  readonly state: MqttState;
  readonly server: string | undefined;
  readonly lastError: Error | undefined;
  /** Milliseconds to the next dial while `reconnecting`. */
  readonly nextDialIn: number | undefined;
  /** Reading is paused by backpressure. */
  readonly readingPaused: boolean;
  /** Notes about the session that do not stop it, for example a session expiry lower than asked for. */
  readonly notes: readonly string[];
  /** Filters that the broker did not grant again after it had lost the session: nothing comes for them. */
  readonly refusedFilters: readonly string[];
}

/** Every event of `MqttClient.on()` and its payload. */
export interface MqttClientEvents {
  connect: ConnectResult;
  disconnect: {
    readonly cause: Error | undefined;
    readonly willReconnect: boolean;
    /** With `protocolVersion: 'auto'`: the server did not take MQTT 5, and 3.1.1 is tried at once. */
    readonly fallsBack: boolean;
  };
  status: MqttStatus;
  /** The broker had no session for us any more: what it had queued is gone; unacknowledged deliveries here are the only copies. */
  sessionLost: { readonly orphaned: number };
  serverDisconnect: {
    readonly reasonCode: number;
    readonly reasonString: string | undefined;
    readonly serverReference: string | undefined;
  };
  warning: { readonly message: string };
  error: Error;
}

export interface MqttStats {
  /** PUBLISH packets received, copies included. */
  readonly received: number;
  /** Copies bound to a delivery that was still held. */
  readonly bound: number;
  /** Deliveries that failed and were handed out again. */
  readonly redelivered: number;
  readonly acknowledged: number;
  /** Acknowledgements of deliveries whose session or identifier is gone. */
  readonly staleAcknowledgements: number;
  /** Calls that did not fit the delivery's state, for example `start()` of a settled one. */
  readonly refusedTransitions: number;
  /** Deliveries unfinished at `destroy()` or `close()`. */
  readonly abandoned: number;
  /** Deliveries whose identifier the broker reused. */
  readonly superseded: number;
  readonly sessionsLost: number;
  readonly connects: number;
  readonly unknownAcknowledgements: number;
  /** PUBLISH over the Receive Maximum, tolerated. */
  readonly overruns: number;
  readonly droppedQos0: number;
  readonly published: number;
  readonly republished: number;
  /** Publishes repeated in a new session that the broker may have had already. */
  readonly possibleDuplicates: number;
  readonly pendingPublishes: number;
  readonly pendingPublishBytes: number;
  /** Deliveries of QoS 1 and 2 by state. */
  readonly deliveries: Readonly<Record<'waiting' | 'running' | 'retrying' | 'succeeded' | 'failed', number>>;
  /** Of these, those that the server has forgotten with its session: the only copies, which end with this process. */
  readonly orphaned: number;
  /** Milliseconds that reading was paused by backpressure, in all. */
  readonly pausedMs: number;
}

export interface CloseOptions {
  /** Milliseconds; default option `closeTimeout`. */
  readonly timeout?: number;
  /** Seconds, MQTT 5: replaces the session expiry. */
  readonly sessionExpiry?: number;
  /** MQTT 5: the broker publishes the will. */
  readonly withWill?: boolean;
}
