import {
  AuthenticationError,
  ConnectionError,
  isTransportError,
  TimeoutError,
  type TransportError,
} from '../errors.js';
import { type Clock } from '../net/clock.js';
import { type Endpoint } from '../net/dial.js';
import { type Dialer, type Transport } from '../net/transport.js';
import { brokerClosing } from './broker-closing.js';
import { brokerUrl, hostAndPort } from './broker-url.js';
import { type ClientCommand, type SendReceipt, type ServerCommand } from './codec/command-types.js';
import { encodeCommand } from './codec/commands.js';
import { DEFAULT_MAX_MESSAGE_SIZE, FRAME_PADDING } from './codec/constants.js';
import { FrameReader } from './codec/frame-reader.js';
import { Alarm } from './alarm.js';
import { FrameWriter } from './frame-writer.js';
import { type Identity } from './identity.js';
import { type ConnectionAction, ConnectionState } from './protocol/connection-state.js';
import { type DialHint } from './protocol/producer-events.js';
import { AUTHENTICATION_ERROR, BrokerError } from './protocol/server-errors.js';
import { CLIENT_VERSION } from './version.js';

/** A broker, and the address that leads to it: its own, or that of a proxy. */
export interface BrokerTarget {
  readonly logical: Endpoint;
  readonly physical: Endpoint;
  /** The service address passes us on to it. */
  readonly proxied: boolean;
}

export interface ConnectionSettings {
  readonly identity: Identity | undefined;
  readonly connectTimeout: number;
  readonly operationTimeout: number;
  readonly keepAlive: number;
  readonly clock: Clock;
  readonly dialer: (endpoint: Endpoint) => Dialer;
}

/** What a connection tells the producer it carries. Nothing but appending happens in these calls, until `chunkRead`. */
export interface ProducerHandler {
  readonly producerId: number;
  receipt(receipt: SendReceipt): void;
  sendError(sequenceId: number, code: number, message: string): void;
  brokerClosed(error: TransportError, hint: DialHint | undefined): void;
  connectionLost(error: TransportError): void;
  /** Everything that came in one piece was told. */
  chunkRead(): void;
}

export interface ConnectionHooks {
  connected(connection: Connection): void;
  /** Once; `wasReady` is false for a connection that never came up. */
  closed(connection: Connection, error: TransportError, wasReady: boolean): void;
  authRefreshFailed(connection: Connection, error: TransportError): void;
  ignored(connection: Connection, command: string): void;
}

interface Request {
  readonly name: string;
  readonly resolve: (command: ServerCommand) => void;
  readonly reject: (error: TransportError) => void;
  readonly queued: (() => void) | undefined;
  readonly timeoutMs: number;
}

type Answer<T extends ServerCommand['type']> = Extract<ServerCommand, { type: T }>;

/** One socket to a broker: the I/O around {@link ConnectionState}. */
export class Connection {
  /** How it is called in events and errors: the broker's URL. */
  readonly broker: string;
  /** Resolves when the broker answered CONNECTED; rejects if the connection ended before. */
  readonly ready: Promise<Connection>;
  /** When it was dialled, on the clock. */
  readonly since: number;

  private readonly state: ConnectionState<Request>;
  private readonly reader = new FrameReader({ maxFrameSize: DEFAULT_MAX_MESSAGE_SIZE + FRAME_PADDING });
  private readonly writer: FrameWriter;
  private readonly alarm: Alarm;
  private readonly producers = new Map<number, ProducerHandler>();
  /** Closed by the broker and not opened again: SEND_ERRORs still come for them. */
  private readonly former = new Map<number, ProducerHandler>();
  private readonly touched = new Set<ProducerHandler>();
  private readonly transport: Transport;
  private settleReady!: { resolve: (connection: Connection) => void; reject: (error: TransportError) => void };
  private running = false;
  private wasReady = false;
  private graceful = false;
  private answered = false;
  private carried = false;
  private receipted = false;

  constructor(
    readonly target: BrokerTarget,
    private readonly settings: ConnectionSettings,
    private readonly hooks: ConnectionHooks,
  ) {
    const { identity, clock, connectTimeout, keepAlive } = settings;
    const { logical, physical } = target;
    this.broker = brokerUrl(logical);
    this.since = clock.now();
    const proxied = hostAndPort(logical) !== hostAndPort(physical);
    this.state = new ConnectionState(
      {
        peer: this.broker,
        clientVersion: CLIENT_VERSION,
        authMethod: identity?.method,
        renewableIdentity: identity?.renewable ?? false,
        proxyToBrokerUrl: proxied ? hostAndPort(logical) : undefined,
        connectTimeout,
        keepAlive,
      },
      clock.now(),
    );
    this.ready = new Promise((resolve, reject) => (this.settleReady = { resolve, reject }));
    this.ready.catch(() => undefined);
    this.writer = new FrameWriter(clock);
    this.alarm = new Alarm(clock, () => {
      this.state.handleTimeout(clock.now());
      this.run();
    });
    this.transport = settings.dialer(physical)({
      onOpen: () => {
        if (this.state.phase !== 'dialing') return;
        this.state.opened();
        this.run();
      },
      onData: (chunk) => this.read(chunk),
      onDrain: () => undefined,
      onClose: (error) => {
        this.state.fail(closeReason(this.broker, error));
        this.run();
      },
    });
    this.writer.transport = this.transport;
    this.alarm.set(this.state.nextDeadline());
  }

  get usable(): boolean {
    return this.state.phase === 'ready';
  }

  get phase(): 'connecting' | 'ready' | 'closed' {
    const { phase } = this.state;
    return phase === 'ready' || phase === 'closed' ? phase : 'connecting';
  }

  get maxMessageSize(): number {
    return this.state.maxMessageSize;
  }

  /** It did what it was made for: a receipt came over it or, if it only served lookups, an answer. */
  get proven(): boolean {
    return this.receipted || (this.answered && !this.carried);
  }

  /** A SEND frame. Dropped if the connection has ended: its producer was told then. */
  write(frame: Buffer): void {
    if (this.state.phase !== 'closed') this.writer.write(frame);
  }

  /**
   * @param build the command with the given request id
   * @throws TransportError the broker's refusal, a timeout or the end of the connection
   */
  async request<T extends ServerCommand['type']>(
    name: string,
    answer: T,
    build: (requestId: number) => ClientCommand,
    options: { readonly queued?: () => void; readonly timeoutMs?: number } = {},
  ): Promise<Answer<T>> {
    const { clock, operationTimeout } = this.settings;
    const timeoutMs = options.timeoutMs ?? operationTimeout;
    const command = await new Promise<ServerCommand>((resolve, reject) => {
      if (!this.usable) {
        reject(new ConnectionError(`${name}: the connection to ${this.broker} has ended`));
        return;
      }
      const request: Request = { name, resolve, reject, queued: options.queued, timeoutMs };
      this.state.request(build, request, clock.now() + timeoutMs);
      this.run();
    });
    this.checkIdentity(name, command);
    if (command.type === 'error') throw new BrokerError(name, command.error, command.message);
    if (command.type !== answer) {
      throw new ConnectionError(`${name}: ${this.broker} answered ${command.type} where ${answer} was expected`);
    }
    this.answered = true;
    return command as Answer<T>;
  }

  /** Registers the handler, then asks: nothing that the broker sends for the producer can be missed. */
  async openProducer(
    handler: ProducerHandler,
    build: (requestId: number) => ClientCommand,
    name: string,
    queued: () => void,
  ): Promise<Answer<'producerSuccess'>> {
    const { producerId } = handler;
    this.carried = true;
    this.former.delete(producerId);
    this.producers.set(producerId, handler);
    try {
      return await this.request(name, 'producerSuccess', build, { queued });
    } catch (error) {
      if (this.producers.get(producerId) === handler) {
        this.producers.delete(producerId);
        // The broker may make it later: then it must not block our next try.
        if (error instanceof TimeoutError) void this.closeProducer(producerId, this.settings.operationTimeout);
      }
      throw error;
    }
  }

  /**
   * Tells the broker. The handler, if there is one, hears what still comes until the broker has answered.
   *
   * @returns true when it has answered; false after `timeoutMs`, or when the connection ended
   */
  async closeProducer(producerId: number, timeoutMs: number): Promise<boolean> {
    const handler = this.producers.get(producerId);
    const build = (requestId: number): ClientCommand => ({ type: 'closeProducer', producerId, requestId });
    try {
      await this.request('CLOSE_PRODUCER', 'success', build, { timeoutMs });
      return true;
    } catch {
      return false;
    } finally {
      if (this.producers.get(producerId) === handler) this.producers.delete(producerId);
    }
  }

  /** Writes what is under way, then ends. */
  end(error: TransportError): void {
    if (this.state.phase === 'closed') return;
    this.writer.flush();
    this.graceful = true;
    this.state.fail(error);
    this.run();
  }

  destroy(error: TransportError): void {
    this.state.fail(error);
    this.run();
  }

  private read(chunk: Buffer): void {
    const { state, reader, settings } = this;
    if (state.phase === 'closed') return;
    const now = settings.clock.now();
    state.received(now, chunk.length);
    reader.push(chunk);
    try {
      for (let command = reader.next(); command !== undefined; command = reader.next()) {
        state.received(now);
        if (command.type === 'sendReceipt') {
          this.receipted = true;
          const producer = this.producers.get(command.producerId);
          if (producer !== undefined) this.touch(producer).receipt(command);
        } else if (!state.command(command, now)) {
          this.producerCommand(command);
        } else if (command.type === 'connected') {
          reader.setMaxFrameSize(state.maxMessageSize + FRAME_PADDING);
        }
      }
    } catch (error) {
      if (!isTransportError(error)) throw error;
      state.fail(error);
    }
    this.run();
    for (const producer of this.touched) {
      this.touched.delete(producer);
      producer.chunkRead();
    }
  }

  private producerCommand(command: ServerCommand): void {
    if (command.type === 'sendError') {
      const { producerId, sequenceId, error, message } = command;
      const concerned = this.find(producerId) ?? this.former.get(producerId);
      if (concerned !== undefined) this.touch(concerned).sendError(sequenceId, error, message);
      return;
    }
    const closing = brokerClosing(command, this.broker);
    // What belongs to consumers, or to nobody: no reason to end the connection.
    if (closing === undefined) return this.state.ignore(command.type);
    const producer = this.find(closing.producerId);
    if (producer === undefined) return;
    this.producers.delete(closing.producerId);
    this.former.set(closing.producerId, producer);
    producer.brokerClosed(closing.error, closing.hint);
  }

  private find(producerId: number): ProducerHandler | undefined {
    const producer = this.producers.get(producerId);
    return producer === undefined ? undefined : this.touch(producer);
  }

  private touch(producer: ProducerHandler): ProducerHandler {
    this.touched.add(producer);
    return producer;
  }

  private run(): void {
    if (this.running) return;
    this.running = true;
    const { actions } = this.state;
    for (let index = 0; index < actions.length; index++) this.act(actions[index]);
    actions.length = 0;
    this.running = false;
    if (this.state.phase !== 'closed') this.alarm.set(this.state.nextDeadline());
  }

  private act(action: ConnectionAction<Request>): void {
    switch (action.kind) {
      case 'write':
        return this.writer.write(encodeCommand(action.command));
      case 'authorize':
        return this.authorize(action.challenged);
      case 'refused':
        return this.settings.identity?.refused();
      case 'ready':
        this.wasReady = true;
        this.hooks.connected(this);
        return this.settleReady.resolve(this);
      case 'answer':
        return action.token.resolve(action.command);
      case 'queued':
        return action.token.queued?.();
      case 'expired': {
        const { name, timeoutMs, reject } = action.token;
        return reject(new TimeoutError(`${name}: no answer of ${this.broker} within ${timeoutMs} ms`, timeoutMs));
      }
      case 'ignored':
        return this.hooks.ignored(this, action.command);
      case 'authRefreshFailed':
        return this.hooks.authRefreshFailed(this, action.error);
      case 'close':
        return this.closed(action.error, action.unanswered);
    }
  }

  private authorize(challenged: boolean): void {
    const { identity } = this.settings;
    if (identity === undefined) {
      this.state.authData(undefined);
      return;
    }
    identity.data(challenged).then(
      (data) => {
        if (this.state.phase !== 'closed') this.state.authData(data);
        this.run();
      },
      (error: TransportError) => {
        if (this.state.phase !== 'closed') this.state.authFailed(error);
        this.run();
      },
    );
  }

  /**
   * A broker that does not accept us any more, on a connection that it had accepted: with data that can be renewed the
   * connection is made anew, since every further request on it would be answered like this one.
   */
  private checkIdentity(name: string, command: ServerCommand): void {
    const { identity } = this.settings;
    if (!('error' in command) || command.error !== AUTHENTICATION_ERROR || identity?.renewable !== true) return;
    const refusal = new BrokerError(name, command.error, command.message ?? 'no reason given');
    const error = new AuthenticationError(refusal.message, { cause: refusal, retriable: true });
    identity.refused();
    this.end(error);
    throw error;
  }

  private closed(error: TransportError, unanswered: readonly Request[]): void {
    this.alarm.clear();
    this.writer.drop();
    if (this.graceful) this.transport.end();
    else this.transport.destroy();
    this.settleReady.reject(error);
    for (const request of unanswered) request.reject(error);
    const producers = [...this.producers.values()];
    this.producers.clear();
    this.former.clear();
    this.hooks.closed(this, error, this.wasReady);
    for (const producer of producers) {
      producer.connectionLost(error);
      producer.chunkRead();
    }
  }
}

function closeReason(broker: string, error: Error | undefined): TransportError {
  if (isTransportError(error)) return error;
  return new ConnectionError(`${broker}: the connection was closed`, error === undefined ? {} : { cause: error });
}
