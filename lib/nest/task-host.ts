import { type Clock } from '../net/clock.js';
import { type MqttClient } from '../mqtt/index.js';
import { type DeadlineQueue } from './deadline-queue.js';
import { type DeliveryGate } from './delivery-gate.js';
import { type DeliveryTask } from './delivery-task.js';
import { type EmitScope } from './emit-scope.js';
import { type ProcessingHooks } from './handler-outcome.js';
import { type HandlerEntry } from './handler-registry.js';
import { type HandlerRun } from './handler-run.js';
import { type OpenedReply } from './reply-opening.js';

/** What the server uses of the MQTT client. */
export type MqttSession = Pick<
  MqttClient,
  | 'onDelivery'
  | 'connect'
  | 'subscribe'
  | 'unsubscribe'
  | 'publish'
  | 'start'
  | 'retry'
  | 'acknowledge'
  | 'fail'
  | 'reconnect'
  | 'pauseIntake'
  | 'resumeIntake'
  | 'drain'
  | 'close'
  | 'destroy'
  | 'on'
  | 'status'
  | 'protocolVersion'
  | 'clientId'
>;

/** What the server counted since it was made. */
export interface MqttServerStats {
  /** Deliveries handed over by the session, redelivered ones included. */
  received: number;
  /** Acknowledged because all handlers succeeded. */
  succeeded: number;
  /** Runs of handlers that failed. */
  failedRuns: number;
  /** Runs whose time was over. */
  timedOut: number;
  /** Handlers that ended after their time was over. */
  lateCompletions: number;
  /** Local retries started. */
  retries: number;
  /** Deliveries left un-acknowledged for a redelivery. */
  held: number;
  /** Controlled reconnects to have held deliveries sent again. */
  reconnects: number;
  discarded: number;
  rejected: number;
  deadLettered: number;
  /** Dead letters that their target did not take. */
  deadLetterFailures: number;
  unmatched: number;
  /** Requests whose Message Expiry Interval was over before a handler could start. */
  expired: number;
  replies: number;
  /** Replies that the broker refused for good. */
  replyFailed: number;
  /** QoS 0 messages dropped because too many were waiting. */
  dropped: number;
}

/** What a delivery task needs around it. */
export interface TaskHost {
  readonly client: MqttSession;
  readonly clock: Clock;
  readonly gate: DeliveryGate<DeliveryTask>;
  readonly deadlines: DeadlineQueue;
  readonly hooks: ProcessingHooks | undefined;
  readonly stats: MqttServerStats;
  /** Rounds begun and not ended: what a shutdown waits for. */
  openRounds: number;
  /** Runs whose signal somebody looked at. */
  readonly abortable: Set<HandlerRun>;
  /** Set once everything is to be aborted: the reason for signals made later. */
  readonly abortReason: unknown;
  readonly wallTimeAt: (monotonic: number) => number;
  openScope(entry: HandlerEntry): EmitScope | undefined;
  /** For a request handler. Throws where its envelope does not decode. */
  openReply(run: HandlerRun): OpenedReply;
  /** Every handler of the delivery succeeded. */
  succeeded(task: DeliveryTask): void;
  /** All runs of a round have ended, these ones badly. */
  failed(task: DeliveryTask, runs: readonly HandlerRun[]): void;
}
