import { type Logger } from '@nestjs/common';
import { type Clock } from '../net/clock.js';
import { type DeliveryTask } from './delivery-task.js';
import { type HoldReason } from './hold-reason.js';

/**
 * Says that failed messages are held: once when it begins, however many follow, then at most once a minute while more do, and
 * once when all are settled.
 */
export class HoldReport {
  private beganAt = 0;
  /** -Infinity: nothing is held. */
  private saidAt = -Infinity;
  private unsaid = 0;

  constructor(
    private readonly clock: Clock,
    private readonly logger: Pick<Logger, 'error' | 'log'>,
  ) {}

  /** After each hold. */
  held(redelivery: { readonly oldest: DeliveryTask | undefined; readonly size: number }, reason: HoldReason): void {
    const now = this.clock.now();
    this.unsaid += 1;
    if (this.saidAt === -Infinity) this.beganAt = now;
    else if (now - this.saidAt < INTERVAL) return;
    const { oldest } = redelivery;
    if (oldest === undefined) return;
    this.saidAt = now;
    const { message, receivedAt, attempt } = oldest.delivery;
    const more = this.unsaid > 1 ? ` (${this.unsaid} failures since the last such line)` : '';
    this.unsaid = 0;
    this.logger.error(
      `Held: a message on '${message.topic}' is not acknowledged, age ${Math.round(now - receivedAt)} ms, attempt ${attempt}; ` +
        `${redelivery.size} held, using up the broker's window; ${NEXT[reason]}${more}`,
    );
  }

  /** Everything that had failed is settled. */
  over(): void {
    if (this.saidAt === -Infinity) return;
    this.saidAt = -Infinity;
    this.unsaid = 0;
    this.logger.log(`Nothing is held any more, after ${Math.round(this.clock.now() - this.beganAt)} ms`);
  }
}

/** ms */
const INTERVAL = 60_000;

const NEXT: Readonly<Record<HoldReason, string>> = {
  handler: 'a controlled reconnect brings it again',
  sink: 'where it emits to takes nothing: the intake pauses until one of them gets through',
  call: 'what it called gave no answer: it runs again here',
  message: 'no reconnect helps it: it runs again here',
  deadLetter: 'its dead letter is sent again',
  halted: 'the intake stops until resume()',
};
