import { type Logger } from '@nestjs/common';
import { type MqttClient } from '../mqtt/index.js';
import { counted } from './counted.js';
import { type IntakeControl } from './intake-control.js';
import { type MqttServerStats } from './task-host.js';

export interface ReconnectHost {
  readonly client: Pick<MqttClient, 'status' | 'reconnect'>;
  readonly intake: Pick<IntakeControl, 'has'>;
  readonly stats: MqttServerStats;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * One reconnect of our own, after which the broker sends again what is not acknowledged.
 *
 * @param held how many messages it is for
 * @returns false: not now. One is under way already, or nobody would take in what it brings
 */
export function controlledReconnect({ client, intake, stats, logger }: ReconnectHost, held: number): boolean {
  if (client.status.state !== 'connected' || intake.has('paused') || intake.has('halted')) return false;
  stats.reconnects += 1;
  logger.warn(`Reconnecting to have ${counted(held, 'failed message')} sent again`);
  client.reconnect(`${counted(held, 'failed message is', 'failed messages are')} to be sent again`);
  return true;
}
