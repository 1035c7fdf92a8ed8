import { type Logger } from '@nestjs/common';
import { assertGranted, type MqttClient, topicMatches, withoutShare } from '../mqtt/index.js';
import { type WantedSubscription } from './handler-registry.js';
import { MqttClientProxy } from './mqtt-client.proxy.js';
import { type DeadLetterOptions, type ResolvedMqttServerOptions } from './mqtt-server-options.js';
import { describeSession } from './session-report.js';

/** What the session says by itself goes to the log; a lost session is never silent. */
export function logSessionEvents(client: MqttClient, logger: Logger): void {
  client.on('warning', ({ message }) => logger.warn(message));
  client.on('disconnect', ({ cause, willReconnect }) => {
    // A controlled reconnect was logged with its reason by who asked for it.
    if (willReconnect && cause !== undefined && !cause.message.startsWith('Reconnecting:')) {
      logger.warn(`${cause.message}; connecting again`);
    }
  });
  client.on('error', (error) => logger.error(error.message));
  client.on('sessionLost', ({ orphaned }) =>
    logger.error(
      `The broker has lost our session: what it had queued for us is gone. ${orphaned} unacknowledged messages are here and go on.`,
    ),
  );
}

/** Connects and subscribes. @throws what `connect()` and `assertGranted()` throw; the client is destroyed then */
export async function startSession(
  client: MqttClient,
  wanted: readonly WantedSubscription[],
  options: ResolvedMqttServerOptions,
  logger: Logger,
): Promise<void> {
  warnOfCircle(wanted, options.deadLetter, logger);
  try {
    logger.log(describeSession(await client.connect(), client.window.size));
    if (options.unsubscribe.length > 0) await client.unsubscribe(options.unsubscribe);
    if (wanted.length > 0) {
      assertGranted(await client.subscribe(wanted), { allowLower: options.allowLowerQos });
    } else {
      logger.warn(`No controller has a handler for the strategy '${options.name}': nothing is subscribed`);
    }
  } catch (error) {
    client.destroy();
    throw error;
  }
}

/** Only a guess, since the target may be another broker: so it is said and not refused. */
function warnOfCircle(
  wanted: readonly WantedSubscription[],
  target: DeadLetterOptions | undefined,
  logger: Logger,
): void {
  if (target === undefined || !(target.client instanceof MqttClientProxy) || typeof target.pattern !== 'string') return;
  const { pattern } = target;
  const filter = wanted.map((one) => withoutShare(one.filter)).find((one) => topicMatches(one, pattern));
  if (filter === undefined) return;
  logger.warn(
    `Dead letters go to '${pattern}', which the handler of '${filter}' receives as well where they go to the same broker: ` +
      `one that fails there again is kept and stalls`,
  );
}
