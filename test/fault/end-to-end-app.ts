import { type AppConfig } from '../crash/app-config.js';
import { type WiredBrokers } from '../crash/brokers-with-wires.js';

/** Share of the runs that throw by chance. */
export const FAIL_RATE = 0.05;

/** The app of the end-to-end runs, as the first of them wants it. */
export function endToEndApp(
  brokers: WiredBrokers,
  own: Pick<AppConfig, 'topic' | 'markers' | 'concurrency' | 'receiveMaximum'> & Partial<AppConfig>,
): AppConfig {
  return {
    mqttUrl: brokers.mqttWire.url,
    pulsarUrl: brokers.pulsarWire.url,
    clientId: 'end-to-end',
    deadLetterTopic: `${own.topic}-dead-letters`,
    workMs: 8,
    failRate: FAIL_RATE,
    retries: 2,
    redeliverAfterMs: 1000,
    // After an outage of a quarter of a minute the next try could be as far away: the backlog would double.
    pulsarBackoffMs: 5000,
    ...own,
  };
}
