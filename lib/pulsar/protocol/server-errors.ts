import { AuthenticationError, type ErrorCode, TransportError } from '../../errors.js';

/**
 * What a `ServerError` of the broker means for a producer.
 *
 * - `terminal`: the same request cannot succeed; the producer ends.
 * - `retry`: passes by itself; again with backoff, which always begins with a fresh lookup.
 * - `failPending`: as `retry`, but what is pending fails now, because the broker asks for that.
 *
 * `send` is the meaning in a SEND_ERROR, which concerns one frame: `item` fails that frame alone; `restart` opens the
 * producer again and sends all pending frames once more.
 */
export interface ServerErrorRule {
  readonly name: string;
  readonly request: 'terminal' | 'retry' | 'failPending';
  readonly send: 'terminal' | 'item' | 'restart';
  readonly code: ErrorCode;
}

/** Keyed by the number of `ServerError` in PulsarApi.proto; consumer and transaction codes are here for their names. */
export const SERVER_ERRORS = {
  0: { name: 'UnknownError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  1: { name: 'MetadataError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  2: { name: 'PersistenceError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  3: { name: 'AuthenticationError', request: 'terminal', send: 'terminal', code: 'ERR_AUTHENTICATION' },
  4: { name: 'AuthorizationError', request: 'terminal', send: 'terminal', code: 'ERR_AUTHORIZATION' },
  5: { name: 'ConsumerBusy', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  6: { name: 'ServiceNotReady', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  7: { name: 'ProducerBlockedQuotaExceededError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  8: { name: 'ProducerBlockedQuotaExceededException', request: 'failPending', send: 'restart', code: 'ERR_BROKER' },
  9: { name: 'ChecksumError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  10: { name: 'UnsupportedVersionError', request: 'terminal', send: 'terminal', code: 'ERR_NOT_SUPPORTED' },
  11: { name: 'TopicNotFound', request: 'terminal', send: 'restart', code: 'ERR_TOPIC' },
  12: { name: 'SubscriptionNotFound', request: 'terminal', send: 'restart', code: 'ERR_BROKER' },
  13: { name: 'ConsumerNotFound', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  14: { name: 'TooManyRequests', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  15: { name: 'TopicTerminatedError', request: 'terminal', send: 'terminal', code: 'ERR_TERMINATED' },
  16: { name: 'ProducerBusy', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  17: { name: 'InvalidTopicName', request: 'terminal', send: 'terminal', code: 'ERR_TOPIC' },
  18: { name: 'IncompatibleSchema', request: 'terminal', send: 'item', code: 'ERR_SCHEMA' },
  19: { name: 'ConsumerAssignError', request: 'retry', send: 'restart', code: 'ERR_BROKER' },
  20: { name: 'TransactionCoordinatorNotFound', request: 'retry', send: 'item', code: 'ERR_BROKER' },
  21: { name: 'InvalidTxnStatus', request: 'terminal', send: 'item', code: 'ERR_BROKER' },
  22: { name: 'NotAllowedError', request: 'terminal', send: 'item', code: 'ERR_BROKER' },
  23: { name: 'TransactionConflict', request: 'terminal', send: 'item', code: 'ERR_BROKER' },
  24: { name: 'TransactionNotFound', request: 'terminal', send: 'item', code: 'ERR_BROKER' },
  25: { name: 'ProducerFenced', request: 'terminal', send: 'terminal', code: 'ERR_FENCED' },
} as const satisfies Readonly<Record<number, ServerErrorRule>>;

/** The code that says: we do not know you. */
export const AUTHENTICATION_ERROR = 3;

/** The code of PRODUCER refusals that mean "somebody else has it". */
export const PRODUCER_BUSY = 16;
const PRODUCER_FENCED = 25;

/** An unknown code, of a newer broker, is retried. */
export function serverErrorRule(code: number): ServerErrorRule {
  const known = (SERVER_ERRORS as Readonly<Record<number, ServerErrorRule>>)[code];
  return known ?? { name: `server error ${code}`, request: 'retry', send: 'restart', code: 'ERR_BROKER' };
}

/** An answer of the broker that refuses a request. `serverError` is the number in PulsarApi.proto. */
export class BrokerError extends TransportError {
  readonly serverError: number;

  constructor(context: string, serverError: number, message: string) {
    const rule = serverErrorRule(serverError);
    super(rule.code, `${context}: the broker answered ${rule.name}: ${message}`, {
      retriable: rule.request !== 'terminal',
    });
    this.serverError = serverError;
  }
}

/** The name, or the topic, is somebody else's for now; or the broker has not noticed yet that our last link is gone. */
export function isBusy(error: TransportError): boolean {
  return error instanceof BrokerError && error.serverError === PRODUCER_BUSY;
}

/** The exclusive producer in our way has our own name: it may be our last link, which the broker has not missed yet. */
export function isFencedBy(error: TransportError, name: string): boolean {
  return (
    error instanceof BrokerError &&
    error.serverError === PRODUCER_FENCED &&
    error.message.endsWith(`existing exclusive producer: ${name}`)
  );
}

/** How a failed try to open a producer is to be taken. */
export function failureKind(error: TransportError): ServerErrorRule['request'] {
  if (error instanceof BrokerError) return error.retriable ? serverErrorRule(error.serverError).request : 'terminal';
  if (error instanceof AuthenticationError) return error.retriable ? 'retry' : 'terminal';
  return error.retriable ? 'retry' : 'terminal';
}
