import { type Duplex } from 'node:stream';
import { InMemoryBroker, type SendVerdict } from '../broker.js';
import { InMemoryPulsarCluster } from './cluster.js';
import { CommandRouter } from './command-router.js';
import { type PulsarCommandName, type PulsarCommands } from './commands.js';
import { type Outgoing, PulsarBrokerConnection } from './connection.js';
import { ConsumerHandler } from './consumer-handler.js';
import { type FailableCommand, PulsarFaults } from './faults.js';
import { type Frame } from './frames.js';
import { type PulsarHost } from './host.js';
import { LookupHandler, urlField } from './lookup-handler.js';
import { type PulsarBrokerOptions } from './options.js';
import { ProducerHandler } from './producer-handler.js';
import { type ServerErrorName } from './proto.js';
import { type SendFigures, SendHandler } from './send-handler.js';
import { MAX_MESSAGE_SIZE, NO_REQUEST, SessionHandler } from './session-handler.js';
import { type PulsarTopic } from './topic.js';

/** Room that the broker leaves in a frame beside a message of the largest size. */
const FRAME_PADDING = 10 * 1024;

/** Looks at a received command before the broker does; `ignore`: the broker takes no notice of it. */
export type PulsarReceiveHook = (
  type: PulsarCommandName,
  body: PulsarCommands[PulsarCommandName],
  connection: PulsarBrokerConnection,
) => 'ignore' | undefined | void;
/** Looks at a command that the broker is about to send by itself; see {@link InMemoryPulsarBroker.onSend}. */
export type PulsarSendHook = (command: Outgoing, connection: PulsarBrokerConnection) => SendVerdict<Outgoing>;

/**
 * A Pulsar broker in this process, for tests: it keeps the binary protocol by itself, as measured on Pulsar 4.0.7, and can
 * be told to break it. A test double and no server: it holds everything in memory and trusts whoever runs it.
 *
 * It reads and writes with protobufjs and shares no code with the client of this package.
 *
 * @example
 * const broker = await InMemoryPulsarBroker.start();
 * // ... a client sends to persistent://public/default/telemetry
 * broker.topic('telemetry').texts; // ['first', 'second']
 * await broker.close();
 */
export class InMemoryPulsarBroker extends InMemoryBroker<
  PulsarCommands,
  PulsarBrokerConnection,
  Outgoing,
  PulsarReceiveHook
> {
  readonly cluster: InMemoryPulsarCluster;
  /** Failures, silence and held receipts that the test has ordered. */
  readonly faults = new PulsarFaults();

  private readonly session: SessionHandler;
  private readonly producers: ProducerHandler;
  private readonly consumers: ConsumerHandler;
  private readonly sends: SendHandler;
  private readonly router: CommandRouter;

  private constructor(
    /** May be changed at any time. */
    readonly options: PulsarBrokerOptions,
  ) {
    super(options.logLimit);
    this.cluster = options.cluster ?? new InMemoryPulsarCluster();
    const host: PulsarHost = {
      options,
      cluster: this.cluster,
      broker: this,
      faults: this.faults,
      violation: (text, connection) => this.violation(text, connection),
    };
    this.session = new SessionHandler(host);
    this.producers = new ProducerHandler(host);
    this.consumers = new ConsumerHandler(host);
    this.sends = new SendHandler(host);
    this.router = new CommandRouter(host, {
      session: this.session,
      lookup: new LookupHandler(host),
      producers: this.producers,
      sends: this.sends,
      consumers: this.consumers,
    });
  }

  /** Listens on 127.0.0.1 and a free port unless told otherwise. */
  static async start(options: PulsarBrokerOptions = {}): Promise<InMemoryPulsarBroker> {
    const broker = await new InMemoryPulsarBroker({ ...options }).open(options);
    broker.cluster.brokers.push(broker);
    return broker;
  }

  /** `pulsar://127.0.0.1:port`, with TLS `pulsar+ssl://` */
  get url(): string {
    const { tls, advertisedHost } = this.options;
    return `${tls === undefined ? 'pulsar' : 'pulsar+ssl'}://${advertisedHost ?? this.listener.host}:${this.port}`;
  }

  /** False while nobody could connect. */
  get listening(): boolean {
    return this.listener.listening;
  }

  /** What SENDs came to, over the life of the broker. */
  get figures(): Readonly<SendFigures> {
    return this.sends.figures;
  }

  /** A topic (or partition) of the cluster, made if it was not there; short names are in `public/default`. */
  topic(name: string): PulsarTopic {
    return this.cluster.topic(name);
  }

  /** See {@link PulsarFaults.failNext}. */
  failNext(command: FailableCommand, error: ServerErrorName, message?: string, times?: number): void {
    this.faults.failNext(command, error, message, times);
  }

  /** See {@link PulsarFaults.silenceNext}. */
  silenceNext(command: PulsarCommandName, times?: number): void {
    this.faults.silenceNext(command, times);
  }

  /** See {@link PulsarFaults.holdReceipts}. */
  holdReceipts(topic?: string): void {
    this.faults.holdReceipts(topic);
  }

  /** See {@link PulsarFaults.releaseReceipts}. */
  releaseReceipts(options?: { readonly count?: number; readonly order?: 'reversed' }): void {
    this.faults.releaseReceipts(options);
  }

  /** The next `times` lookups are answered with a redirect to this URL. */
  redirectLookup(url: string, options: { readonly times?: number; readonly authoritative?: boolean } = {}): void {
    for (let count = 0; count < (options.times ?? 1); count++) {
      this.faults.scriptLookup({
        response: 0,
        ...urlField(url),
        authoritative: options.authoritative ?? true,
      });
    }
  }

  /** Asks every connection (or one) for fresh credentials. */
  authChallenge(connection?: PulsarBrokerConnection): void {
    for (const one of connection === undefined ? this.connections : [connection]) this.session.challenge(one);
  }

  /**
   * Unloads a topic: CLOSE_PRODUCER and CLOSE_CONSUMER to everybody on it, SENDs that are on their way are ignored, and
   * a new lookup is needed.
   */
  unload(
    topic: string,
    assigned: { readonly brokerServiceUrl?: string; readonly brokerServiceUrlTls?: string } = {},
  ): void {
    this.closeProducers(topic, assigned);
    this.cluster.release(topic);
    const found = this.cluster.find(topic);
    found?.rollLedger();
    for (const subscription of found?.subscriptions.values() ?? []) {
      for (const consumer of [...subscription.consumers]) {
        this.consumers.remove(consumer);
        consumer.connection.answer('closeConsumer', {
          consumerId: consumer.consumerId,
          requestId: NO_REQUEST,
          ...urls(assigned),
        });
      }
    }
  }

  /** CLOSE_PRODUCER to every producer of the topic, which stays served here. */
  closeProducers(
    topic: string,
    assigned: { readonly brokerServiceUrl?: string; readonly brokerServiceUrlTls?: string } = {},
  ): void {
    const found = this.cluster.find(topic);
    for (const producer of [...(found?.producers.values() ?? []), ...(found?.waiting ?? [])]) {
      this.producers.remove(producer);
      producer.connection.answer('closeProducer', {
        producerId: producer.producerId,
        requestId: NO_REQUEST,
        ...urls(assigned),
      });
    }
  }

  /** The contract's name for {@link unload}. */
  closeProducer(topic: string): void {
    this.unload(topic);
  }

  /** TOPIC_MIGRATED to every producer and consumer of the topic: later lookups go to that cluster. */
  migrate(topic: string, url: string): void {
    const found = this.cluster.find(topic);
    for (const producer of found?.producers.values() ?? []) {
      const body = { resourceId: producer.producerId, resourceType: 0, ...urlField(url) };
      producer.connection.answer('topicMigrated', body);
    }
    for (const subscription of found?.subscriptions.values() ?? []) {
      for (const consumer of subscription.consumers) {
        const body = { resourceId: consumer.consumerId, resourceType: 1, ...urlField(url) };
        consumer.connection.answer('topicMigrated', body);
      }
    }
  }

  /** Ends a topic for good: producers are closed and refused, consumers told once they are at its end. */
  terminate(topic: string): void {
    const found = this.topic(topic);
    found.terminated = true;
    this.closeProducers(topic);
    for (const subscription of found.subscriptions.values()) subscription.reportEnd();
  }

  /** The topic's quota is exceeded (its producers are closed, new ones refused) until `undefined` is given. */
  exceedQuota(topic: string, policy: 'hold' | 'exception' | undefined): void {
    this.topic(topic).quota = policy;
    if (policy !== undefined) this.closeProducers(topic);
  }

  /** The broker's own commands of these types are not sent, until the returned function is called. */
  withhold(...types: PulsarCommandName[]): () => void {
    return this.onSend((command) => (types.includes(command.type) ? 'withhold' : undefined));
  }

  /** The broker's own commands of this type leave `ms` later, until the returned function is called. */
  delay(type: PulsarCommandName, ms: number): () => void {
    return this.onSend((command, connection) => {
      if (command.type !== type) return undefined;
      setTimeout(() => connection.send(command.type, command.body as never, command.tail), ms);
      return 'withhold';
    });
  }

  /** Nobody listens (ECONNREFUSED) until {@link listen}; what this broker served is free for others of its cluster. */
  override async stopListening(): Promise<void> {
    await super.stopListening();
    this.cluster.releaseAll(this);
  }

  /** Ends everything: sockets and timers. */
  async close(): Promise<void> {
    this.cut();
    this.cluster.releaseAll(this);
    for (const name of this.cluster.topicNames) {
      for (const subscription of this.cluster.topic(name).subscriptions.values()) subscription.close();
    }
    await this.listener.close();
  }

  protected accept(number: number, stream: Duplex): PulsarBrokerConnection {
    const { options } = this;
    return new PulsarBrokerConnection(number, stream, {
      log: this.log,
      get maxFrameSize() {
        return (options.maxMessageSize ?? MAX_MESSAGE_SIZE) + FRAME_PADDING;
      },
      receive: (frame, connection) => this.receive(frame, connection),
      malformed: (error, connection) => {
        this.violation(error.message, connection);
        connection.cut({ reset: true });
      },
      closed: (connection) => this.closed(connection),
      outgoing: (command, connection) => this.outgoing(command, connection),
    });
  }

  private receive(frame: Frame, connection: PulsarBrokerConnection): void | Promise<void> {
    const content = frame.type === 'send' ? this.sends.read(frame.body as never, frame.tail) : undefined;
    const body = {
      ...frame.body,
      ...(content !== undefined && !(content instanceof Error) && { messages: content.messages }),
    } as never;
    const type = frame.type as PulsarCommandName;
    this.log.record({ connection: connection.number, direction: 'in', type, packet: body, bytes: frame.bytes });
    if (this.ignored(type, body, connection)) return;
    if (this.faults.takeSilence(type)) return;
    return this.router.handle(type, body, frame.tail, content, connection);
  }

  private violation(text: string, connection: PulsarBrokerConnection): void {
    this.violations.push(`connection ${connection.number}: ${text}`);
  }

  private closed(connection: PulsarBrokerConnection): void {
    this.faults.forget(connection);
    for (const producer of [...connection.producers.values()]) this.producers.remove(producer);
    for (const consumer of [...connection.consumers.values()]) this.consumers.remove(consumer);
  }
}

function urls(assigned: { readonly brokerServiceUrl?: string; readonly brokerServiceUrlTls?: string }): {
  readonly assignedBrokerServiceUrl?: string;
  readonly assignedBrokerServiceUrlTls?: string;
} {
  return {
    ...(assigned.brokerServiceUrl !== undefined && { assignedBrokerServiceUrl: assigned.brokerServiceUrl }),
    ...(assigned.brokerServiceUrlTls !== undefined && { assignedBrokerServiceUrlTls: assigned.brokerServiceUrlTls }),
  };
}
