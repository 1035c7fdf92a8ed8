import { type MqttServerStrategy } from '../../../lib/index.js';

/** @param say where your alarms come from */
export function watch(strategy: MqttServerStrategy, say: (text: string) => void): void {
  strategy.status.subscribe((status) => {
    if (status === 'stalled' || status === 'halted' || status === 'failed') {
      say(`${status}: ${strategy.health().reason}`);
    }
  });
  // What the broker had queued is gone; what is here still runs, and its acknowledgement goes nowhere.
  strategy.on('sessionLost', ({ orphaned }) => say(`the broker lost our session, ${orphaned} messages are only here`));
  strategy.on('warning', ({ message }) => say(message));
}

/** For a page of metrics. */
export function figures(strategy: MqttServerStrategy): Record<string, unknown> {
  const { succeeded, held, deadLettered, discarded, rejected, dropped } = strategy.stats;
  return { succeeded, held, deadLettered, discarded, rejected, dropped, ...strategy.health().details };
}
