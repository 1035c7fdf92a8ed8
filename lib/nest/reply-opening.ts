import { isTransportError, TransportError } from '../errors.js';
import { type HandlerRun } from './handler-run.js';
import { builtInReplyTopic } from './reply-protocol.js';
import { builtInAddress, type ReplyAddress, responseTopicAddress } from './reply-address.js';
import { ReplyStream } from './reply-stream.js';
import { type MqttServerStats, type MqttSession } from './task-host.js';

/** What a request handler needs of a message besides its payload. */
export interface OpenedReply {
  /**
   * `undefined`: the message asks for no answer, or for one that could not end (a Response Topic equal to the request's own
   * topic would make every reply a request). Then it is an event, and so are its failures.
   */
  readonly reply: ReplyStream | undefined;
  /** Where it comes in Nest's envelope; `undefined`: the payload is the data. */
  readonly data: { readonly value: unknown } | undefined;
}

/**
 * Where the replies of a request go.
 *
 * @throws TransportError ERR_SERIALIZATION if Nest's envelope was asked for and is not there
 */
export function openReply(
  run: HandlerRun,
  envelope: 'nest' | undefined,
  client: MqttSession,
  stats: MqttServerStats,
): OpenedReply {
  const { topic, payload, qos, properties } = run.task.delivery.message;
  if (envelope === 'nest') {
    const { id, data } = parseEnvelope(payload);
    // Without an id it is an event of Nest's built-in client.
    const reply = id === undefined ? undefined : open(builtInAddress(builtInReplyTopic(topic), id));
    return { reply, data: { value: data } };
  }
  const responseTopic = properties?.responseTopic;
  if (responseTopic === undefined) return NO_REPLY;
  if (responseTopic === topic) {
    stats.replyFailed += 1;
    return NO_REPLY;
  }
  const address = responseTopicAddress(responseTopic, properties?.correlationData, encodeReply);
  return { reply: open(address), data: undefined };

  function open(address: ReplyAddress): ReplyStream {
    return new ReplyStream(
      address,
      async (message) => {
        await client.publish({ ...message, qos: qos === 0 ? 0 : 1 });
        stats.replies += 1;
      },
      (failure) => run.replyProgress(failure),
      () => {
        stats.replyFailed += 1;
      },
    );
  }
}

const NO_REPLY: OpenedReply = { reply: undefined, data: undefined };

/** The data of an event in Nest's envelope. */
export function envelopeData(payload: Buffer): unknown {
  return parseEnvelope(payload).data;
}

function parseEnvelope(payload: Buffer): { id: string | undefined; data: unknown } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(payload.toString('utf8'));
  } catch {
    // Without the cause: its text quotes the payload.
    throw new TransportError('ERR_SERIALIZATION', "the payload is not JSON, but envelope: 'nest' was asked for");
  }
  if (typeof parsed !== 'object' || parsed === null || !('data' in parsed)) {
    throw new TransportError('ERR_SERIALIZATION', "the payload has no 'data', but envelope: 'nest' was asked for");
  }
  const { id, data } = parsed as { id?: unknown; data: unknown };
  return { id: typeof id === 'string' ? id : undefined, data };
}

/** Bytes as they are, text as UTF-8, everything else as JSON; `undefined` is an empty payload. */
function encodeReply(value: unknown): Buffer {
  if (value === undefined || value === null) return Buffer.alloc(0);
  if (Buffer.isBuffer(value)) return value;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (typeof value === 'string') return Buffer.from(value);
  try {
    return Buffer.from(JSON.stringify(value));
  } catch (cause) {
    if (isTransportError(cause)) throw cause;
    throw new TransportError('ERR_SERIALIZATION', `a reply cannot be written as JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
}
