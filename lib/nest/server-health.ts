import { type MqttClient } from '../mqtt/index.js';
import { counted } from './counted.js';
import { type DeliveryGate } from './delivery-gate.js';
import { type ComponentHealth } from './health.js';
import { type IntakeControl } from './intake-control.js';
import { type Redelivery } from './redelivery.js';
import { type StallWatch } from './stall-watch.js';
import { type UnmatchedMessages } from './unmatched.js';

/**
 * - `stalled`: messages have failed and are not settled, or the oldest un-acknowledged one is older than `stalledAfter`
 * - `halted`: a policy stopped the intake. `paused`: `pause()` or `drain()` did
 * - `closing`: `close()` waits for what runs
 */
export type MqttServerStatus =
  'connecting' | 'connected' | 'reconnecting' | 'stalled' | 'halted' | 'paused' | 'closing' | 'closed' | 'failed';

/** The parts of a strategy that know something of its health. */
export interface ServerParts {
  readonly client: MqttClient;
  readonly gate: Pick<DeliveryGate, 'runningCount' | 'waitingCount'>;
  readonly intake: Pick<IntakeControl, 'has'>;
  readonly redelivery: Pick<Redelivery, 'unsettled'>;
  readonly unmatched: Pick<UnmatchedMessages, 'held'>;
  readonly stallWatch: Pick<StallWatch, 'stalled'>;
}

/** How a strategy is, for its status and for health pages. What is worse goes first. */
export class ServerHealth {
  constructor(private readonly parts: ServerParts) {}

  get status(): MqttServerStatus {
    const { client, intake, stallWatch } = this.parts;
    const { state } = client.status;
    if (state === 'closed' || state === 'failed') return state;
    if (intake.has('halted')) return 'halted';
    if (state === 'draining') return 'closing';
    if (state !== 'connected') return state === 'idle' ? 'connecting' : state;
    if (stallWatch.stalled || this.held > 0) return 'stalled';
    return intake.has('paused') ? 'paused' : 'connected';
  }

  check(): ComponentHealth {
    const { client, gate, intake } = this.parts;
    const { state, server, readingPaused } = client.status;
    const oldest = client.oldestUnacknowledged();
    const paused = intake.has('paused');
    const down = this.whyDown();
    const reason = down ?? (paused ? 'paused: nothing new starts until resume()' : undefined);
    return {
      status: down !== undefined ? 'down' : paused ? 'degraded' : 'up',
      ...(reason !== undefined && { reason }),
      details: {
        connection: state,
        server,
        running: gate.runningCount,
        waiting: gate.waitingCount,
        held: this.held,
        paused,
        window: client.window,
        readingPaused,
        readingPausedMs: Math.round(client.stats.pausedMs),
        ...(oldest !== undefined && {
          oldestTopic: oldest.delivery.message.topic,
          oldestAgeMs: Math.round(oldest.ageMs),
        }),
      },
    };
  }

  /** Failed or unmatched messages that are not acknowledged, also those that run again. */
  private get held(): number {
    return this.parts.redelivery.unsettled + this.parts.unmatched.held;
  }

  private whyDown(): string | undefined {
    const { state, lastError, refusedFilters } = this.parts.client.status;
    const refused =
      refusedFilters.length > 0 ? `not subscribed after a lost session: ${refusedFilters.join(', ')}` : undefined;
    switch (this.status) {
      case 'connecting':
      case 'reconnecting':
      case 'failed':
        return `not connected (${state})${lastError === undefined ? '' : `: ${lastError.message}`}`;
      case 'closed':
        return 'not connected (closed)';
      case 'closing':
        return 'closing: nothing new starts';
      case 'halted':
        return 'halted by a failure policy';
      case 'stalled':
        return this.whyStalled() ?? refused;
      case 'paused':
      case 'connected':
        return refused;
    }
  }

  private whyStalled(): string | undefined {
    const { held } = this;
    const topic = this.parts.client.oldestUnacknowledged()?.delivery.message.topic;
    if (held === 0) return topic === undefined ? undefined : `stalled: a message on '${topic}' is not acknowledged`;
    // QoS 0 is in nobody's window.
    const oldest = topic === undefined ? '' : `, the oldest that is not acknowledged is on '${topic}'`;
    return `stalled: ${counted(held, 'failed message is held', 'failed messages are held')}${oldest}`;
  }
}
