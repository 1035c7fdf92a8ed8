/** What each ServerError of the broker means for the one who asked (`ServerError` in PulsarApi.proto). */
import { type ErrorCode, TransportError } from '../../errors.js';

/**
 * `retry`: the same request can succeed later, after a fresh lookup. `terminal`: it cannot, everything pending is rejected
 * and nothing dials again. `failPending`: what is pending is rejected, later messages are tried.
 */
export type ServerErrorEffect = 'retry' | 'terminal' | 'failPending';

interface ServerErrorRule {
  readonly name: string;
  readonly effect: ServerErrorEffect;
  readonly code: ErrorCode;
}

const rule = (name: string, effect: ServerErrorEffect, code: ErrorCode = 'ERR_BROKER'): ServerErrorRule => ({ name, effect, code }); // prettier-ignore

export const SERVER_ERRORS: Readonly<Record<number, ServerErrorRule>> = {
  0: rule('UnknownError', 'retry'),
  1: rule('MetadataError', 'retry'),
  2: rule('PersistenceError', 'retry'),
  // An expired token is refreshed by the supplier; a wrong one is not, and the attempts are bounded by the caller.
  3: rule('AuthenticationError', 'terminal', 'ERR_AUTHENTICATION'),
  4: rule('AuthorizationError', 'terminal', 'ERR_AUTHORIZATION'),
  5: rule('ConsumerBusy', 'retry'),
  6: rule('ServiceNotReady', 'retry'),
  // The quota holds requests: what is pending stays pending until there is room again.
  7: rule('ProducerBlockedQuotaExceededError', 'retry'),
  8: rule('ProducerBlockedQuotaExceededException', 'failPending'),
  9: rule('ChecksumError', 'retry'),
  10: rule('UnsupportedVersionError', 'terminal', 'ERR_NOT_SUPPORTED'),
  11: rule('TopicNotFound', 'terminal', 'ERR_TOPIC'),
  12: rule('SubscriptionNotFound', 'terminal', 'ERR_TOPIC'),
  13: rule('ConsumerNotFound', 'retry'),
  14: rule('TooManyRequests', 'retry'),
  15: rule('TopicTerminatedError', 'terminal', 'ERR_TERMINATED'),
  // Also a half-open connection of our own earlier self: retried with a raised epoch.
  16: rule('ProducerBusy', 'retry'),
  17: rule('InvalidTopicName', 'terminal', 'ERR_TOPIC'),
  18: rule('IncompatibleSchema', 'terminal', 'ERR_SCHEMA'),
  19: rule('ConsumerAssignError', 'retry'),
  20: rule('TransactionCoordinatorNotFound', 'retry'),
  21: rule('InvalidTxnStatus', 'terminal'),
  22: rule('NotAllowedError', 'terminal', 'ERR_NOT_SUPPORTED'),
  23: rule('TransactionConflict', 'terminal'),
  24: rule('TransactionNotFound', 'terminal'),
  25: rule('ProducerFenced', 'terminal', 'ERR_FENCED'),
};

/** The broker said no. `serverError` is its number, `effect` what follows from it. */
export class BrokerError extends TransportError {
  readonly serverError: number;
  readonly effect: ServerErrorEffect;

  constructor(serverError: number, message: string, context: string) {
    const known = SERVER_ERRORS[serverError] ?? rule(`ServerError ${serverError}`, 'retry');
    super(known.code, `${context}: the broker answered ${known.name}: ${message}`, {
      retriable: known.effect !== 'terminal',
    });
    this.serverError = serverError;
    this.effect = known.effect;
  }
}

export const CHECKSUM_ERROR = 9;
export const NOT_ALLOWED_ERROR = 22;
export const TOPIC_TERMINATED_ERROR = 15;
