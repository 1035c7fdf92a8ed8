import { type PulsarCommandName, type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { ServerError, type ServerErrorName } from './proto.js';
import { fullTopicName } from './topic.js';

/** Requests that can be made to fail; the answer has the form that belongs to the command. */
export type FailableCommand =
  | 'connect'
  | 'partitionMetadata'
  | 'lookupTopic'
  | 'producer'
  | 'send'
  | 'closeProducer'
  | 'subscribe'
  | 'unsubscribe'
  | 'closeConsumer'
  | 'seek'
  | 'getLastMessageId'
  | 'getTopicsOfNamespace'
  | 'getSchema'
  | 'getOrCreateSchema'
  | 'ack';

interface Failure {
  readonly error: number;
  readonly message: string;
}

interface HeldReceipt {
  readonly connection: PulsarBrokerConnection;
  readonly body: PulsarCommands['sendReceipt'];
}

/** Misbehaviour that the test has ordered: scripted failures, silence, and receipts that are held back. */
export class PulsarFaults {
  private readonly failures = new Map<string, Failure[]>();
  private readonly silent = new Map<string, number>();
  private readonly lookups: Partial<PulsarCommands['lookupTopicResponse']>[] = [];
  private readonly heldTopics = new Set<string>();
  private holdAll = false;
  private held: HeldReceipt[] = [];

  /** The next `times` commands of this type fail. */
  failNext(command: FailableCommand, error: ServerErrorName, message = `scripted ${error}`, times = 1): void {
    const list = this.failures.get(command) ?? [];
    for (let count = 0; count < times; count++) list.push({ error: ServerError[error], message });
    this.failures.set(command, list);
  }

  /** The next `times` commands of this type are taken no notice of. */
  silenceNext(command: PulsarCommandName, times = 1): void {
    this.silent.set(command, (this.silent.get(command) ?? 0) + times);
  }

  /** The next lookup is answered with this instead of what is true. */
  scriptLookup(response: Partial<PulsarCommands['lookupTopicResponse']>): void {
    this.lookups.push(response);
  }

  takeLookup(): Partial<PulsarCommands['lookupTopicResponse']> | undefined {
    return this.lookups.shift();
  }

  takeFailure(command: string): Failure | undefined {
    return this.failures.get(command)?.shift();
  }

  takeSilence(command: string): boolean {
    const left = this.silent.get(command) ?? 0;
    if (left > 0) this.silent.set(command, left - 1);
    return left > 0;
  }

  /** Messages are stored, their receipts wait; for one topic or for all. */
  holdReceipts(topic?: string): void {
    if (topic === undefined) this.holdAll = true;
    else this.heldTopics.add(fullTopicName(topic));
  }

  /** How many receipts wait. */
  get heldReceipts(): number {
    return this.held.length;
  }

  /**
   * Sends waiting receipts, oldest first, and holds no more unless `count` is given. Those of connections that are gone
   * are lost, as on the real wire.
   */
  releaseReceipts(options: { readonly count?: number; readonly order?: 'reversed' } = {}): void {
    if (options.count === undefined) {
      this.holdAll = false;
      this.heldTopics.clear();
    }
    const released = this.held.splice(0, options.count ?? this.held.length);
    if (options.order === 'reversed') released.reverse();
    for (const { connection, body } of released) connection.answer('sendReceipt', body);
  }

  /** Receipts that wait are never sent; `count` of them, oldest first, or all. */
  dropReceipts(count = this.held.length): void {
    this.held.splice(0, count);
  }

  /** For the broker: sends a receipt, now or when it is released. */
  receipt(topic: string, connection: PulsarBrokerConnection, body: PulsarCommands['sendReceipt']): void {
    if (this.holdAll || this.heldTopics.has(topic)) this.held.push({ connection, body });
    else connection.answer('sendReceipt', body);
  }

  /** For the broker: a connection is gone. */
  forget(connection: PulsarBrokerConnection): void {
    this.held = this.held.filter((receipt) => receipt.connection !== connection);
  }
}
