import { PulsarClient, type PulsarClientOptions } from '../../../../lib/pulsar/index.js';
import { InMemoryPulsarBroker, type PulsarBrokerOptions } from '../../../../lib/testing/pulsar/index.js';

/** Everything that a Pulsar case opens; `close()` in `afterEach`. */
export class PulsarWorld {
  private readonly ends: (() => unknown)[] = [];

  async broker(options: PulsarBrokerOptions = {}): Promise<InMemoryPulsarBroker> {
    const broker = await InMemoryPulsarBroker.start(options);
    this.ends.push(() => broker.close());
    return broker;
  }

  /** A client whose retries come fast. */
  client(broker: InMemoryPulsarBroker, options: Partial<PulsarClientOptions> = {}): PulsarClient {
    const client = new PulsarClient({ url: broker.url, backoff: { initial: 10, max: 100 }, ...options });
    this.ends.unshift(() => client.destroy());
    return client;
  }

  async close(): Promise<void> {
    for (const end of this.ends.splice(0)) await end();
  }
}

export const text = (value: string): { readonly payload: Buffer } => ({ payload: Buffer.from(value) });

/** Sequence ids of the SENDs that came over one connection, in order. */
export function sequenceIds(broker: InMemoryPulsarBroker, connection: number): number[] {
  return broker.log.entries
    .filter((entry) => entry.direction === 'in' && entry.type === 'send' && entry.connection === connection)
    .map((entry) => Number((entry.packet as { sequenceId: unknown }).sequenceId));
}

/** How many commands of a type have come in. */
export function received(broker: InMemoryPulsarBroker, type: string): number {
  return broker.log.entries.filter((entry) => entry.direction === 'in' && entry.type === type).length;
}

/** What became of a promise, without waiting for it. */
export function watch<T>(promise: Promise<T>): { readonly state: 'pending' | 'resolved' | 'rejected' } {
  const watched: { state: 'pending' | 'resolved' | 'rejected' } = { state: 'pending' };
  promise.then(
    () => (watched.state = 'resolved'),
    () => (watched.state = 'rejected'),
  );
  return watched;
}
