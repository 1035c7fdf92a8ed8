import { type Logger } from '@nestjs/common';
import { assertGranted, type MqttClient } from '../mqtt/index.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { type WantedSubscription } from './handler-registry.js';
import { type ResolvedMqttServerOptions } from './mqtt-server-options.js';
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
  deadLetter: DeadLetterTarget | undefined,
  logger: Logger,
): Promise<void> {
  if (deadLetter !== undefined) warnOfCircle(deadLetter, logger);
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

/** Said and not refused: the handler may do anything else with letters. */
function warnOfCircle(target: DeadLetterTarget, logger: Logger): void {
  const receiver = target.receiver();
  if (receiver === undefined) return;
  const { topic, filter } = receiver;
  const where = target.broker === 'same' ? '' : ' where they go to the same broker';
  const what = target.broker === 'same' ? 'is kept and stalls' : 'goes in circles for ever';
  logger.warn(
    `Dead letters go to '${topic}', which the handler of '${filter}' receives as well${where}: ` +
      `one that is dead-lettered there again ${what}`,
  );
}
