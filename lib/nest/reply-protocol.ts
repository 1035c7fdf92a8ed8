/**
 * How an answer to a request looks on the wire; the strategy writes it, `MqttClientProxy.send()` reads it.
 *
 * **MQTT 5**: the reply goes to the request's Response Topic with its Correlation Data [MQTT5 4.10]. The payload is the
 * value alone, so that a requester which is not ours can use it. The user property {@link REPLY_PROPERTY} says what the
 * message is; a requester which does not know it takes the first reply.
 *
 * **Nest's built-in transport** (asked for with `envelope: 'nest'`, the only way in 3.1.1): the request is
 * `{ pattern, data, id }`, the reply goes to `<topic>/reply` as `{ id, response?, err?, isDisposed? }`.
 */

/** Name of the MQTT 5 user property of a reply; its value is a {@link ReplyKind}. */
export const REPLY_PROPERTY = 'nest-reply';

/**
 * - `next`: a value, more may follow
 * - `last`: the last value; nothing follows
 * - `end`: no value; the stream is complete
 * - `error`: the payload is the error (JSON); nothing follows
 */
export type ReplyKind = 'next' | 'last' | 'end' | 'error';

/** The topic on which Nest's built-in MQTT transport answers. */
export function builtInReplyTopic(topic: string): string {
  return `${topic}/reply`;
}

/** A reply in the envelope of Nest's built-in transports. */
export interface BuiltInReply {
  id: string;
  response?: unknown;
  err?: unknown;
  isDisposed?: boolean;
}
