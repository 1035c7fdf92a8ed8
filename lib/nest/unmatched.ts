import { type Logger } from '@nestjs/common';
import { errorText } from '../error-text.js';
import { type MqttClient, type MqttDelivery } from '../mqtt/index.js';
import { sendDeadLetter } from './dead-letter.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { CallbackDeadline, type DeadlineQueue } from './deadline-queue.js';
import { type IntakeControl } from './intake-control.js';
import { type Clock } from '../net/clock.js';
import { LONGEST_BETWEEN_PROBES } from './probe-lane.js';
import { type MqttServerStats } from './task-host.js';

export interface UnmatchedHost {
  readonly client: MqttClient;
  readonly logger: Logger;
  readonly stats: MqttServerStats;
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  readonly intake: Pick<IntakeControl, 'entered' | 'left'>;
  readonly wallTimeAt: (monotonic: number) => number;
  heldChanged(): void;
  /** The shutdown waits for these. */
  openRounds: number;
  roundEnded(): void;
}

/** Messages that no handler asked for: a session can hold subscriptions of an earlier version. Never silent. */
export class UnmatchedMessages {
  private readonly kept = new Set<MqttDelivery>();
  private readonly topics = new Set<string>();
  private stopped = false;

  constructor(
    private readonly host: UnmatchedHost,
    private readonly policy: 'deadLetter' | 'hold' | 'acknowledge',
    private readonly deadLetter: DeadLetterTarget | undefined,
    /** ms; of the first repetition of a dead letter that was not taken. */
    private readonly again: number,
  ) {}

  /** How many are held without an acknowledgement. */
  get held(): number {
    return this.kept.size;
  }

  /** Will not come back as this delivery. */
  dropped(delivery: MqttDelivery): void {
    if (this.kept.delete(delivery)) this.host.heldChanged();
  }

  take(delivery: MqttDelivery): void {
    const { client, stats } = this.host;
    stats.unmatched += 1;
    this.warn(delivery.message.topic);
    if (this.policy === 'deadLetter' && this.deadLetter !== undefined) {
      this.host.intake.entered(delivery);
      void this.send(delivery, this.deadLetter, this.again);
    } else if (this.policy === 'acknowledge' || delivery.message.qos === 0) client.acknowledge(delivery);
    else this.hold(delivery);
  }

  /** Nothing is tried again: the server closes. */
  stop(): void {
    this.stopped = true;
  }

  private async send(delivery: MqttDelivery, target: DeadLetterTarget, again: number): Promise<void> {
    const { host } = this;
    const { client, logger, stats } = host;
    client.start(delivery);
    host.openRounds += 1;
    try {
      await sendDeadLetter(target, delivery, undefined, 'no handler', this.host);
      stats.deadLettered += 1;
      client.acknowledge(delivery);
      this.host.intake.left(delivery);
      this.dropped(delivery);
    } catch (error) {
      stats.deadLetterFailures += 1;
      logger.error(
        `The dead letter of a message on '${delivery.message.topic}' was not taken, the message is kept: ${errorText(error)}`,
      );
      client.retry(delivery);
      this.kept.add(delivery);
      this.host.heldChanged();
      if (this.stopped) return;
      const retry = new CallbackDeadline(
        () => void this.send(delivery, target, Math.min(again * 2, LONGEST_BETWEEN_PROBES)),
      );
      this.host.deadlines.add(retry, this.host.clock.now(), again);
    } finally {
      host.openRounds -= 1;
      host.roundEnded();
    }
  }

  private hold(delivery: MqttDelivery): void {
    this.host.client.fail(delivery);
    this.kept.add(delivery);
    this.host.heldChanged();
  }

  /** Once per topic, for a bounded number of topics. */
  private warn(topic: string): void {
    if (this.topics.has(topic) || this.topics.size >= MAX_TOPICS) return;
    this.topics.add(topic);
    this.host.logger.error(
      `No handler for '${topic}' (${this.policy}): a subscription of an earlier version may still be in the session; ` +
        `name its filter in unsubscribe: [...], or add a handler`,
    );
  }
}

const MAX_TOPICS = 1_000;
