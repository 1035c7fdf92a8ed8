import { PulsarClient, type PulsarClientOptions, type PulsarProducer } from '../../../lib/pulsar/index.js';
import { type ProducerOptions } from '../../../lib/pulsar/index.js';
import { InMemoryPulsarBroker, type PulsarBrokerOptions, type PulsarTopic } from '../../../lib/testing/index.js';

export const TOPIC = 'persistent://public/default/telemetry';

/** The client of this package with one producer on an in-memory broker. */
export class PulsarBench {
  /** `texts` of every send that resolved, in the order in which they did. */
  readonly resolved: string[] = [];
  readonly rejected: { readonly text: string; readonly error: Error }[] = [];

  private constructor(
    readonly broker: InMemoryPulsarBroker,
    readonly client: PulsarClient,
    readonly producer: PulsarProducer,
  ) {}

  static async start(
    options: Partial<ProducerOptions> = {},
    settings: { readonly broker?: PulsarBrokerOptions; readonly client?: Partial<PulsarClientOptions> } = {},
  ): Promise<PulsarBench> {
    const broker = await InMemoryPulsarBroker.start(settings.broker);
    const client = new PulsarClient({ url: broker.url, backoff: { initial: 5, max: 20 }, ...settings.client });
    const producer = await client.createProducer({ topic: TOPIC, batching: false, ...options });
    return new PulsarBench(broker, client, producer);
  }

  get topic(): PulsarTopic {
    return this.broker.topic(TOPIC);
  }

  /** Sends and notes what becomes of it; never rejects. */
  send(text: string): Promise<void> {
    return this.producer.send({ payload: Buffer.from(text) }).then(
      () => {
        this.resolved.push(text);
        this.broker.log.changed();
      },
      (error: Error) => {
        this.rejected.push({ text, error });
        this.broker.log.changed();
      },
    );
  }

  sendAll(texts: readonly string[]): Promise<void[]> {
    return Promise.all(texts.map((text) => this.send(text)));
  }

  /** Sequence ids of the SENDs received on one connection. */
  sentOn(connection: number): number[] {
    return this.broker.log.received('send', { connection }).map((body) => body.sequenceId);
  }

  /** Resolves when the broker has received that many SENDs in all. */
  async sends(count: number): Promise<void> {
    await this.broker.log.waitForReceived('send', count);
  }

  async stop(): Promise<void> {
    await this.client.close();
    await this.broker.close();
  }
}

/** `['m0', 'm1', ...]` */
export function texts(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, index) => `m${from + index}`);
}
