import { toError } from '../error-text.js';
import { AuthenticationError, TransportError, isTransportError } from '../errors.js';
import { type TimerHandle } from '../net/clock.js';
import { createDialer, describeEndpoint } from '../net/dial.js';
import { type Dialer } from '../net/transport.js';
import { MqttConnection } from './connection.js';
import { type ResolvedEndpoint, type ResolvedMqttClientOptions } from './option-types.js';
import { type ConnectCredentials } from './protocol/connect.js';
import { type SessionOutput } from './protocol/outbox.js';
import { type MqttSession } from './protocol/session.js';
import { allowedReference } from './server-reference.js';

/** Outputs that the driver does not deal with itself. */
export type ClientOutput = Exclude<SessionOutput, { kind: 'dial' | 'end' | 'abort' | 'authenticate' | 'reading' }>;

/** Gives the session its time, its transport and its one timer, and carries out what it asks for. */
export class SessionDriver {
  private connection: MqttConnection | undefined;
  /** Rises with every dial and drop: what an older one still brings is ignored. */
  private generation = 0;
  private endRequested = false;
  private redirect: ResolvedEndpoint | undefined;

  private dispatching = false;
  private flushPlanned = false;
  /** The session store is at work: the bytes that depend on it wait. */
  private storing: Promise<void> | undefined;
  private restoring: Promise<void> | undefined;
  private timer: TimerHandle | undefined;
  private timerAt = Infinity;

  constructor(
    private readonly session: MqttSession,
    private readonly options: ResolvedMqttClientOptions,
    private readonly handle: (output: ClientOutput) => void,
    /** What a callback of the user threw, or a store that failed. */
    private readonly failed: (error: unknown) => void,
  ) {}

  now(): number {
    return this.options.clock.now();
  }

  /** Carries out what the last input caused. Inputs made meanwhile are carried out by the same loop. */
  run(): void {
    if (this.dispatching) return;
    this.dispatching = true;
    while (this.session.hasOutputs) {
      for (const output of this.session.takeOutputs()) this.dispatch(output);
    }
    this.dispatching = false;
    this.planFlush();
    this.armTimer();
  }

  /** Everything of this turn leaves in one write at its end. */
  planFlush(): void {
    if (this.flushPlanned || !(this.session.hasBytes || this.endRequested || this.session.hasChanges)) return;
    this.flushPlanned = true;
    this.options.clock.endOfTurn(this.flush);
  }

  private dispatch(output: SessionOutput): void {
    try {
      switch (output.kind) {
        case 'dial':
          return this.dial(output.server);
        case 'end':
          // After destroy() there is nothing left to end.
          this.endRequested = this.connection !== undefined;
          return;
        case 'abort':
          return this.drop(output.error);
        case 'authenticate':
          return void this.authenticate(output.step, output.data);
        case 'reading':
          return this.connection?.setReading(output.paused);
        case 'serverDisconnect':
          this.redirect = allowedReference(output, this.options);
          if (this.redirect !== undefined) this.session.follow(describeEndpoint(this.redirect.endpoint));
          return this.handle(output);
        case 'disconnected':
          if (output.nextDialAt === undefined) this.redirect = undefined;
          return this.handle(output);
        default:
          return this.handle(output);
      }
    } catch (error) {
      this.failed(error);
    }
  }

  private readonly flush = (): void => {
    this.flushPlanned = false;
    // What is being stored goes first.
    if (this.storing !== undefined) return;
    const bytes = this.session.takeBytes(this.now());
    if (this.session.hasChanges) this.storing = this.store(bytes, this.connection);
    else this.write(bytes, this.connection);
    this.run();
  };

  /** @param connection for which the bytes were made: they mean nothing on another one */
  private write(bytes: readonly Buffer[], connection: MqttConnection | undefined): void {
    if (connection === undefined || connection !== this.connection) return;
    if (bytes.length > 0 && !connection.write(bytes)) this.session.setWritable(false, this.now());
    if (this.endRequested && !this.session.hasBytes) {
      this.endRequested = false;
      connection.end();
    }
  }

  /** The bytes leave when the changes they tell of are durable; everything after them waits. */
  private async store(bytes: readonly Buffer[], connection: MqttConnection | undefined): Promise<void> {
    try {
      await this.options.store?.apply(this.session.clientId, this.session.takeChanges());
      this.storing = undefined;
      this.write(bytes, connection);
    } catch (error) {
      this.storing = undefined;
      // Going on would break what the store is there for.
      this.failed(new TransportError('ERR_SESSION', 'The session store failed', { cause: error }));
      this.session.close({ reasonCode: 0x80 }, this.now());
      this.drop(new TransportError('ERR_SESSION', 'The session store failed', { cause: error }));
    }
    this.run();
  }

  /** Loads what an earlier process left, once; undefined where there is no store. */
  restore(): Promise<void> | undefined {
    const { store } = this.options;
    if (store === undefined) return undefined;
    this.restoring ??= store.load(this.session.clientId).then(
      (stored) => this.session.restore(stored),
      (error: unknown) => {
        this.restoring = undefined;
        if (isTransportError(error)) throw error;
        throw new TransportError('ERR_SESSION', 'The session store could not be loaded', { cause: error });
      },
    );
    return this.restoring;
  }

  /** Resolves when nothing is being stored any more. */
  async stored(): Promise<void> {
    while (this.storing !== undefined) await this.storing;
  }

  private dial(server: number): void {
    const target = this.redirect ?? this.options.endpoints[server];
    this.redirect = undefined;
    const generation = ++this.generation;
    const credentials = this.credentials(target);
    if (credentials instanceof Promise) {
      credentials.then(
        (given) => this.open(target, given, generation),
        (error: unknown) => {
          if (generation !== this.generation) return;
          this.lose(new AuthenticationError('The credentials supplier failed', { cause: error, retriable: true }));
          this.run();
        },
      );
    } else this.open(target, credentials, generation);
  }

  private open(target: ResolvedEndpoint, credentials: ConnectCredentials, generation: number): void {
    if (generation !== this.generation) return;
    const current = (): boolean => generation === this.generation;
    this.endRequested = false;
    try {
      this.connection = new MqttConnection(this.dialer(target), {
        opened: () => {
          if (!current()) return;
          this.session.opened(credentials, this.now());
          this.run();
        },
        data: (chunk) => {
          this.session.receive(chunk, this.now());
          this.run();
        },
        drain: () => {
          this.session.setWritable(true, this.now());
          this.run();
        },
        closed: (error) => {
          if (!current()) return;
          this.lose(error);
          this.run();
        },
      });
    } catch (error) {
      this.lose(toError(error));
      this.run();
    }
  }

  private dialer(target: ResolvedEndpoint): Dialer {
    const { dialer, tls, websocket, clock } = this.options;
    if (dialer !== undefined) return dialer(target.endpoint);
    return createDialer(target.endpoint, {
      clock,
      ...(tls !== undefined && { tls }),
      ...(websocket.protocol !== undefined && { websocketProtocol: websocket.protocol }),
      ...(websocket.headers !== undefined && { headers: websocket.headers }),
    });
  }

  /** Without a supplier nothing is waited for. */
  private credentials(target: ResolvedEndpoint): ConnectCredentials | Promise<ConnectCredentials> {
    const { credentials, authentication, username, password } = this.options;
    const fixed = {
      username: username ?? target.username,
      password: password ?? target.password,
    };
    if (credentials === undefined && authentication === undefined) return fixed;
    const fetch = async (): Promise<ConnectCredentials> => {
      const given = await credentials?.();
      const data = await authentication?.start();
      return {
        username: given?.username ?? fixed.username,
        password: given?.password === undefined ? fixed.password : Buffer.from(given.password as string),
        authenticationData: toBuffer(data),
      };
    };
    return fetch();
  }

  private async authenticate(step: 'continue' | 'finish', data: Buffer | undefined): Promise<void> {
    const { generation } = this;
    const { authentication } = this.options;
    try {
      const answer = step === 'continue' ? await authentication?.continue(data) : await authentication?.finish?.(data);
      if (generation !== this.generation) return;
      this.session.authenticated(step, toBuffer(answer ?? undefined), this.now());
    } catch (error) {
      if (generation !== this.generation) return;
      this.session.authenticationFailed(error, this.now());
    }
    this.run();
  }

  /** The transport goes now; the session hears of it at once. */
  drop(error: TransportError): void {
    this.connection?.drop(error);
    this.lose(error);
  }

  private lose(error: Error | undefined): void {
    this.generation += 1;
    this.connection = undefined;
    this.endRequested = false;
    const { clock } = this.options;
    this.session.lost(
      isTransportError(error) || error === undefined ? error : wrap(error),
      clock.now(),
      clock.random(),
    );
  }

  private armTimer(): void {
    const deadline = this.session.nextDeadline();
    // A timer that is too early only looks and sleeps again: no timer is set per message.
    if (deadline === undefined || deadline >= this.timerAt) return;
    this.options.clock.clearTimer(this.timer);
    this.timerAt = deadline;
    this.timer = this.options.clock.setTimer(this.wake, Math.max(0, deadline - this.now()));
  }

  private readonly wake = (): void => {
    this.timer = undefined;
    this.timerAt = Infinity;
    this.session.handleTimeout(this.now());
    this.run();
  };

  /** Nothing is running any more. */
  stop(): void {
    this.options.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }
}

function toBuffer(data: Uint8Array | undefined): Buffer | undefined {
  return data === undefined ? undefined : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

/** An error of a dialer that the user brought. */
function wrap(error: Error): TransportError {
  return new TransportError('ERR_CONNECTION', error.message, { cause: error, retriable: true });
}
