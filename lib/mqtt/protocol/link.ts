import { ConnectionError, RemoteProtocolError, TimeoutError, type TransportError } from '../../errors.js';
import { encodePacket } from '../codec/control.js';
import { FrameReader } from '../codec/frame-reader.js';
import { DisconnectIn311Error, PROTOCOL_ERROR } from '../codec/malformed.js';
import { type ConnackPacket, type DisconnectPacket, type Properties, type ServerPacket } from '../codec/packets.js';
import { AuthExchange } from './auth-exchange.js';
import {
  checkConnack,
  type ConnectCredentials,
  connectPacket,
  connectResult,
  sessionTakenAway,
  takesSessionAway,
  toLocalError,
} from './connect.js';
import { type ConnectionCause, type ConnectionState, nextConnectionState } from './connection-state.js';
import { PROTOCOL_LIMITS, type SessionCore } from './core.js';
import { type Intake } from './intake.js';
import { KeepAlive } from './keep-alive.js';
import { connackActions, disconnectActions, refusedError, serverDisconnectError } from './reason-actions.js';
import { type Ending, ReconnectPlan } from './reconnect-plan.js';
import { type SessionParts } from './session-parts.js';
import { type ConnectResult } from './types.js';

/** The life of one connection after the other: dial, CONNECT, AUTH, keep alive, the end, and when to try again. */
export class Link {
  // valid for the session
  state: ConnectionState = 'offline';
  readonly plan: ReconnectPlan;
  readonly authentication: AuthExchange;
  clientId: string;
  /** A connection is wanted: by connect(), until close() or giving up. */
  private wanted = false;
  /** The first connection must come with the first try at each server. */
  private failFast = false;
  private everConnected = false;
  private dialAt: number | undefined = undefined;
  /** The name of a server that a Server Reference named. */
  private followed: string | undefined = undefined;

  // valid for one connection
  result: ConnectResult | undefined = undefined;
  private reader: FrameReader | undefined = undefined;
  private readonly keepAlive = new KeepAlive();
  /** DISCONNECT, which goes out after every acknowledgement whose turn has come. */
  private farewell: { readonly packet: Buffer; readonly acknowledges: boolean } | undefined = undefined;
  /** Of the connection attempt, or of the closing. */
  private deadline: number | undefined = undefined;
  private ending: { readonly how: Ending; readonly cause: TransportError | undefined } | undefined = undefined;

  constructor(
    private readonly core: SessionCore,
    private readonly parts: SessionParts,
    private readonly intake: Intake,
  ) {
    this.plan = new ReconnectPlan(core.config);
    this.authentication = new AuthExchange(core, intake, this);
    this.clientId = core.config.clientId;
  }

  get online(): boolean {
    return this.state === 'connected' || this.state === 'reauthenticating';
  }

  get server(): string {
    return this.followed ?? this.core.config.servers[this.plan.server];
  }

  /** @param failFast give up after one failed try at each server, until the first connection stood */
  connect(failFast: boolean, now: number): void {
    if (this.wanted || this.state === 'ended') return;
    this.wanted = true;
    this.failFast = failFast;
    this.everConnected = false;
    this.plan.restart();
    if (this.state === 'offline') this.dial(now);
  }

  private dial(now: number): void {
    this.dialAt = undefined;
    this.move('dial');
    this.deadline = now + this.core.config.connectTimeout;
    this.core.outbox.emit({ kind: 'dial', server: this.plan.server });
  }

  /** The transport is open: CONNECT goes out. */
  opened(credentials: ConnectCredentials, now: number): void {
    if (this.state !== 'dialing') return;
    this.move('opened');
    const { config } = this.core;
    this.core.version = this.plan.version;
    this.core.limits = PROTOCOL_LIMITS;
    this.reader = new FrameReader(this.core.version, { maximumPacketSize: config.maximumPacketSize });
    try {
      const packet = connectPacket(config, this.core.version, this.clientId, credentials);
      this.parts.subscriptions.connecting();
      this.core.outbox.write(encodePacket(packet, this.core.version));
    } catch (error) {
      // What the user gave does not fit into a CONNECT: it will not the next time either.
      const cause = toLocalError(error);
      this.ending = { how: 'giveUp', cause };
      this.abort(cause);
    }
    this.keepAlive.start(0, undefined, now);
  }

  /** Bytes of the server. */
  receive(chunk: Buffer, now: number): void {
    if (this.reader === undefined || this.state === 'closing') return;
    // What we do not look at yet counts as it comes.
    this.keepAlive.received(now, this.blocked ? undefined : chunk.length);
    this.reader.push(chunk);
    this.settle(now);
  }

  /** Takes in what may be taken in, and tells the transport when that changes. */
  settle(now: number): void {
    if (this.reader === undefined) return;
    try {
      while (this.reader !== undefined && this.state !== 'closing' && !this.blocked) {
        const packet = this.reader.next();
        if (packet === undefined) break;
        this.handle(packet, now);
      }
    } catch (error) {
      if (!(error instanceof RemoteProtocolError)) throw error;
      this.violated(error, now);
    }
    const paused = this.online && this.blocked;
    if (!this.intake.setReadingPaused(paused, now)) return;
    this.keepAlive.setPaused(paused, now);
    this.core.outbox.emit({ kind: 'reading', paused });
  }

  private get blocked(): boolean {
    return this.intake.checking || (this.online && this.intake.blocked);
  }

  private handle(packet: ServerPacket, now: number): void {
    this.keepAlive.received(now);
    switch (packet.type) {
      case 'connack':
        return this.connected(packet, now);
      case 'auth':
        return this.authentication.challenged(packet, now);
      case 'disconnect':
        return this.disconnectedByServer(packet, now);
      default:
        // Nothing but AUTH and DISCONNECT comes before CONNACK [MQTT-3.2.0-1].
        if (this.online) return this.parts.receive(packet, now);
        throw new RemoteProtocolError(`The server sent ${packet.type} before CONNACK`, PROTOCOL_ERROR);
    }
  }

  private connected(packet: ConnackPacket, now: number): void {
    if (this.online) throw new RemoteProtocolError('The server sent a second CONNACK [MQTT-3.2.0-2]', PROTOCOL_ERROR);
    const { config, version } = this.core;
    if (packet.reasonCode !== 0) {
      this.refused(packet.reasonCode, packet.properties, now);
      return;
    }
    checkConnack(packet, config, version, this.clientId);
    if (takesSessionAway(packet, config)) {
      const error = sessionTakenAway(this.server, config.sessionExpiry);
      this.leave(this.everConnected ? 'longBackoff' : 'giveUp', error, now, { reasonCode: 0 });
      return;
    }
    if (config.checksServer) this.authentication.check(packet);
    else this.accept(packet, now);
  }

  /** The connection stands. */
  accept(packet: ConnackPacket, now: number): void {
    const { core } = this;
    this.move('accepted');
    this.deadline = undefined;
    this.everConnected = true;
    core.counters.connects += 1;
    this.plan.connected(core.version, now);
    this.result = connectResult(packet, core.config, core.version, this.server, this.clientId);
    core.limits = this.result.limits;
    this.clientId = this.result.clientId;
    this.keepAlive.start(this.result.keepAlive, core.config.pingTimeout, now);
    const lost =
      !packet.sessionPresent &&
      (this.parts.inbound.holdsState || this.parts.outbound.holdsState || this.parts.subscriptions.holdsState);
    this.parts.inbound.connected(packet.sessionPresent);
    core.outbox.emit({ kind: 'connected', result: this.result });
    const asked = core.config.sessionExpiry;
    if (core.version === 5 && this.result.sessionExpiry < asked) {
      core.warn(`The server keeps the session for ${this.result.sessionExpiry} s instead of ${asked} s`);
    }
    if (lost) {
      core.counters.sessionsLost += 1;
      core.outbox.emit({ kind: 'sessionLost', orphaned: this.parts.inbound.takeOrphaned() });
    }
    this.parts.subscriptions.connected(packet.sessionPresent, now);
    this.parts.outbound.connected(packet.sessionPresent, now);
  }

  private refused(reasonCode: number, properties: Properties | undefined, now: number): void {
    const error = refusedError(this.server, reasonCode, properties?.reasonString);
    this.reportServerReference(reasonCode, properties);
    this.leave(connackActions[reasonCode] ?? 'retry', error, now);
  }

  private disconnectedByServer(packet: DisconnectPacket, now: number): void {
    const { reasonCode, properties } = packet;
    this.reportServerReference(reasonCode, properties);
    // Nothing may be sent any more, not even what was released [MQTT-3.14.4-2 by its sense].
    this.leave(
      disconnectActions[reasonCode] ?? 'retry',
      serverDisconnectError(this.server, reasonCode, properties?.reasonString),
      now,
    );
  }

  private reportServerReference(reasonCode: number, properties: Properties | undefined): void {
    this.core.outbox.emit({
      kind: 'serverDisconnect',
      reasonCode,
      reasonString: properties?.reasonString,
      serverReference: properties?.serverReference,
    });
  }

  /** One controlled reconnect, however often it is asked for: what was released goes out first. */
  reconnect(reason: string, now: number): void {
    if (!this.online) return;
    this.leave('controlled', new ConnectionError(`Reconnecting: ${reason}`), now, { reasonCode: 0 });
  }

  /** Ends for good. */
  close(disconnect: { readonly reasonCode: number; readonly properties?: Properties }, now: number): void {
    this.wanted = false;
    this.dialAt = undefined;
    if (this.state === 'offline') this.end();
    else if (this.online) this.leave('giveUp', undefined, now, disconnect);
    else if (this.state !== 'closing' && this.state !== 'ended') this.abort(new ConnectionError('Closed by us'));
  }

  private end(): void {
    this.move('end');
    this.parts.fail('the client was closed');
    this.core.outbox.emit({ kind: 'ended', abandoned: this.parts.inbound.abandon() });
  }

  private violated(error: RemoteProtocolError, now: number): void {
    const how = this.state === 'connecting' && this.plan.negotiates ? 'closedBeforeConnack' : 'retry';
    // 3.1.1 has no DISCONNECT with a reason: the connection is just closed [MQTT-4.8.0-1].
    this.leave(how, error, now, this.core.version === 5 ? { reasonCode: error.reasonCode } : undefined);
  }

  /** Ends the connection: the transport goes when everything is written. */
  leave(
    how: Ending,
    cause: TransportError | undefined,
    now: number,
    disconnect?: { readonly reasonCode: number; readonly properties?: Properties },
  ): void {
    if (this.state === 'closing' || this.state === 'offline' || this.state === 'ended') return;
    this.ending = { how, cause };
    if (disconnect !== undefined) {
      const packet = encodePacket({ type: 'disconnect', ...disconnect }, this.core.version);
      this.farewell = { packet, acknowledges: this.online };
    }
    this.move('leave');
    this.parts.leave();
    this.deadline = now + Math.min(this.core.config.closeTimeout, 2000);
    this.core.outbox.emit({ kind: 'end' });
  }

  /** `complete()` would add something. */
  get hasMore(): boolean {
    return this.farewell !== undefined || (this.online && this.parts.inbound.hasAcknowledgements);
  }

  /** Puts what is ready into the outbox, right before its bytes are handed to the socket. */
  complete(): void {
    const { farewell } = this;
    if (this.online || farewell?.acknowledges === true) this.parts.inbound.releaseAcknowledgements();
    if (farewell === undefined) return;
    this.core.outbox.write(farewell.packet);
    this.farewell = undefined;
  }

  private abort(error: TransportError): void {
    this.deadline = undefined;
    this.keepAlive.stop();
    this.ending ??= { how: 'retry', cause: error };
    this.core.outbox.emit({ kind: 'abort', error });
  }

  /**
   * The transport is gone, or never came.
   *
   * @param random in [0, 1), for the delay of the next try
   */
  lost(error: Error | undefined, now: number, random: number): void {
    if (this.state === 'offline' || this.state === 'ended') return;
    const unanswered = this.state === 'connecting' && this.reader?.bufferedBytes === 0;
    const ending = this.ending ?? {
      how: unanswered ? ('closedBeforeConnack' as const) : ('retry' as const),
      cause: undefined,
    };
    const cause = ending.cause ?? this.lossError(error);
    const silent = (this.online && this.ending === undefined) || cause instanceof DisconnectIn311Error;
    const warning = silent ? this.plan.closedSilently(this.clientId, now) : undefined;
    if (warning !== undefined) this.core.warn(warning);
    this.reset(now);
    if (!this.plan.redirected) this.followed = undefined;
    this.move('lost');
    if (!this.wanted) {
      this.core.outbox.emit({ kind: 'disconnected', cause: ending.cause, nextDialAt: undefined, fallsBack: false });
      this.end();
      return;
    }
    const delay = this.plan.next(ending.how, now, random);
    const exhausted = this.failFast && !this.everConnected && this.plan.failures >= this.core.config.servers.length;
    if (delay === undefined || exhausted) {
      this.wanted = false;
      this.followed = undefined;
      this.core.outbox.emit({ kind: 'disconnected', cause, nextDialAt: undefined, fallsBack: false });
      this.core.outbox.emit({ kind: 'gaveUp', error: cause });
      return;
    }
    this.dialAt = now + delay;
    this.core.outbox.emit({ kind: 'disconnected', cause, nextDialAt: this.dialAt, fallsBack: this.plan.fallingBack });
  }

  private lossError(error: Error | undefined): TransportError {
    if (error !== undefined && 'code' in error && 'retriable' in error) return error as TransportError;
    const what = this.online ? 'the connection was lost' : 'the connection was closed before CONNACK';
    return new ConnectionError(`${this.server}: ${what}`, { cause: error });
  }

  private reset(now: number): void {
    this.intake.setReadingPaused(false, now);
    this.core.outbox.takeBytes();
    this.reader = undefined;
    this.ending = undefined;
    this.farewell = undefined;
    this.deadline = undefined;
    this.authentication.reset();
    this.keepAlive.stop();
    this.parts.disconnected();
  }

  /** The connection is ending, and the next dial goes to a server that a Server Reference named. */
  follow(server: string): void {
    this.followed = server;
    this.plan.redirected = true;
  }

  sent(now: number): void {
    this.keepAlive.sent(now);
  }

  nextDialAt(): number | undefined {
    return this.dialAt;
  }

  nextDeadline(): number | undefined {
    const ping = this.online ? this.keepAlive.nextDeadline() : undefined;
    const subscription = this.online ? this.parts.subscriptions.nextDeadline() : undefined;
    return earliest(earliest(this.dialAt, this.deadline), earliest(ping, subscription));
  }

  handleTimeout(now: number): void {
    if (this.dialAt !== undefined && this.dialAt <= now) this.dial(now);
    else if (this.deadline !== undefined && this.deadline <= now) this.timedOut();
    else if (this.online) {
      this.parts.subscriptions.handleTimeout(now);
      const due = this.keepAlive.check(now);
      if (due === 'ping') this.core.outbox.write(encodePacket({ type: 'pingreq' }, this.core.version));
      else if (due === 'dead') {
        this.abort(silentFor(`${this.server}: no sign of life after a ping`, this.keepAlive.silence));
      }
    }
  }

  private timedOut(): void {
    if (this.state === 'closing') this.abort(new ConnectionError(`${this.server}: the connection did not close`));
    else this.abort(silentFor(`${this.server}: no connection`, this.core.config.connectTimeout));
  }

  move(cause: ConnectionCause): void {
    this.state = nextConnectionState(this.state, cause);
  }
}

function silentFor(what: string, ms: number): TimeoutError {
  return new TimeoutError(`${what} within ${ms} ms`, ms, { code: 'ERR_CONNECTION' });
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined) return b;
  return b === undefined || a < b ? a : b;
}
