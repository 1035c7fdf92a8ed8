import { type MessageIdData, type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { answerError, isServed, type PulsarHost } from './host.js';
import { NO_REQUEST } from './session-handler.js';
import { type ConsumerHandle, SubType, Subscription } from './subscription.js';
import { type PulsarTopic } from './topic.js';

/** SUBSCRIBE, FLOW, ACK and the other commands of consumers and readers. */
export class ConsumerHandler {
  constructor(private readonly host: PulsarHost) {}

  subscribe(command: PulsarCommands['subscribe'], connection: PulsarBrokerConnection): void {
    const { requestId, consumerId } = command;
    const { cluster, options } = this.host;
    const existing = connection.consumers.get(consumerId);
    if (existing !== undefined) return connection.answer('success', { requestId });
    if (!isServed(this.host, connection, requestId, command.topic)) return;
    const denied = options.authorize?.(command.topic, 'consume');
    if (denied !== undefined) return answerError(connection, requestId, 'AuthorizationError', denied);
    if (cluster.find(command.topic) === undefined && !cluster.autoTopicCreation) {
      return answerError(connection, requestId, 'TopicNotFound', `Topic ${command.topic} does not exist`);
    }
    const topic = cluster.topic(command.topic);
    const subscription = this.subscription(topic, command);
    if (subscription.type !== command.subType && subscription.consumers.length > 0) {
      return answerError(connection, requestId, 'ConsumerBusy', 'Subscription is of different type');
    }
    if (subscription.type === SubType.Exclusive && subscription.consumers.length > 0) {
      return answerError(connection, requestId, 'ConsumerBusy', 'Exclusive consumer is already connected');
    }
    const consumer: ConsumerHandle = {
      connection,
      subscription,
      consumerId,
      command,
      permits: 0,
      unacknowledged: new Set(),
      consumerEpoch: command.consumerEpoch,
      endReported: false,
    };
    connection.consumers.set(consumerId, consumer);
    subscription.add(consumer);
    connection.answer('success', { requestId });
    subscription.reportEnd();
  }

  flow(command: PulsarCommands['flow'], connection: PulsarBrokerConnection): void {
    const consumer = connection.consumers.get(command.consumerId);
    consumer?.subscription.flow(consumer, command.messagePermits);
  }

  ack(command: PulsarCommands['ack'], connection: PulsarBrokerConnection): void {
    const { consumerId, requestId } = command;
    const consumer = connection.consumers.get(consumerId);
    // No answer at all on a closed consumer, as measured.
    if (consumer === undefined) return;
    const failure = this.host.faults.takeFailure('ack');
    if (failure !== undefined) {
      if (requestId !== undefined) connection.answer('ackResponse', { consumerId, requestId, error: failure.error });
      return;
    }
    for (const id of command.messageId ?? []) consumer.subscription.acknowledge(id, command.ackType === 1);
    if (requestId !== undefined) connection.answer('ackResponse', { consumerId, requestId });
  }

  redeliver(command: PulsarCommands['redeliverUnacknowledgedMessages'], connection: PulsarBrokerConnection): void {
    const consumer = connection.consumers.get(command.consumerId);
    if (consumer === undefined) return;
    if (command.consumerEpoch !== undefined) consumer.consumerEpoch = command.consumerEpoch;
    consumer.subscription.redeliver(consumer, command.messageIds);
  }

  unsubscribe(command: PulsarCommands['unsubscribe'], connection: PulsarBrokerConnection): void {
    const { requestId } = command;
    const consumer = connection.consumers.get(command.consumerId);
    if (consumer === undefined) {
      return answerError(connection, requestId, 'MetadataError', 'Consumer not found');
    }
    const { subscription } = consumer;
    this.remove(consumer);
    subscription.close();
    subscription.topic.subscriptions.delete(subscription.name);
    connection.answer('success', { requestId });
  }

  closeConsumer(command: PulsarCommands['closeConsumer'], connection: PulsarBrokerConnection): void {
    const consumer = connection.consumers.get(command.consumerId);
    if (consumer !== undefined) this.remove(consumer);
    connection.answer('success', { requestId: command.requestId });
  }

  /** CLOSE_CONSUMER comes before SUCCESS, as measured: the client has to subscribe again. */
  seek(command: PulsarCommands['seek'], connection: PulsarBrokerConnection): void {
    const { requestId, consumerId } = command;
    const consumer = connection.consumers.get(consumerId);
    if (consumer === undefined) return answerError(connection, requestId, 'MetadataError', 'Consumer not found');
    const { subscription } = consumer;
    const { topic } = subscription;
    const index =
      command.messagePublishTime !== undefined
        ? topic.entries.findIndex(
            (one) => (one.messages[0]?.publishTime ?? 0) >= (command.messagePublishTime as number),
          )
        : positionOf(topic, command.messageId);
    for (const one of [...subscription.consumers]) {
      this.remove(one);
      one.connection.answer('closeConsumer', { consumerId: one.consumerId, requestId: NO_REQUEST });
    }
    subscription.moveTo(index < 0 ? topic.entries.length : index);
    connection.answer('success', { requestId });
  }

  getLastMessageId(command: PulsarCommands['getLastMessageId'], connection: PulsarBrokerConnection): void {
    const { requestId } = command;
    const consumer = connection.consumers.get(command.consumerId);
    if (consumer === undefined) return answerError(connection, requestId, 'MetadataError', 'Consumer not found');
    const { topic, markDelete } = consumer.subscription;
    const last = topic.entries.at(-1);
    const marked = topic.entries[markDelete - 1];
    connection.answer('getLastMessageIdResponse', {
      requestId,
      lastMessageId: {
        ledgerId: last?.ledgerId ?? -1,
        entryId: last?.entryId ?? -1,
        ...(last !== undefined && last.messages.length > 1 && { batchIndex: last.messages.length - 1 }),
      },
      consumerMarkDeletePosition: { ledgerId: marked?.ledgerId ?? -1, entryId: marked?.entryId ?? -1 },
    });
  }

  remove(consumer: ConsumerHandle): void {
    const { connection, consumerId, subscription } = consumer;
    if (connection.consumers.get(consumerId) === consumer) connection.consumers.delete(consumerId);
    subscription.remove(consumer);
    if (!subscription.durable && subscription.consumers.length === 0) {
      subscription.close();
      subscription.topic.subscriptions.delete(subscription.name);
    }
  }

  private subscription(topic: PulsarTopic, command: PulsarCommands['subscribe']): Subscription {
    const existing = topic.subscriptions.get(command.subscription);
    if (existing !== undefined && (existing.type === command.subType || existing.consumers.length > 0)) return existing;
    const durable = command.durable ?? true;
    const subscription = new Subscription(topic, command.subscription, command.subType, durable);
    if (existing !== undefined) subscription.moveTo(existing.markDelete);
    else if (command.startMessageId !== undefined) subscription.moveTo(positionOf(topic, command.startMessageId));
    else subscription.moveTo(command.initialPosition === 1 ? 0 : topic.entries.length);
    topic.subscriptions.set(command.subscription, subscription);
    return subscription;
  }
}

/** Index of the entry with this id, or the one behind where it would be; "earliest" and "latest" as clients write them. */
function positionOf(topic: PulsarTopic, id: MessageIdData | undefined): number {
  if (id === undefined) return topic.entries.length;
  const at = topic.entries.findIndex(
    (one) => one.ledgerId > id.ledgerId || (one.ledgerId === id.ledgerId && one.entryId >= id.entryId),
  );
  return at < 0 ? topic.entries.length : at;
}
