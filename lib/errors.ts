/**
 * Every error of this package, with a closed set of codes. Imports nothing.
 *
 * `retriable` tells whether the same call can succeed later without a change by the caller. `ambiguous` (on timeouts and
 * lost connections) tells that the peer may have processed the request: repeating it can make a duplicate.
 */

/** The closed set of `code` values. */
export type ErrorCode =
  | 'ERR_OPTIONS'
  | 'ERR_LOCAL_PROTOCOL'
  | 'ERR_REMOTE_PROTOCOL'
  | 'ERR_CONNECTION'
  | 'ERR_AUTHENTICATION'
  | 'ERR_AUTHORIZATION'
  | 'ERR_SUBSCRIPTION'
  | 'ERR_SESSION'
  | 'ERR_SESSION_LOST'
  | 'ERR_PUBLISH'
  | 'ERR_TIMEOUT'
  | 'ERR_SEND_TIMEOUT'
  | 'ERR_HANDLER_TIMEOUT'
  | 'ERR_QUEUE_FULL'
  | 'ERR_MESSAGE_TOO_LARGE'
  | 'ERR_CLOSED'
  | 'ERR_ABORTED'
  | 'ERR_BROKER'
  | 'ERR_DEDUPLICATED'
  | 'ERR_SEQUENCE'
  | 'ERR_TERMINATED'
  | 'ERR_FENCED'
  | 'ERR_TOPIC'
  | 'ERR_SCHEMA'
  | 'ERR_ENCRYPTION'
  | 'ERR_SERIALIZATION'
  | 'ERR_DEPENDENCY'
  | 'ERR_NOT_SUPPORTED'
  | 'ERR_HANDLER'
  | 'ERR_UNMATCHED'
  | 'ERR_REPLY';

export interface TransportErrorOptions {
  readonly retriable?: boolean;
  readonly ambiguous?: boolean;
  readonly cause?: unknown;
}

/** A brand that survives two copies of the package in one process (ESM and CJS, or two versions). */
const BRAND = Symbol.for('nestjs-mqtt-pulsar/error');

/** The base of every error this package throws or rejects with. */
export class TransportError extends Error {
  readonly code: ErrorCode;
  /** The same call can succeed later without a change by the caller. */
  readonly retriable: boolean;
  /** The peer may have processed the request: a repetition can make a duplicate. */
  readonly ambiguous: boolean;
  readonly [BRAND] = true;

  constructor(code: ErrorCode, message: string, options: TransportErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.retriable = options.retriable ?? false;
    this.ambiguous = options.ambiguous ?? false;
  }
}

/** True for an error of this package, also of another copy of it. */
export function isTransportError(error: unknown): error is TransportError {
  return typeof error === 'object' && error !== null && BRAND in error;
}

/** An option is unknown, of the wrong type, out of range, or contradicts another. Thrown before anything connects. */
export class OptionsError extends TransportError {
  /** Where the option stands, for example `mqtt.session.expiry`. */
  readonly path: string;
  /** What is allowed there, in words. */
  readonly expected: string;
  /** The nearest known name, for an unknown key. */
  readonly didYouMean: string | undefined;

  constructor(path: string, expected: string, received: string, didYouMean?: string) {
    const hint = didYouMean === undefined ? '' : ` Did you mean '${didYouMean}'?`;
    super('ERR_OPTIONS', `Option '${path}': expected ${expected}, received ${received}.${hint}`);
    this.path = path;
    this.expected = expected;
    this.didYouMean = didYouMean;
  }
}

/** The caller asked for something the protocol or the peer's announced limits do not allow. Nothing was sent. */
export class LocalProtocolError extends TransportError {
  constructor(message: string, options: TransportErrorOptions = {}) {
    super('ERR_LOCAL_PROTOCOL', message, options);
  }
}

/** The peer broke the protocol; the connection is closed. `reasonCode` is what an MQTT 5 DISCONNECT carries. */
export class RemoteProtocolError extends TransportError {
  /** MQTT 5 reason code for the DISCONNECT, or 0 where the protocol has none (Pulsar, MQTT 3.1.1). */
  readonly reasonCode: number;

  constructor(message: string, reasonCode = 0, options: TransportErrorOptions = {}) {
    super('ERR_REMOTE_PROTOCOL', message, { retriable: true, ...options });
    this.reasonCode = reasonCode;
  }
}

/** A connection could not be made, was refused, or ended. */
export class ConnectionError extends TransportError {
  /** MQTT reason code (or 3.1.1 return code) that the peer gave, where it gave one. */
  readonly reasonCode: number | undefined;

  constructor(message: string, options: TransportErrorOptions & { readonly reasonCode?: number } = {}) {
    super('ERR_CONNECTION', message, { retriable: true, ...options });
    this.reasonCode = options.reasonCode;
  }
}

/** The peer did not accept who we are (`ERR_AUTHENTICATION`) or what we may do (`ERR_AUTHORIZATION`). */
export class AuthenticationError extends TransportError {
  readonly reasonCode: number | undefined;

  constructor(message: string, options: TransportErrorOptions & { readonly reasonCode?: number } = {}) {
    super('ERR_AUTHENTICATION', message, options);
    this.reasonCode = options.reasonCode;
  }
}

/** Closed by us: `close()` or `destroy()` was called before or while the operation ran. */
export class ClosedError extends TransportError {
  constructor(message: string, options: TransportErrorOptions = {}) {
    super('ERR_CLOSED', message, options);
  }
}

/** No answer in the given time. `ambiguous` where the request had been written. */
export class TimeoutError extends TransportError {
  /** The bound in milliseconds. */
  readonly timeoutMs: number;

  constructor(message: string, timeoutMs: number, options: TransportErrorOptions & { readonly code?: ErrorCode } = {}) {
    super(options.code ?? 'ERR_TIMEOUT', message, { retriable: true, ...options });
    this.timeoutMs = timeoutMs;
  }
}

/** The message (metadata and payload) is larger than the peer accepts. Rejected before sending. */
export class MessageTooLargeError extends TransportError {
  readonly size: number;
  readonly limit: number;

  constructor(message: string, size: number, limit: number) {
    super('ERR_MESSAGE_TOO_LARGE', message);
    this.size = size;
    this.limit = limit;
  }
}

/** The MQTT broker refused a publish (`ERR_PUBLISH`). */
export class PublishError extends TransportError {
  readonly reasonCode: number;

  constructor(message: string, reasonCode: number, options: TransportErrorOptions = {}) {
    super('ERR_PUBLISH', message, options);
    this.reasonCode = reasonCode;
  }
}

/** The MQTT broker refused a filter, or granted a lower QoS than the acknowledgement needs (`ERR_SUBSCRIPTION`). */
export class SubscriptionError extends TransportError {
  /** The filters concerned, with the broker's reason codes. */
  readonly refused: readonly { readonly filter: string; readonly reasonCode: number }[];

  constructor(message: string, refused: readonly { readonly filter: string; readonly reasonCode: number }[]) {
    super('ERR_SUBSCRIPTION', message);
    this.refused = refused;
  }
}

/** The broker does not keep the session that was asked for (`ERR_SESSION`), or has lost it (`ERR_SESSION_LOST`). */
export class SessionError extends TransportError {
  constructor(
    message: string,
    options: TransportErrorOptions & { readonly code?: 'ERR_SESSION' | 'ERR_SESSION_LOST' } = {},
  ) {
    super(options.code ?? 'ERR_SESSION', message, options);
  }
}
