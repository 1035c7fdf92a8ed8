import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type StoredPayload } from './verify/read-back.js';

/** Brokers that need nothing installed, in a process of their own as real ones would be. */
export interface EmbeddedBrokers {
  readonly mqttUrl: string;
  readonly pulsarUrl: string;
  /** What the embedded Pulsar holds, asked from itself. */
  read(topic: string): Promise<StoredPayload[]>;
  stop(): Promise<void>;
}

export type BrokerRequest = { readonly read: string };
export type BrokerAnswer =
  { readonly mqttUrl: string; readonly pulsarUrl: string } | { readonly payloads: readonly StoredPayload[] };

/** Starts aedes (MQTT 3.1.1) and the in-memory Pulsar of `nestjs-mqtt-pulsar/testing`. */
export async function startEmbeddedBrokers(): Promise<EmbeddedBrokers> {
  const child = fork(fileURLToPath(new URL('./embedded-brokers.process.js', import.meta.url)), {
    execArgv: [],
    // Ctrl-C reaches the whole group of the terminal: the application stops first, then its brokers.
    detached: true,
  });
  const answer = async (): Promise<BrokerAnswer> => {
    const [message] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the embedded brokers ended with ${code}`);
      }),
    ]);
    return message as BrokerAnswer;
  };
  const urls = await answer();
  if (!('mqttUrl' in urls)) throw new Error('the embedded brokers said nothing of their URLs');
  return {
    ...urls,
    async read(topic) {
      child.send({ read: topic } satisfies BrokerRequest);
      const message = await answer();
      return 'payloads' in message ? [...message.payloads] : [];
    },
    async stop() {
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    },
  };
}
