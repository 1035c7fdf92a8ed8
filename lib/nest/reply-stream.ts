import { isTransportError } from '../errors.js';
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

/** What became of a reply: accepted by the broker, refused for good, or not deliverable now. */
export type ReplyOutcome = 'accepted' | 'refused' | { readonly error: unknown };

/**
 * The replies to one request, in the order of the handler's values. One value is held back until the next value, the end
 * or the end of the microtask queue, so that a handler with one result gives one message (`last`) and not two.
 */
export class ReplyStream {
  /** Replies that the broker accepted. */
  accepted = 0;
  /** Replies handed to the session, the error reply included. */
  sent = 0;
  private outstanding = 0;
  private held: { value: unknown } | undefined = undefined;

  constructor(
    private readonly address: ReplyAddress,
    private readonly publish: (message: ReplyMessage) => Promise<unknown>,
    /** After each outcome; with the error of a reply that cannot be delivered now. */
    private readonly onProgress: (failure: { error: unknown } | undefined) => void,
    private readonly onRefused: (error: unknown) => void,
    /** Data of a request in Nest's envelope; `undefined`: the payload is the data. */
    readonly data: (() => unknown) | undefined = undefined,
  ) {}

  /** Something is not accepted or refused yet. */
  get pending(): boolean {
    return this.outstanding > 0 || this.held !== undefined;
  }

  next(value: unknown): void {
    this.flush();
    const held = { value };
    this.held = held;
    // Two microtasks: a promise that Nest turned into an Observable completes one reaction after its value.
    queueMicrotask(() => queueMicrotask(() => this.held === held && this.flush()));
  }

  complete(): void {
    const { held } = this;
    this.held = undefined;
    if (held === undefined) this.send('end', undefined);
    else this.send('last', held.value);
  }

  /** The error reply. Resolves when the broker accepted it, refused it for good, or it cannot be delivered now. */
  async error(error: unknown): Promise<ReplyOutcome> {
    this.flush();
    this.sent += 1;
    try {
      await this.publish(this.address.encode('error', error));
      this.accepted += 1;
      return 'accepted';
    } catch (failure) {
      if (!isPermanent(failure)) return { error: failure };
      this.onRefused(failure);
      return 'refused';
    }
  }

  private flush(): void {
    const { held } = this;
    this.held = undefined;
    if (held !== undefined) this.send('next', held.value);
  }

  private send(kind: ReplyKind, value: unknown): void {
    this.sent += 1;
    this.outstanding += 1;
    const publish = async (): Promise<unknown> => this.publish(this.address.encode(kind, value));
    publish().then(
      () => {
        this.outstanding -= 1;
        this.accepted += 1;
        this.onProgress(undefined);
      },
      (error: unknown) => {
        this.outstanding -= 1;
        if (isPermanent(error)) this.onRefused(error);
        this.onProgress(isPermanent(error) ? undefined : { error });
      },
    );
  }
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
          ...(kind === 'error' ? { err: plainError(value) } : kind !== 'end' && { response: value }),
          ...(kind !== 'next' && { isDisposed: true }),
        }),
      ),
    }),
  };
}

/** A repetition of the same reply would be refused again. Closing is not a refusal: the request stays un-acknowledged. */
function isPermanent(error: unknown): boolean {
  return !(isTransportError(error) && (error.retriable || error.code === 'ERR_CLOSED' || error.code === 'ERR_ABORTED'));
}

function errorPayload(error: unknown): Buffer {
  return Buffer.from(JSON.stringify(plainError(error)) ?? '"error"');
}

/** What Nest's filters give is sent as it is; of an Error the message, never its stack or its cause. */
function plainError(error: unknown): unknown {
  return error instanceof Error ? { status: 'error', message: error.message } : error;
}
