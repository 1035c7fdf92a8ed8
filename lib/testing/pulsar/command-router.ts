import { type PulsarCommandName } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type ConsumerHandler } from './consumer-handler.js';
import { type FailableCommand } from './faults.js';
import { type PulsarHost } from './host.js';
import { type LookupHandler } from './lookup-handler.js';
import { type ProducerHandler } from './producer-handler.js';
import { type SendHandler } from './send-handler.js';
import { type SessionHandler } from './session-handler.js';
import { type ReadSend } from './stored-message.js';

export interface CommandHandlers {
  readonly session: SessionHandler;
  readonly lookup: LookupHandler;
  readonly producers: ProducerHandler;
  readonly sends: SendHandler;
  readonly consumers: ConsumerHandler;
}

/** Requests whose failure is a plain ERROR; the others have a form of their own. */
const ANSWERED_WITH_ERROR: ReadonlySet<string> = new Set<FailableCommand>([
  'producer',
  'closeProducer',
  'subscribe',
  'unsubscribe',
  'closeConsumer',
  'seek',
  'getLastMessageId',
  'getTopicsOfNamespace',
]);

/** Brings each command to its handler; a command that needs CONNECTED first, or that no client sends, ends the connection. */
export class CommandRouter {
  constructor(
    private readonly host: PulsarHost,
    private readonly handlers: CommandHandlers,
  ) {}

  handle(
    type: PulsarCommandName,
    body: never,
    tail: Buffer,
    content: ReadSend | Error | undefined,
    connection: PulsarBrokerConnection,
  ): void | Promise<void> {
    const { session, lookup, producers, sends, consumers } = this.handlers;
    if (type === 'connect') {
      const failure = this.host.faults.takeFailure('connect');
      if (failure !== undefined) {
        connection.answer('error', { requestId: -1, error: failure.error, message: failure.message });
        return connection.end();
      }
      if (connection.connect !== undefined) return this.broken('a second CONNECT', connection);
      return session.connect(body, connection);
    }
    if (!connection.connected) return this.broken(`${type} before CONNECTED`, connection);
    if (ANSWERED_WITH_ERROR.has(type)) {
      const failure = this.host.faults.takeFailure(type);
      if (failure !== undefined) {
        const { requestId } = body as { readonly requestId: number };
        return connection.answer('error', { requestId, error: failure.error, message: failure.message });
      }
    }
    switch (type) {
      case 'authResponse':
        return session.authResponse(body, connection);
      case 'ping':
        return connection.answer('pong', {});
      case 'pong':
        return connection.pong();
      case 'partitionMetadata':
        return lookup.partitionMetadata(body, connection);
      case 'lookupTopic':
        return lookup.lookupTopic(body, connection);
      case 'getTopicsOfNamespace':
        return lookup.getTopicsOfNamespace(body, connection);
      case 'getSchema':
        return lookup.getSchema(body, connection);
      case 'getOrCreateSchema':
        return lookup.getOrCreateSchema(body, connection);
      case 'producer':
        // Not awaited: a liveness check of another connection must not hold up this one's commands.
        void producers.producer(body, connection);
        return;
      case 'send':
        return sends.send(body, content as ReadSend | Error, tail, connection);
      case 'closeProducer':
        return producers.closeProducer(body, connection);
      case 'subscribe':
        return consumers.subscribe(body, connection);
      case 'flow':
        return consumers.flow(body, connection);
      case 'ack':
        return consumers.ack(body, connection);
      case 'redeliverUnacknowledgedMessages':
        return consumers.redeliver(body, connection);
      case 'unsubscribe':
        return consumers.unsubscribe(body, connection);
      case 'closeConsumer':
        return consumers.closeConsumer(body, connection);
      case 'seek':
        return consumers.seek(body, connection);
      case 'getLastMessageId':
        return consumers.getLastMessageId(body, connection);
      default:
        return this.broken(`a client must not send ${type}`, connection);
    }
  }

  private broken(text: string, connection: PulsarBrokerConnection): void {
    this.host.violation(text, connection);
    connection.cut();
  }
}
