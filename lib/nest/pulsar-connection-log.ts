import { type Logger } from '@nestjs/common';
import { type TransportError } from '../errors.js';
import { type Clock } from '../net/clock.js';
import { type PulsarClient } from '../pulsar/index.js';

/** Every try that fails says so to us; the log repeats it this often at most. */
const REPEAT_MS = 60_000;

/** What waits for a connection. */
export interface WaitingEmits {
  /** Emits without an outcome. */
  readonly pending: number;
  readonly producers: number;
}

/**
 * Says in the log that Pulsar is reached, is away, and is back: a line when it begins, one a minute while it lasts, a line
 * when it is over. Addresses only: neither credentials nor anything of a message.
 */
export class PulsarConnectionLog {
  private connectedOnce = false;
  /** Since when somebody misses a broker. */
  private awaySince: number | undefined = undefined;
  private warnedAt = -Infinity;

  constructor(
    private readonly client: PulsarClient,
    private readonly waiting: WaitingEmits,
    private readonly logger: Logger,
    private readonly clock: Clock,
  ) {
    client.on('connected', ({ broker }) => this.reached(broker));
    client.on('disconnected', ({ broker, cause }) => this.lost(broker, cause));
    client.on('connectFailed', ({ broker, cause }) => this.failed(broker, cause));
  }

  /** There is a way to a broker, also over a connection that was there all the time. */
  reached(broker: string): void {
    if (this.awaySince !== undefined) {
      this.logger.log(`Connected to ${broker}, after ${this.away(this.awaySince)} without a connection`);
      this.awaySince = undefined;
    } else if (!this.connectedOnce) this.logger.log(`Connected to ${broker}`);
    this.connectedOnce = true;
  }

  private lost(broker: string, cause: TransportError): void {
    if (this.awaySince === undefined) {
      this.awaySince = this.clock.now();
      this.warn(`Lost the connection to ${reason(broker, cause)}`, cause);
    } else this.again(broker, cause);
  }

  private failed(broker: string, cause: TransportError): void {
    const { connections } = this.client.status;
    // The broker wants newer credentials, and the connection goes on until it closes it.
    if (connections.some((one) => one.broker === broker && one.state === 'ready')) {
      if (this.clock.now() - this.warnedAt < REPEAT_MS) return;
      this.warnedAt = this.clock.now();
      this.logger.warn(`No new credentials for ${reason(broker, cause)}`);
    } else if (this.awaySince === undefined) {
      this.awaySince = this.clock.now();
      this.warn(`Cannot connect to ${reason(broker, cause)}`, cause);
    } else this.again(broker, cause);
  }

  private again(broker: string, cause: TransportError): void {
    if (this.awaySince === undefined || this.clock.now() - this.warnedAt < REPEAT_MS) return;
    this.warn(`No connection for ${this.away(this.awaySince)}, to ${reason(broker, cause)}`, cause);
  }

  private warn(what: string, cause: TransportError): void {
    this.warnedAt = this.clock.now();
    this.logger.warn(`${what}; ${this.outlook(cause)}`);
  }

  private outlook({ retriable }: TransportError): string {
    const { pending, producers } = this.waiting;
    if (!retriable) return 'a further try cannot help, and emits fail';
    if (pending === 0) return producers === 0 ? 'the next emit connects again' : 'trying again, emits wait until then';
    return `trying again, ${pending} ${pending === 1 ? 'emit waits' : 'emits wait'}`;
  }

  private away(since: number): string {
    const ms = this.clock.now() - since;
    if (ms < 1_000) return `${Math.ceil(ms)} ms`;
    return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`;
  }
}

function reason(broker: string, { message }: TransportError): string {
  return message.startsWith(`${broker}: `) ? message : `${broker}: ${message}`;
}
