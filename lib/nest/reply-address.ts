import { type Properties } from '../mqtt/index.js';
import { REPLY_PROPERTY, type ReplyKind } from './reply-protocol.js';

/** Bytes of one reply, ready to be published. */
export interface ReplyMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly properties?: Properties;
}

/** Where the replies of one request go and how they look there. */
export interface ReplyAddress {
  encode(kind: ReplyKind, value: unknown): ReplyMessage;
}

/** MQTT 5: to the Response Topic with the Correlation Data of the request; the payload is the value alone. */
export function responseTopicAddress(
  topic: string,
  correlationData: Buffer | undefined,
  encode: (value: unknown) => Buffer,
): ReplyAddress {
  return {
    encode: (kind, value) => ({
      topic,
      payload: kind === 'end' ? Buffer.alloc(0) : kind === 'error' ? errorPayload(value) : encode(value),
      properties: {
        ...(correlationData !== undefined && { correlationData }),
        userProperties: [[REPLY_PROPERTY, kind]],
      },
    }),
  };
}

/** Nest's built-in transport: to `<topic>/reply`, everything in one JSON object. */
export function builtInAddress(topic: string, id: string): ReplyAddress {
  return {
    encode: (kind, value) => ({
      topic,
      payload: Buffer.from(
        JSON.stringify({
          id,
          ...(kind === 'error' ? { err: sendableError(value) } : kind !== 'end' && { response: value }),
          ...(kind !== 'next' && { isDisposed: true }),
        }),
      ),
    }),
  };
}

/** JSON; an error without a JSON form (a circular object, a BigInt) must not leave the requester without an answer. */
function errorPayload(error: unknown): Buffer {
  return Buffer.from(JSON.stringify(sendableError(error)));
}

/** What Nest's filters give is sent as it is; of an Error the message, never its stack or its cause. */
function sendableError(error: unknown): unknown {
  if (error instanceof Error) return { status: 'error', message: error.message };
  try {
    return JSON.stringify(error) === undefined ? UNKNOWN : error;
  } catch {
    return UNKNOWN;
  }
}

const UNKNOWN = { status: 'error', message: 'error' };
