import { type Logger } from '@nestjs/common';
import { errorText } from '../error-text.js';
import { type Clock } from '../net/clock.js';
import { emitChannel, type EmitEvent } from '../observability/channels.js';
import { firstLateEmitOf } from './delivery-scope.js';
import { type Emission, type EmissionOwner } from './emission.js';

/** What became of the emits of one proxy. */
export interface EmitStats {
  /** The broker has it. */
  readonly stored: number;
  readonly failed: number;
  /** Of these: nobody subscribed, and no delivery answers for it. */
  readonly unobservedFailures: number;
  /** Emitted by a handler whose delivery was settled already. */
  readonly late: number;
}

/** At most one log line about unobserved failures in this time. */
const LOG_INTERVAL_MS = 10_000;

/** Counts the outcomes of emits, publishes them on the `emit` channel, and says in the log what would be silent. */
export class EmitReports implements EmissionOwner {
  stored = 0;
  failed = 0;
  unobservedFailures = 0;
  late = 0;

  private loggedAt = -Infinity;
  private loggedCount = 0;

  constructor(
    private readonly logger: Logger,
    private readonly clock: Clock,
  ) {}

  get stats(): EmitStats {
    const { stored, failed, unobservedFailures, late } = this;
    return { stored, failed, unobservedFailures, late };
  }

  emissionSettled(emission: Emission<unknown>, unattended: boolean): void {
    if (emission.state === 'stored') {
      this.stored += 1;
      if (emitChannel.hasSubscribers) this.publish(emission, 'stored');
      return;
    }
    this.failed += 1;
    if (!unattended || emission.observed) {
      this.publish(emission, 'failed');
    } else {
      // An emit can fail before it was returned: whoever called has this turn to subscribe.
      this.clock.endOfTurn(() => {
        if (emission.observed) this.publish(emission, 'failed');
        else this.unobserved(emission);
      });
    }
  }

  emittedLate(emission: Emission<unknown>, handler: string): void {
    this.late += 1;
    this.publish(emission, 'late');
    if (!firstLateEmitOf(handler)) return;
    this.logger.warn(
      `${handler} emitted '${emission.pattern}' after its delivery was settled: the message is sent, but nothing waits ` +
        `for it and its failure fails nothing. Return or await what emit() gives, or use ctx.waitUntil(). ` +
        `(Said once per handler.)`,
    );
  }

  private unobserved(emission: Emission<unknown>): void {
    this.unobservedFailures += 1;
    this.publish(emission, 'unobservedFailure');
    const now = this.clock.now();
    if (now - this.loggedAt < LOG_INTERVAL_MS) return;
    const count = this.unobservedFailures - this.loggedCount;
    this.loggedAt = now;
    this.loggedCount = this.unobservedFailures;
    const { error } = emission;
    const others = count > 1 ? ` (${count} emits failed unobserved since the last such line)` : '';
    this.logger.error(`emit('${emission.pattern}') failed and nobody subscribed to it: ${errorText(error)}${others}`);
  }

  private publish(emission: Emission<unknown>, outcome: EmitEvent['outcome']): void {
    if (!emitChannel.hasSubscribers) return;
    const { pattern, error } = emission;
    emitChannel.publish({ pattern, outcome, ...(error !== undefined && { error }) } satisfies EmitEvent);
  }
}
