import { type Logger } from '@nestjs/common';
import { type MqttClient, type MqttDelivery } from '../mqtt/index.js';
import { type Clock } from '../net/clock.js';
import { CallbackDeadline, type DeadlineQueue } from './deadline-queue.js';

export interface StallWatchHost {
  readonly client: Pick<MqttClient, 'oldestUnacknowledged' | 'window' | 'stats'>;
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly logger: Logger;
  heldChanged(): void;
  /** The log has said already that this one is held. */
  reported(delivery: MqttDelivery): boolean;
}

/**
 * Looks from time to time at the oldest message that is not acknowledged. Whatever keeps it - a slow handler, a sink that
 * does not answer, a detached handle - everything behind it in its lane waits as well, so beyond `limit` it is said aloud:
 * once per stall, and not more often than once a minute where stalls follow each other.
 */
export class StallWatch {
  /** The oldest message is older than the limit. */
  stalled = false;
  private saidAt = -Infinity;
  private unsaid = false;
  private readonly timer = new CallbackDeadline(() => this.look());

  constructor(
    private readonly host: StallWatchHost,
    /** ms; 0: never. */
    private readonly limit: number,
  ) {}

  start(): void {
    if (this.limit > 0) this.host.deadlines.add(this.timer, this.host.clock.now(), this.limit / 4);
  }

  private look(): void {
    const { client, clock } = this.host;
    const oldest = client.oldestUnacknowledged();
    const stalled = oldest !== undefined && oldest.ageMs >= this.limit;
    if (stalled && !this.stalled) this.unsaid = true;
    if (!stalled) this.unsaid = false;
    if (stalled && this.unsaid && !this.host.reported(oldest.delivery) && clock.now() - this.saidAt >= INTERVAL) {
      this.unsaid = false;
      this.saidAt = clock.now();
      this.say(oldest.delivery, oldest.ageMs);
    }
    if (stalled !== this.stalled) {
      this.stalled = stalled;
      this.host.heldChanged();
    }
    this.start();
  }

  private say({ message, attempt }: MqttDelivery, ageMs: number): void {
    const { client, logger } = this.host;
    const { used, size } = client.window;
    logger.error(
      `Stalled: a message on '${message.topic}' is not acknowledged, age ${Math.round(ageMs)} ms, attempt ${attempt}; ` +
        `${used} of ${size} places of the window are in use, reading was paused for ${Math.round(client.stats.pausedMs)} ms in all`,
    );
  }
}

/** ms */
const INTERVAL = 60_000;
