import { type ProtocolVersion } from '../codec/packets.js';
import { type SessionConfig } from './config.js';
import { type ReasonAction } from './reason-actions.js';

/** How the last connection ended, as far as it matters for the next one. */
export type Ending = ReasonAction | 'controlled' | 'closedBeforeConnack';

/** A connection that lasted this long counts as good: the next delay is short again. */
const STABLE_MS = 10_000;

/**
 * Two clients with one client id throw each other out at every try, and these lie up to the longest backoff apart: only a
 * connection that was left alone for so long shows that there is no other client any more.
 */
const UNDISTURBED_MS = 600_000;

/** Servers that send us to each other are not followed for ever. */
const MAX_REDIRECTS = 5;

/** Then at twice as many, and so on. */
const FIRST_WARNING = 5;

/**
 * Decides when, where and with which version to dial next. Also a connection that succeeded and was closed at once
 * counts as a failed try, so that two clients with one client id cannot throw each other out in a tight loop.
 */
export class ReconnectPlan {
  /** Index into the servers. */
  server = 0;
  /** Tries in a row without a stable connection. */
  private attempt = 0;
  private longAttempt = 0;
  private takeovers = 0;
  /** The next try goes to a server that a Server Reference named: soon, and not as a try that failed. */
  redirected = false;
  /** The next try, at once and on the same server, is with MQTT 3.1.1 because 5 was refused. */
  fallingBack = false;
  /** Such tries without a stable connection. */
  private redirects = 0;
  /** Times in a row that a connection was closed without a word. */
  private silent = 0;
  private connectedAt: number | undefined = undefined;
  /** What the next CONNECT says, until one succeeded. */
  private candidate: ProtocolVersion;
  private confirmed: ProtocolVersion | undefined = undefined;

  constructor(private readonly config: SessionConfig) {
    this.candidate = config.protocolVersion === 4 ? 4 : 5;
  }

  get version(): ProtocolVersion {
    return this.confirmed ?? this.candidate;
  }

  /** The version is still open. */
  get negotiates(): boolean {
    return this.config.protocolVersion === 'auto' && this.confirmed === undefined;
  }

  /** A new start by the owner: earlier failures do not count. */
  restart(): void {
    this.takeovers = 0;
    this.silent = 0;
    this.stable();
  }

  private stable(): void {
    this.redirects = 0;
    this.attempt = 0;
    this.longAttempt = 0;
  }

  connected(version: ProtocolVersion, now: number): void {
    this.confirmed = version;
    this.connectedAt = now;
  }

  /**
   * Plans the next try.
   *
   * @returns the delay in ms, or undefined to give up
   */
  next(ending: Ending, now: number, random: number): number | undefined {
    const lasted = this.connectedAt === undefined ? 0 : now - this.connectedAt;
    const wasConnected = this.connectedAt !== undefined;
    this.connectedAt = undefined;
    this.fallingBack = false;
    if (lasted >= UNDISTURBED_MS) this.restart();
    else if (lasted >= STABLE_MS) this.stable();
    if (this.followsReference(ending)) {
      this.nextServer();
      return this.config.reconnectDelay(0, random);
    }
    this.fallingBack = this.fallsBack(ending);
    if (this.fallingBack) return 0;
    switch (ending) {
      case 'controlled':
        return this.config.reconnectDelay(0, random);
      case 'giveUp':
      case 'version':
        return ending === 'version' && this.negotiates ? this.short(random) : undefined;
      case 'takeover':
        this.takeovers += 1;
        return this.takeovers > this.config.maxTakeovers ? undefined : this.long(random);
      case 'credentials':
        this.nextServer();
        return this.config.renewsCredentials ? this.short(random) : this.long(random);
      case 'longBackoff':
      case 'redirect':
        this.nextServer();
        return this.long(random);
      case 'retry':
      case 'closedBeforeConnack':
        // A server that was good a moment ago is tried first.
        if (!wasConnected) this.nextServer();
        return this.short(random);
    }
  }

  private followsReference(ending: Ending): boolean {
    if (!this.redirected) return false;
    this.redirected = false;
    if (ending === 'giveUp') return false;
    this.redirects += 1;
    return this.redirects <= MAX_REDIRECTS;
  }

  /** 3.1.1 on the same server at once. */
  private fallsBack(ending: Ending): boolean {
    if (this.config.protocolVersion !== 'auto') return false;
    const tried = this.version;
    // What was agreed on does not count for a server that refuses it: another one, or one that was set up anew.
    if (ending === 'version') this.confirmed = undefined;
    if (this.confirmed !== undefined) return false;
    const refused = ending === 'version' || ending === 'closedBeforeConnack';
    // If that fails as well, for whatever reason, 5 is tried again after the usual delay: an outage during the fallback
    // must not decide the version for good.
    this.candidate = tried === 5 && refused ? 4 : 5;
    return this.candidate === 4;
  }

  /**
   * A connection was closed without a reason: by the network, or by a server that does not tell of a takeover (3.1.1, and
   * some in MQTT 5). Asked before `next()`.
   *
   * @returns a warning, where it is time for one
   */
  closedSilently(clientId: string, now: number): string | undefined {
    if (this.connectedAt !== undefined && now - this.connectedAt >= UNDISTURBED_MS) return undefined;
    this.silent += 1;
    if (!Number.isInteger(Math.log2(this.silent / FIRST_WARNING)) || this.silent < FIRST_WARNING) return undefined;
    return (
      `${this.silent} connections in a row were closed without a reason: ` +
      `does another client use the client id '${clientId}'?`
    );
  }

  /** Tries that failed since the last stable connection. */
  get failures(): number {
    return this.attempt + this.longAttempt;
  }

  private nextServer(): void {
    this.server = (this.server + 1) % this.config.servers.length;
  }

  private short(random: number): number {
    return this.config.reconnectDelay(this.attempt++, random);
  }

  private long(random: number): number {
    return this.config.longDelay(this.longAttempt++, random);
  }
}
