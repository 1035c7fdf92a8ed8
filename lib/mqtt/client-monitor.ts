import { toError } from '../error-text.js';
import { isTransportError, SubscriptionError } from '../errors.js';
import { type Clock } from '../net/clock.js';
import { type ConnectionEvent, mqttConnectionChannel } from '../observability/channels.js';
import { EventEmitterOf } from './event-emitter.js';
import { type MqttSession } from './protocol/session.js';
import {
  type MqttClientEvents,
  type MqttState,
  type MqttStats,
  type MqttStatus,
  type SubscriptionGrant,
} from './types.js';

/** What can be seen of a client from outside: state, events, counters, the diagnostics channel. */
export class ClientMonitor {
  readonly events = new EventEmitterOf<MqttClientEvents>();
  state: MqttState = 'idle';
  lastError: Error | undefined = undefined;
  // valid for one connection
  notes: string[] = [];

  constructor(
    private readonly session: MqttSession,
    private readonly clock: Clock,
  ) {}

  setState(state: MqttState): void {
    if (state === this.state) return;
    this.state = state;
    if (this.events.has('status')) this.events.emit('status', this.status);
  }

  get status(): MqttStatus {
    const { nextDialAt, server, readingPaused, refusedFilters } = this.session;
    return {
      state: this.state,
      server,
      lastError: this.lastError,
      nextDialIn: nextDialAt === undefined ? undefined : Math.max(0, nextDialAt - this.clock.now()),
      readingPaused,
      notes: this.notes,
      refusedFilters,
    };
  }

  get stats(): MqttStats {
    const { waiting, running, retrying, succeeded, failed } = this.session.deliveries;
    return {
      ...this.session.counters,
      pendingPublishes: this.session.pendingPublishes,
      pendingPublishBytes: this.session.pendingPublishBytes,
      deliveries: { waiting, running, retrying, succeeded, failed },
      orphaned: this.session.orphaned,
      pausedMs: this.session.pausedMs(this.clock.now()),
    };
  }

  /** What is known of the last connection counts no more. */
  newConnection(): void {
    this.notes = [];
  }

  resubscribeRefused(grants: readonly SubscriptionGrant[]): void {
    const filters = grants.map(({ filter }) => `'${filter}'`).join(', ');
    const error = new SubscriptionError(
      `After the session was lost the broker did not grant again: ${filters}`,
      grants.map(({ filter, reasonCode }) => ({ filter, reasonCode })),
    );
    this.lastError = error;
    this.notes.push(error.message);
    this.events.emit('error', error);
  }

  report(state: ConnectionEvent['state'], cause?: unknown): void {
    if (!mqttConnectionChannel.hasSubscribers) return;
    const event: ConnectionEvent = { client: this.session.clientId, peer: this.session.server, state, cause };
    mqttConnectionChannel.publish(event);
  }

  /** What a callback threw must not stop the session; without a listener it surfaces as an uncaught exception. */
  failed(error: unknown): void {
    const failure = toError(error);
    if (isTransportError(failure) && failure.code === 'ERR_SESSION') this.lastError = failure;
    if (this.events.has('error')) this.events.emit('error', failure);
    else {
      this.clock.endOfTurn(() => {
        throw failure;
      });
    }
  }
}
