import { type MqttClient } from '../mqtt/index.js';
import { type ComponentHealth } from './health.js';

/**
 * `stalled`: messages have failed and are not settled, or the oldest un-acknowledged one is older than `stalledAfter`.
 * `halted`: a policy stopped the intake.
 */
export type MqttServerStatus = 'connecting' | 'connected' | 'reconnecting' | 'stalled' | 'halted' | 'closed' | 'failed';

/** What a strategy knows of its own health. */
export interface ServerHealthFacts {
  readonly client: MqttClient;
  readonly running: number;
  readonly waiting: number;
  /** Failed or unmatched messages that are not acknowledged, also those that run again. */
  readonly held: number;
  /** The oldest message is older than `stalledAfter`. */
  readonly stalled: boolean;
  readonly halted: boolean;
}

export function serverStatus({ client, held, stalled, halted }: ServerHealthFacts): MqttServerStatus {
  const { state } = client.status;
  if (halted) return 'halted';
  if (state === 'connected' || state === 'draining') return stalled || held > 0 ? 'stalled' : 'connected';
  return state === 'idle' ? 'connecting' : state;
}

export function serverHealth({ client, running, waiting, held, stalled, halted }: ServerHealthFacts): ComponentHealth {
  const { state, server, refusedFilters, readingPaused } = client.status;
  const oldest = client.oldestUnacknowledged();
  const reason = halted
    ? 'halted by a failure policy'
    : state !== 'connected'
      ? `not connected (${state})`
      : held > 0
        ? `stalled: ${held} failed messages are held`
        : stalled && oldest !== undefined
          ? `stalled: a message on '${oldest.delivery.message.topic}' is not acknowledged`
          : refusedFilters.length > 0
            ? `not subscribed after a lost session: ${refusedFilters.join(', ')}`
            : undefined;
  return {
    status: reason === undefined ? 'up' : 'down',
    ...(reason !== undefined && { reason }),
    details: {
      connection: state,
      server,
      running,
      waiting,
      held,
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
