import { PulsarClient, type ProducerMessage, type ProducerOptions, type SendResult } from '../../lib/pulsar/index.js';
import { type PulsarAdmin } from '../brokers/pulsar-admin.js';
import { describeWithBrokers, integrationBrokers, unique } from '../integration/harness.js';
import { goReader, javaReader } from './programs.js';
import { type CrossMessage, CrossReader, type ReadCommand } from './reader.js';

/** Where the readers cannot be built their suites are not run, unless REQUIRE_BROKERS=1 makes that a failure. */
export const describeWithReaders = await buildable();

async function buildable(): Promise<typeof describe> {
  if (describeWithBrokers === describe.skip) return describe.skip;
  try {
    goReader();
    await javaReader();
    return describe;
  } catch (error) {
    if (process.env['REQUIRE_BROKERS'] === '1') throw error;
    console.log(`no cross-checks: ${(error as Error).message}`);
    return describe.skip;
  }
}

export interface Produced {
  readonly topic: string;
  readonly producerName: string;
  readonly results: readonly SendResult[];
}

/** Our client on the real broker, and beside it Pulsar's Java client and its Go client, which read what it has sent. */
export class CrossWorld {
  private constructor(
    readonly client: PulsarClient,
    readonly admin: PulsarAdmin,
    private readonly java: CrossReader,
    private readonly go: CrossReader,
  ) {}

  static async open(): Promise<CrossWorld> {
    const { pulsarUrl, admin } = integrationBrokers();
    const [java, go] = await Promise.all([CrossReader.java(pulsarUrl), CrossReader.go(pulsarUrl)]);
    return new CrossWorld(new PulsarClient({ url: pulsarUrl }), admin, java, go);
  }

  async close(): Promise<void> {
    await Promise.all([this.client.close(), this.java.close(), this.go.close()]);
  }

  /** Sends the messages to a new topic, in one turn. */
  async produce(options: Partial<ProducerOptions>, messages: readonly ProducerMessage[]): Promise<Produced> {
    const topic = options.topic ?? `persistent://public/default/${unique('cross')}`;
    const producer = await this.client.createProducer({ ...options, topic });
    try {
      const results = await Promise.all(messages.map((message) => producer.send(message)));
      return { topic, producerName: producer.name, results };
    } finally {
      await producer.close();
    }
  }

  read(language: 'java' | 'go', command: ReadCommand): Promise<CrossMessage[]> {
    return (language === 'java' ? this.java : this.go).read(command);
  }

  /** Reads with both clients and compares all that they tell with what was sent. Gives what Java's client told. */
  async verify(
    produced: Produced,
    messages: readonly ProducerMessage[],
    command: Partial<ReadCommand> = {},
  ): Promise<readonly CrossMessage[]> {
    const order = produced.results.map((_, index) => index).sort((a, b) => byPlace(produced, a, b));
    const check = async (reader: CrossReader, indexes: readonly number[]): Promise<CrossMessage[]> => {
      const found = await reader.read({ topic: produced.topic, count: indexes.length, ...command });
      found.forEach((message, place) => compare(reader.language, message, messages, produced, indexes[place]));
      return found;
    };
    // The Go client gives up on an entry that is one message without a payload: it never hands it out.
    const alone = (index: number): boolean => produced.results[index].messageId.batchIndex < 0;
    const readableByGo = order.filter((index) => !alone(index) || (messages[index].payload?.length ?? 0) > 0);
    const [java] = await Promise.all([check(this.java, order), check(this.go, readableByGo)]);
    return java;
  }
}

function byPlace({ results }: Produced, a: number, b: number): number {
  const [one, other] = [results[a].messageId, results[b].messageId];
  return one.ledgerId - other.ledgerId || one.entryId - other.entryId || one.batchIndex - other.batchIndex;
}

function compare(
  language: 'java' | 'go',
  found: CrossMessage,
  messages: readonly ProducerMessage[],
  { producerName, results }: Produced,
  index: number,
): void {
  const sent = messages[index];
  const { messageId, sequenceId } = results[index];
  const java = language === 'java';
  const keyBytes = sent.keyBytes && Buffer.from(sent.keyBytes).toString('base64');
  const orderingKey = sent.orderingKey && Buffer.from(sent.orderingKey);
  const bytes = Buffer.from(sent.payload ?? []).toString('base64');
  expect([language, index, found.payload ?? '']).toEqual([language, index, bytes]);
  expect(found.properties ?? {}).toEqual(sent.properties ?? {});
  expect(found.key ?? '').toBe(keyBytes ?? sent.key ?? '');
  expect(found.eventTime).toBe(sent.eventTime ?? 0);
  expect(found.producerName).toBe(producerName);
  expect(Math.abs(found.publishTime - Date.now())).toBeLessThan(600_000);
  expect([found.ledgerId, found.entryId, found.batchIndex]).toEqual([
    messageId.ledgerId,
    messageId.entryId,
    // The Go client has other numbers for what is no batch: 0, or -1 after chunks.
    java || messageId.batchIndex >= 0 ? messageId.batchIndex : found.batchIndex,
  ]);
  if (!java) {
    expect(found.orderingKey ?? '').toBe(orderingKey?.toString('latin1') ?? '');
    return;
  }
  expect(found.payload === null).toBe(sent.payload === null);
  expect(found.keyBytes).toBe(keyBytes);
  expect(found.orderingKey).toBe(orderingKey?.toString('base64'));
  expect(found.sequenceId).toBe(sequenceId);
  if (sent.deliverAt !== undefined) expect(found.deliverAt).toBe(sent.deliverAt);
}
