import { type Logger } from '@nestjs/common';
import { type MqttClient, type MqttDelivery } from '../mqtt/index.js';
import { sendDeadLetter } from './failure-settlement.js';
import { type DeadLetterOptions } from './mqtt-server-options.js';
import { type MqttServerStats } from './task-host.js';

export interface UnmatchedHost {
  readonly client: MqttClient;
  readonly logger: Logger;
  readonly stats: MqttServerStats;
  readonly wallTimeAt: (monotonic: number) => number;
  heldChanged(): void;
}

/** Messages that no handler asked for: a session can hold subscriptions of an earlier version. Never silent. */
export class UnmatchedMessages {
  /** Held without an acknowledgement. */
  held = 0;
  private readonly topics = new Set<string>();

  constructor(
    private readonly host: UnmatchedHost,
    private readonly policy: 'deadLetter' | 'hold' | 'acknowledge',
    private readonly deadLetter: DeadLetterOptions | undefined,
  ) {}

  take(delivery: MqttDelivery): void {
    const { client, stats } = this.host;
    stats.unmatched += 1;
    this.warn(delivery.message.topic);
    if (this.policy === 'deadLetter' && this.deadLetter !== undefined) void this.send(delivery, this.deadLetter);
    else if (this.policy === 'acknowledge' || delivery.message.qos === 0) client.acknowledge(delivery);
    else this.hold(delivery);
  }

  private async send(delivery: MqttDelivery, target: DeadLetterOptions): Promise<void> {
    const { client, logger, stats } = this.host;
    client.start(delivery);
    try {
      await sendDeadLetter(target, delivery, undefined, 'no handler', this.host);
      stats.deadLettered += 1;
      client.acknowledge(delivery);
    } catch (error) {
      stats.deadLetterFailures += 1;
      logger.error(
        `The dead letter of a message on '${delivery.message.topic}' was not taken, the message is kept: ${String(error)}`,
      );
      this.hold(delivery);
    }
  }

  private hold(delivery: MqttDelivery): void {
    this.host.client.fail(delivery);
    this.held += 1;
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
