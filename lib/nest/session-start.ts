import { type Logger } from '@nestjs/common';
import { assertGranted, type MqttClient } from '../mqtt/index.js';
import { counted } from './counted.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { type HandlerRegistry } from './handler-registry.js';
import { type ResolvedMqttServerOptions } from './mqtt-server-options.js';
import { describeSession } from './session-report.js';
import { reportSubscriptions, warnBeforeStart } from './start-report.js';

/** What the session says by itself goes to the log; a lost session is never silent. */
export function logSessionEvents(client: MqttClient, logger: Logger): void {
  client.on('warning', ({ message }) => logger.warn(message));
  client.on('disconnect', ({ cause, willReconnect, fallsBack }) => {
    if (fallsBack) {
      logger.log(`No MQTT 5 there, trying 3.1.1 (${cause?.message ?? 'the connection was closed'})`);
      return;
    }
    // A controlled reconnect was logged with its reason by who asked for it.
    if (willReconnect && cause !== undefined && !cause.message.startsWith('Reconnecting:')) {
      logger.warn(`${cause.message}; connecting again`);
    }
  });
  client.on('error', (error) => logger.error(error.message));
  client.on('sessionLost', ({ orphaned }) =>
    logger.error(
      'The broker has lost our session: what it had queued for us is gone. ' +
        `Here ${counted(orphaned, 'unacknowledged message goes on', 'unacknowledged messages go on')}.`,
    ),
  );
}

/** Connects and subscribes. @throws what `connect()` and `assertGranted()` throw; the client is destroyed then */
export async function startSession(
  client: MqttClient,
  registry: HandlerRegistry,
  options: ResolvedMqttServerOptions,
  deadLetter: DeadLetterTarget | undefined,
  logger: Logger,
): Promise<void> {
  // Before the first connection: a resumed session delivers before anything is subscribed.
  const wanted = registry.subscriptions();
  warnBeforeStart(registry, options, deadLetter, logger);
  try {
    logger.log(describeSession(await client.connect(), client.window.size));
    if (options.unsubscribe.length > 0) await client.unsubscribe(options.unsubscribe);
    if (wanted.length > 0) {
      const grants = await client.subscribe(wanted);
      assertGranted(grants, { allowLower: options.allowLowerQos });
      reportSubscriptions(grants, registry, logger);
    } else {
      logger.warn(`No controller has a handler for the strategy '${options.name}': nothing is subscribed`);
    }
  } catch (error) {
    client.destroy();
    throw error;
  }
}
