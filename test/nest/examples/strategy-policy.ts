import { MqttServerStrategy, type PulsarClientProxy } from '../../../lib/index.js';

export const createStrategy = (url: string, pulsar: PulsarClientProxy): MqttServerStrategy =>
  new MqttServerStrategy({
    url,
    clientId: 'ingest-1',
    deadLetter: { client: pulsar, pattern: 'dead-letters' },
    failure: {
      // Four runs in this process, the first one included. Before the second a random share of 200 ms, then of 400 ms, 800 ms.
      retry: { attempts: 4, initialDelay: 200, maxDelay: 5_000, perAttemptTimeout: 10_000, maxHold: 60_000 },
      then: 'deadLetter',
    },
  });
