import { type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { answerError, isServed, type PulsarHost } from './host.js';
import { type ProducerHandle } from './producer-handle.js';
import { type ServerErrorName } from './proto.js';
import { registerSchema } from './schemas.js';
import { type PulsarTopic } from './topic.js';

export const AccessMode = { Shared: 0, Exclusive: 1, WaitForExclusive: 2, ExclusiveWithFencing: 3 } as const;

/** A refusal of PRODUCER. */
class Refused extends Error {
  constructor(
    readonly error: ServerErrorName,
    message: string,
  ) {
    super(message);
  }
}

/** PRODUCER and CLOSE_PRODUCER: names, epochs, access modes. */
export class ProducerHandler {
  constructor(private readonly host: PulsarHost) {}

  async producer(command: PulsarCommands['producer'], connection: PulsarBrokerConnection): Promise<void> {
    const { requestId, producerId } = command;
    const existing = connection.producers.get(producerId);
    if (existing !== undefined) {
      // The same id twice on one connection: what was created is confirmed, what still waits is not created again.
      if (existing.ready) this.confirm(existing, requestId);
      else answerError(connection, requestId, 'ServiceNotReady', 'Producer is already present on the connection');
      return;
    }
    if (!isServed(this.host, connection, requestId, command.topic)) return;
    try {
      const producer = this.create(command, connection);
      this.refuseIfTaken(producer);
      await this.replaceNamesake(producer);
      if (!connection.open) return;
      this.enter(producer);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      answerError(connection, requestId, error.error, error.message);
    }
  }

  closeProducer(command: PulsarCommands['closeProducer'], connection: PulsarBrokerConnection): void {
    const { requestId, producerId } = command;
    const producer = connection.producers.get(producerId);
    if (producer !== undefined) this.remove(producer);
    connection.answer('success', { requestId });
  }

  /** Takes a producer off its topic; whoever waited for exclusive access may get it. */
  remove(producer: ProducerHandle): void {
    const { topic, connection, producerId } = producer;
    if (connection.producers.get(producerId) === producer) connection.producers.delete(producerId);
    if (topic.producers.get(producer.name) === producer) topic.producers.delete(producer.name);
    const at = topic.waiting.indexOf(producer);
    if (at >= 0) topic.waiting.splice(at, 1);
    if (topic.exclusive === producer) topic.exclusive = undefined;
    this.admitWaiting(topic);
  }

  private create(command: PulsarCommands['producer'], connection: PulsarBrokerConnection): ProducerHandle {
    const { cluster, options } = this.host;
    const denied = options.authorize?.(command.topic, 'produce');
    if (denied !== undefined) throw new Refused('AuthorizationError', denied);
    if (cluster.find(command.topic) === undefined && !cluster.autoTopicCreation) {
      throw new Refused('TopicNotFound', `Topic ${command.topic} does not exist`);
    }
    const topic = cluster.topic(command.topic);
    if (topic.terminated) throw new Refused('TopicTerminatedError', 'Topic was already terminated');
    if (topic.quota === 'hold') {
      throw new Refused(
        'ProducerBlockedQuotaExceededError',
        'Cannot create producer on topic with backlog quota exceeded',
      );
    }
    if (topic.quota === 'exception') {
      throw new Refused(
        'ProducerBlockedQuotaExceededException',
        'Cannot create producer on topic with backlog quota exceeded',
      );
    }
    if (topic.encryptionRequired && command.encrypted !== true) {
      throw new Refused('MetadataError', 'Encryption is required in this topic');
    }
    let schemaVersion: Buffer | undefined;
    if (command.schema !== undefined) {
      schemaVersion = registerSchema(topic, command.schema, options);
      if (schemaVersion === undefined) throw new Refused('IncompatibleSchema', 'Incompatible schema');
    }
    return {
      connection,
      topic,
      producerId: command.producerId,
      requestId: command.requestId,
      name: command.producerName ?? cluster.generateName(),
      epoch: command.epoch ?? 0,
      command,
      schemaVersion,
      ready: false,
      topicEpoch: undefined,
      fenced: false,
      wedged: false,
    };
  }

  /** Exclusive is refused before anybody asks whether who is there still lives, were it the same producer before. */
  private refuseIfTaken({ topic, connection, command }: ProducerHandle): void {
    const holder = topic.exclusive;
    if (command.producerAccessMode !== AccessMode.Exclusive || holder === undefined) return;
    if (holder.connection !== connection) throw taken(holder);
  }

  /**
   * A producer of the same name: its successor is the same id on the same connection with a higher epoch; from another
   * connection the old one has to prove that it lives.
   */
  private async replaceNamesake(producer: ProducerHandle): Promise<void> {
    const { topic, connection } = producer;
    const older = topic.producers.get(producer.name);
    if (older === undefined) return;
    if (older.connection === connection) {
      if (older.producerId === producer.producerId && older.epoch < producer.epoch) return this.remove(older);
    } else if (!(await older.connection.isAlive(this.host.options.livenessTimeout ?? 5_000))) {
      older.connection.cut();
      return;
    }
    if (topic.producers.get(producer.name) === undefined) return;
    throw new Refused('ProducerBusy', `Producer with name '${producer.name}' is already connected to topic`);
  }

  /** Access modes, then the success. */
  private enter(producer: ProducerHandle): void {
    const { topic, command } = producer;
    const mode = command.producerAccessMode ?? AccessMode.Shared;
    const occupied = topic.exclusive !== undefined || topic.waiting.length > 0;
    const moved = command.topicEpoch !== undefined && command.topicEpoch < topic.epoch;
    if (topic.producers.size >= topic.maxProducers) {
      throw new Refused('ProducerBusy', 'Topic reached max producers limit');
    }
    if (mode === AccessMode.Shared) {
      if (occupied) throw new Refused('ProducerBusy', 'Topic has an existing exclusive producer');
    } else if (mode === AccessMode.Exclusive) {
      if (occupied) throw taken(topic.exclusive);
      if (topic.producers.size > 0) throw new Refused('ProducerFenced', 'Topic has existing shared producers');
      if (moved) throw new Refused('ProducerFenced', `Topic epoch has already moved. Current epoch: ${topic.epoch}`);
      this.own(producer);
    } else if (mode === AccessMode.WaitForExclusive) {
      if (occupied || topic.producers.size > 0) return this.wait(producer);
      if (moved) throw new Refused('ProducerFenced', `Topic epoch has already moved. Current epoch: ${topic.epoch}`);
      this.own(producer);
    } else {
      this.fenceOthers(topic);
      // Only then: one that comes back too late puts out who is there, who may come back in its turn.
      if (moved) throw new Refused('ProducerFenced', `Topic epoch has already moved. Current epoch: ${topic.epoch}`);
      this.own(producer);
    }
    this.admit(producer);
  }

  /** Those who have the topic are told nothing, and their next SEND ends their connection; those in line are refused. */
  private fenceOthers(topic: PulsarTopic): void {
    for (const older of topic.producers.values()) older.fenced = true;
    topic.producers.clear();
    topic.exclusive = undefined;
    for (const { connection, producerId, requestId } of topic.waiting.splice(0)) {
      connection.producers.delete(producerId);
      answerError(connection, requestId, 'ProducerFenced', 'Fenced out by a producer with exclusive access');
    }
  }

  /** Who comes for the first time opens an epoch of the topic; who comes back goes on with its own. */
  private own(producer: ProducerHandle): void {
    producer.topic.exclusive = producer;
    producer.topic.epoch = producer.command.topicEpoch ?? producer.topic.epoch + 1;
    producer.topicEpoch = producer.topic.epoch;
  }

  private wait(producer: ProducerHandle): void {
    producer.topic.waiting.push(producer);
    producer.connection.producers.set(producer.producerId, producer);
    producer.connection.answer('producerSuccess', {
      requestId: producer.requestId,
      producerName: producer.name,
      producerReady: false,
    });
  }

  private admitWaiting(topic: PulsarTopic): void {
    if (topic.exclusive !== undefined || topic.producers.size > 0) return;
    const next = topic.waiting.shift();
    if (next === undefined) return;
    this.own(next);
    this.admit(next);
  }

  private admit(producer: ProducerHandle): void {
    producer.ready = true;
    producer.topic.producers.set(producer.name, producer);
    producer.connection.producers.set(producer.producerId, producer);
    this.confirm(producer, producer.requestId);
  }

  private confirm(producer: ProducerHandle, requestId: number): void {
    const { topic } = producer;
    producer.connection.answer('producerSuccess', {
      requestId,
      producerName: producer.name,
      lastSequenceId: topic.deduplication ? (topic.lastSequenceIds.get(producer.name) ?? -1) : -1,
      producerReady: true,
      ...(producer.schemaVersion !== undefined && { schemaVersion: producer.schemaVersion }),
      ...(producer.topicEpoch !== undefined && { topicEpoch: producer.topicEpoch }),
    });
  }
}

function taken(holder: ProducerHandle | undefined): Refused {
  return new Refused('ProducerFenced', `Topic has an existing exclusive producer: ${holder?.name ?? 'null'}`);
}
