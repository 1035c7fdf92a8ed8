import { type Logger } from '@nestjs/common';
import { lastValueFrom } from 'rxjs';
import { isTransportError, TransportError } from '../errors.js';
import { type MqttDelivery } from '../mqtt/index.js';
import {
  type CarriesDeadLetters,
  DEAD_LETTER_RECORD,
  deadLetters,
  type DeadLetterFacts,
  plainDeadLetter,
} from './dead-letter-record.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { runOutsideScopes } from './delivery-scope.js';
import { type TaskHost } from './task-host.js';

/** What sending a dead letter needs of the strategy. */
export interface DeadLetterHost extends Pick<TaskHost, 'clock' | 'wallTimeAt'> {
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Emits the dead letter and waits for its receipt, however long its target takes: a second letter while the first is under
 * way would be one too many. What waits for it shows as stalled.
 *
 * @throws LocalProtocolError if it would go in circles; ERR_MESSAGE_TOO_LARGE if even the payload alone is too large for one
 * of our proxies; what the target's Observable errors with
 */
export async function sendDeadLetter(
  target: DeadLetterTarget,
  delivery: MqttDelivery,
  failure: DeadLetterFacts['failure'],
  reason: string | undefined,
  host: DeadLetterHost,
): Promise<void> {
  const pattern = target.patternFor(delivery.message, failure === undefined);
  const receivedAt = host.wallTimeAt(delivery.receivedAt);
  const facts: DeadLetterFacts = { delivery, failure, reason, receivedAt, now: host.clock.wallTime() };
  const emit = (data: unknown): Promise<unknown> =>
    runOutsideScopes(() => lastValueFrom(target.client.emit(pattern, data), { defaultValue: undefined }));
  if (DEAD_LETTER_RECORD in target.client) await sendAsFits(target.client as CarriesDeadLetters, facts, emit, host);
  else await emit(plainDeadLetter(facts));
}

/** What the property `dead-letter-left-out` means; a letter without it has none. */
const MISSING: Readonly<Record<string, string>> = {
  properties: "the message's own properties",
  rest: 'properties besides topic and reason',
};

/** The payload is the promise; what stands beside it gives way where the target's limit leaves no room. */
async function sendAsFits(
  client: CarriesDeadLetters,
  facts: DeadLetterFacts,
  emit: (data: unknown) => Promise<unknown>,
  { logger }: DeadLetterHost,
): Promise<void> {
  const { topic, payload } = facts.delivery.message;
  let refusal: TransportError | undefined = undefined;
  for (const letter of deadLetters(facts)) {
    try {
      await emit(client[DEAD_LETTER_RECORD](letter, topic));
    } catch (error) {
      if (!isTransportError(error) || error.code !== 'ERR_MESSAGE_TOO_LARGE') throw error;
      refusal = error;
      continue;
    }
    if (refusal !== undefined) {
      const missing = MISSING[letter.properties['dead-letter-left-out']] ?? 'any property';
      logger.warn(`The dead letter of a message on '${topic}' left without ${missing}: ${refusal.message}`);
    }
    return;
  }
  throw new TransportError(
    'ERR_MESSAGE_TOO_LARGE',
    `its payload of ${payload.length} bytes does not fit even without properties. Raise the target's limit, take another ` +
      `target, or decide on another end for such a message (${refusal?.message})`,
    { cause: refusal },
  );
}
