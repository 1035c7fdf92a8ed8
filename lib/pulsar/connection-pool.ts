import { ClosedError, type TransportError } from '../errors.js';
import { backoffDelay, type BackoffOptions } from '../net/backoff.js';
import { type TimerHandle } from '../net/clock.js';
import { brokerUrl } from './broker-url.js';
import { type BrokerTarget, Connection, type ConnectionHooks, type ConnectionSettings } from './connection.js';

export interface PoolSettings extends ConnectionSettings {
  readonly connectionsPerBroker: number;
  readonly backoff: BackoffOptions;
}

export interface PoolHooks {
  connected(connection: Connection): void;
  disconnected(connection: Connection, error: TransportError): void;
  connectFailed(connection: Connection, error: TransportError): void;
  authRefreshFailed(connection: Connection, error: TransportError): void;
  ignored(connection: Connection, command: string): void;
}

/**
 * The connections of a client, a few for each broker. Whoever needs one while it is being made shares the try, and a try
 * after a failed one waits: however many producers a broker has, it is dialled no faster than the backoff allows.
 */
export class ConnectionPool {
  private readonly places = new Map<string, Place>();
  private closedBy: TransportError | undefined = undefined;
  private readonly connectionHooks: ConnectionHooks;

  constructor(
    private readonly settings: PoolSettings,
    private readonly hooks: PoolHooks,
  ) {
    this.connectionHooks = {
      connected: (connection) => this.hooks.connected(connection),
      authRefreshFailed: (connection, error) => this.hooks.authRefreshFailed(connection, error),
      ignored: (connection, command) => this.hooks.ignored(connection, command),
      closed: (connection, error, wasReady) => this.ended(connection, error, wasReady),
    };
  }

  get connections(): Connection[] {
    return [...this.places.values()].flatMap(({ connection }) => connection ?? []);
  }

  /** @param slot any non-negative integer; the same one gives the same connection while it lives */
  async connect(target: BrokerTarget, slot: number): Promise<Connection> {
    if (this.closedBy !== undefined) throw this.closedBy;
    const place = this.place(target, slot);
    if (place.connection !== undefined && place.connection.phase !== 'closed') return place.connection.ready;
    if (place.refusal !== undefined && this.settings.clock.now() < place.notBefore) throw place.refusal;
    place.dialling ??= this.dial(place, target).finally(() => (place.dialling = undefined));
    return place.dialling;
  }

  /** Milliseconds until the broker may be dialled again. */
  waitFor(target: BrokerTarget, slot: number): number {
    const place = this.places.get(this.key(target, slot));
    return place === undefined ? 0 : Math.max(0, place.notBefore - this.settings.clock.now());
  }

  end(error: TransportError): void {
    this.close(error, (connection) => connection.end(error));
  }

  destroy(error: TransportError): void {
    this.close(error, (connection) => connection.destroy(error));
  }

  private close(error: TransportError, closeOne: (connection: Connection) => void): void {
    this.closedBy = error;
    for (const place of this.places.values()) {
      if (place.connection !== undefined) closeOne(place.connection);
      place.wake?.();
    }
    this.places.clear();
  }

  private async dial(place: Place, target: BrokerTarget): Promise<Connection> {
    const { clock } = this.settings;
    const wait = place.notBefore - clock.now();
    if (wait > 0) await this.sleep(place, wait);
    if (this.closedBy !== undefined) throw this.closedBy;
    const connection = new Connection(target, this.settings, this.connectionHooks);
    place.connection = connection;
    return connection.ready;
  }

  private sleep(place: Place, ms: number): Promise<void> {
    const { clock } = this.settings;
    return new Promise((resolve) => {
      const timer: TimerHandle = clock.setTimer(resolve, ms);
      place.wake = () => {
        clock.clearTimer(timer);
        resolve();
      };
    });
  }

  private ended(connection: Connection, error: TransportError, wasReady: boolean): void {
    for (const place of this.places.values()) {
      if (place.connection !== connection) continue;
      place.connection = undefined;
      place.refusal = wasReady || error.retriable ? undefined : error;
      const { clock, backoff } = this.settings;
      // A broker that accepts and closes at once must not be dialled in a hot loop: only use or time makes good.
      if (connection.proven || clock.now() - connection.since >= backoff.max) place.failures = 0;
      place.notBefore = clock.now() + backoffDelay(backoff, place.failures, clock.random());
      place.failures += 1;
    }
    if (this.closedBy !== undefined) return;
    if (wasReady) this.hooks.disconnected(connection, error);
    else this.hooks.connectFailed(connection, error);
  }

  private place(target: BrokerTarget, slot: number): Place {
    const key = this.key(target, slot);
    let place = this.places.get(key);
    if (place === undefined) {
      place = {
        connection: undefined,
        dialling: undefined,
        wake: undefined,
        refusal: undefined,
        failures: 0,
        notBefore: -Infinity,
      };
      this.places.set(key, place);
    }
    return place;
  }

  private key(target: BrokerTarget, slot: number): string {
    return `${brokerUrl(target.logical)} ${brokerUrl(target.physical)} ${slot % this.settings.connectionsPerBroker}`;
  }
}

interface Place {
  connection: Connection | undefined;
  dialling: Promise<Connection> | undefined;
  /** Ends the wait before a dial. */
  wake: (() => void) | undefined;
  /** How the last try ended, if no repetition cures it: until the next one is due, whoever asks gets it at once. */
  refusal: TransportError | undefined;
  failures: number;
  notBefore: number;
}

/** For a client that was closed. */
export function clientClosed(): ClosedError {
  return new ClosedError('The Pulsar client is closed');
}
