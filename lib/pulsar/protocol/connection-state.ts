import { AuthenticationError, ConnectionError, LocalProtocolError, type TransportError } from '../../errors.js';
import { type ClientCommand, type ServerCommand } from '../codec/command-types.js';
import { DEFAULT_MAX_MESSAGE_SIZE, PROTOCOL_VERSION } from '../codec/constants.js';
import { RequestTable } from './request-table.js';
import { AUTHENTICATION_ERROR, BrokerError } from './server-errors.js';

/** The states of one connection and what moves it. */
export const CONNECTION_TABLE = {
  dialing: { opened: 'authorizing', failed: 'closed' },
  authorizing: { authorized: 'handshaking', failed: 'closed' },
  handshaking: { connected: 'ready', failed: 'closed' },
  ready: { failed: 'closed' },
  closed: {},
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

export type ConnectionPhase = keyof typeof CONNECTION_TABLE;
export type ConnectionCause = 'opened' | 'authorized' | 'connected' | 'failed';

export interface ConnectionCoreConfig {
  /** The broker as errors name it. */
  readonly peer: string;
  readonly clientVersion: string;
  readonly authMethod: string | undefined;
  /** Another try can have other authentication data: a refusal is not the end. */
  readonly renewableIdentity: boolean;
  /** `host:port` for a proxy to connect to. */
  readonly proxyToBrokerUrl: string | undefined;
  /** Milliseconds from the start to CONNECTED. */
  readonly connectTimeout: number;
  /** Milliseconds of silence before a PING; 0 = no keep alive. */
  readonly keepAlive: number;
}

/** What the driver has to do. */
export type ConnectionAction<T> =
  | { readonly kind: 'write'; readonly command: ClientCommand }
  /** Get the authentication data, then call `authData` or `authFailed`. `challenged`: that given before runs out. */
  | { readonly kind: 'authorize'; readonly challenged: boolean }
  /** The broker did not accept the authentication data; `close` follows. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'answer'; readonly token: T; readonly command: ServerCommand }
  /** The answer came and another one to the same request will follow. */
  | { readonly kind: 'queued'; readonly token: T }
  | { readonly kind: 'expired'; readonly token: T }
  | { readonly kind: 'authRefreshFailed'; readonly error: TransportError }
  /** A command that nothing here has a use for: no reason to close, but somebody may want to know. */
  | { readonly kind: 'ignored'; readonly command: string }
  | { readonly kind: 'close'; readonly error: TransportError; readonly unanswered: readonly T[] };

/**
 * One connection to a broker, without I/O: handshake, authentication and its refresh, keep alive, requests and answers.
 * `T` is the driver's handle of a request.
 */
export class ConnectionState<T> {
  readonly actions: ConnectionAction<T>[] = [];
  phase: ConnectionPhase = 'dialing';
  maxMessageSize = DEFAULT_MAX_MESSAGE_SIZE;
  private readonly requests = new RequestTable<T>();
  private readonly connectDeadline: number;
  private lastReceivedAt = 0;
  private pingDeadline = Infinity;
  private pinged = false;
  /** Bytes since the last sign of life. */
  private incomplete = 0;

  constructor(
    private readonly config: ConnectionCoreConfig,
    now: number,
  ) {
    this.connectDeadline = now + config.connectTimeout;
  }

  opened(): void {
    this.move('opened');
    this.actions.push({ kind: 'authorize', challenged: false });
  }

  authData(data: Uint8Array | undefined): void {
    const { clientVersion, authMethod, proxyToBrokerUrl } = this.config;
    const identity = authMethod !== undefined && data !== undefined && { authMethodName: authMethod, authData: data };
    if (this.phase === 'authorizing') {
      this.move('authorized');
      this.write({
        type: 'connect',
        clientVersion,
        protocolVersion: PROTOCOL_VERSION,
        ...identity,
        ...(proxyToBrokerUrl !== undefined && { proxyToBrokerUrl }),
        featureFlags: { supportsAuthRefresh: true, supportsPartialProducer: true },
      });
    } else if (this.phase === 'handshaking' || this.phase === 'ready') {
      this.write({
        type: 'authResponse',
        clientVersion,
        protocolVersion: PROTOCOL_VERSION,
        response: identity === false ? {} : identity,
      });
    }
  }

  /** A refresh that failed closes nothing: the broker does that when it has waited long enough. */
  authFailed(error: TransportError): void {
    if (this.phase === 'ready') this.actions.push({ kind: 'authRefreshFailed', error });
    else this.fail(error);
  }

  /**
   * A whole command came, or `bytes` of one that is not complete yet. A few bytes are no sign of life: where the length of
   * a frame is wrong, all that comes are the answers to our PINGs, and it would wait for its end for ever.
   */
  received(now: number, bytes = SIGN_OF_LIFE): void {
    this.incomplete += bytes;
    if (this.incomplete < SIGN_OF_LIFE) return;
    this.incomplete = 0;
    this.lastReceivedAt = now;
    if (!this.pinged) return;
    this.pinged = false;
    this.pingDeadline = now + this.config.keepAlive;
  }

  /** True: it was for the connection itself; false: it is about a producer or unknown. */
  command(command: ServerCommand, now: number): boolean {
    switch (command.type) {
      case 'connected':
        if (this.phase !== 'handshaking') return true;
        this.move('connected');
        if (command.maxMessageSize !== undefined && command.maxMessageSize > 0) {
          this.maxMessageSize = command.maxMessageSize;
        }
        this.lastReceivedAt = now;
        if (this.config.keepAlive > 0) this.pingDeadline = now + this.config.keepAlive;
        this.actions.push({ kind: 'ready' });
        return true;
      case 'authChallenge':
        this.actions.push({ kind: 'authorize', challenged: true });
        return true;
      case 'ping':
        this.write({ type: 'pong' });
        return true;
      case 'pong':
        return true;
      case 'error':
        if (this.phase !== 'ready' || (command.requestId === NO_REQUEST && command.error === AUTHENTICATION_ERROR)) {
          this.refused(command.error, command.message);
        } else {
          this.answer(command.requestId, command);
        }
        return true;
      case 'producerSuccess':
        if (command.producerReady !== false) {
          this.answer(command.requestId, command);
        } else {
          const token = this.requests.peek(command.requestId);
          this.requests.waitForever(command.requestId);
          if (token !== undefined) this.actions.push({ kind: 'queued', token });
        }
        return true;
      case 'success':
      case 'partitionMetadataResponse':
      case 'lookupTopicResponse':
      case 'getOrCreateSchemaResponse':
      case 'getSchemaResponse':
      case 'getTopicsOfNamespaceResponse':
      case 'getLastMessageIdResponse':
        this.answer(command.requestId, command);
        return true;
      case 'unknown':
        this.ignore(`type ${command.code}`);
        return true;
      default:
        return false;
    }
  }

  /** Writes the command that `build` makes with its request id; `token` comes back with the answer. */
  request(build: (requestId: number) => ClientCommand, token: T, deadline: number): void {
    if (this.phase !== 'ready') throw new LocalProtocolError(`Pulsar connection: a request in '${this.phase}'`);
    this.write(build(this.requests.add(token, deadline)));
  }

  /** The connection ended, for whatever reason; everything that waits gets `error`. */
  fail(error: TransportError): void {
    if (this.phase === 'closed') return;
    this.move('failed');
    this.pingDeadline = Infinity;
    this.actions.push({ kind: 'close', error, unanswered: this.requests.takeAll() });
  }

  nextDeadline(): number {
    if (this.phase === 'closed') return Infinity;
    if (this.phase !== 'ready') return this.connectDeadline;
    return Math.min(this.pingDeadline, this.requests.nextDeadline());
  }

  handleTimeout(now: number): void {
    const { peer, keepAlive, connectTimeout } = this.config;
    if (this.phase !== 'ready') {
      if (now >= this.connectDeadline) {
        const missing = this.phase === 'authorizing' ? 'authentication data' : 'CONNECTED';
        this.fail(new ConnectionError(`${peer}: no ${missing} within ${connectTimeout} ms`));
      }
      return;
    }
    for (const token of this.requests.takeExpired(now)) this.actions.push({ kind: 'expired', token });
    if (now < this.pingDeadline) return;
    const silence = now - this.lastReceivedAt;
    // A timer that comes late says that this process was held up, not the peer: what it sent may still be unread.
    const late = now - this.pingDeadline > keepAlive / 2;
    if (silence < keepAlive) {
      this.pingDeadline = this.lastReceivedAt + keepAlive;
    } else if (this.pinged && !late) {
      this.fail(new ConnectionError(`${peer}: no sign of life for ${Math.round(silence)} ms`));
    } else {
      this.pinged = true;
      this.pingDeadline = now + keepAlive;
      this.write({ type: 'ping' });
    }
  }

  ignore(command: string): void {
    this.actions.push({ kind: 'ignored', command });
  }

  private answer(requestId: number, command: ServerCommand): void {
    const token = this.requests.take(requestId);
    // Usually the late answer to a request that has timed out.
    if (token === undefined) this.ignore(`${command.type} to no request`);
    else this.actions.push({ kind: 'answer', token, command });
  }

  /** CONNECT or AUTH_RESPONSE was answered with ERROR. */
  private refused(code: number, message: string): void {
    const { peer, renewableIdentity } = this.config;
    const refusal = new BrokerError(peer, code, message);
    if (code !== AUTHENTICATION_ERROR) {
      this.fail(refusal);
      return;
    }
    this.actions.push({ kind: 'refused' });
    this.fail(new AuthenticationError(refusal.message, { cause: refusal, retriable: renewableIdentity }));
  }

  private write(command: ClientCommand): void {
    this.actions.push({ kind: 'write', command });
  }

  private move(cause: ConnectionCause): void {
    const next = (CONNECTION_TABLE[this.phase] as Readonly<Partial<Record<ConnectionCause, ConnectionPhase>>>)[cause];
    if (next === undefined) {
      throw new LocalProtocolError(`Pulsar connection: '${cause}' is not possible in '${this.phase}'`);
    }
    this.phase = next;
  }
}

/** In an ERROR: it belongs to no request (2^64-1 on the wire). */
const NO_REQUEST = -1;
/** So many bytes of an incomplete command say that a large one is on its way. */
const SIGN_OF_LIFE = 1024;
