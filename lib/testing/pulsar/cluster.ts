import { type InMemoryPulsarBroker } from './broker.js';
import { fullTopicName, PulsarTopic } from './topic.js';

/**
 * What brokers of one cluster share: topics with their messages, partition counts, and who serves what. A broker started
 * without a cluster has one of its own.
 */
export class InMemoryPulsarCluster {
  readonly brokers: InMemoryPulsarBroker[] = [];
  /** Deduplication of topics that are created from now on. */
  deduplication = false;
  /** False: a topic that does not exist is not created by a producer or consumer (TopicNotFound). */
  autoTopicCreation = true;

  private readonly topics = new Map<string, PulsarTopic>();
  private readonly partitions = new Map<string, number>();
  private readonly owners = new Map<string, InMemoryPulsarBroker>();
  private readonly assigned = new Map<string, InMemoryPulsarBroker>();
  private ledgers = 0;
  private names = 0;

  /** The topic, made if it was not there. */
  topic(name: string): PulsarTopic {
    const full = fullTopicName(name);
    let topic = this.topics.get(full);
    if (topic === undefined) {
      topic = new PulsarTopic(full, this.deduplication, () => ++this.ledgers);
      this.topics.set(full, topic);
    }
    return topic;
  }

  find(name: string): PulsarTopic | undefined {
    return this.topics.get(fullTopicName(name));
  }

  get topicNames(): string[] {
    return [...this.topics.keys()];
  }

  /** Forgets a topic and its messages. */
  deleteTopic(name: string): void {
    this.topics.delete(fullTopicName(name));
    this.owners.delete(fullTopicName(name));
  }

  /** Makes a topic partitioned, or gives it more partitions; 0 for an ordinary one. */
  setPartitions(name: string, count: number): void {
    this.partitions.set(fullTopicName(name), count);
    for (let index = 0; index < count; index++) this.topic(`${fullTopicName(name)}-partition-${index}`);
  }

  /** Undefined if the topic was never declared partitioned. */
  partitionsOf(name: string): number | undefined {
    return this.partitions.get(fullTopicName(name));
  }

  /** Says which broker serves a topic from its next lookup on; the others redirect there. */
  assign(name: string, broker: InMemoryPulsarBroker): void {
    this.assigned.set(fullTopicName(name), broker);
    this.owners.delete(fullTopicName(name));
  }

  /** Who serves a topic now; undefined until somebody looked it up. */
  ownerOf(name: string): InMemoryPulsarBroker | undefined {
    return this.owners.get(fullTopicName(name));
  }

  /** A lookup at `asked`: the owner, who becomes it if there was none. */
  acquire(name: string, asked: InMemoryPulsarBroker): InMemoryPulsarBroker {
    const full = fullTopicName(name);
    let owner = this.owners.get(full);
    if (owner === undefined || !owner.listening) {
      const wanted = this.assigned.get(full);
      owner = wanted !== undefined && wanted.listening ? wanted : asked;
      this.owners.set(full, owner);
    }
    return owner;
  }

  /** Nobody serves the topic until the next lookup. */
  release(name: string): void {
    this.owners.delete(fullTopicName(name));
  }

  /** Everything a broker served is free for others. */
  releaseAll(broker: InMemoryPulsarBroker): void {
    for (const [name, owner] of this.owners) if (owner === broker) this.owners.delete(name);
  }

  /** A producer name as brokers make them up. */
  generateName(): string {
    return `in-memory-${this.names++}`;
  }
}
