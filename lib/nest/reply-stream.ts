import { isTransportError } from '../errors.js';
import { type ReplyAddress, type ReplyMessage } from './reply-address.js';
import { type ReplyKind } from './reply-protocol.js';

/** What became of a reply: accepted by the broker, refused for good, or not deliverable now. */
export type ReplyOutcome = 'accepted' | 'refused' | { readonly error: unknown };

/**
 * The replies to one request, in the order of the handler's values. One value is held back until the next value, the end
 * or the end of the microtask queue, so that a handler with one result gives one message (`last`) and not two. The last
 * reply leaves only when everything else of the run is done.
 */
export class ReplyStream {
  /** Replies that the broker accepted. */
  accepted = 0;
  /** The last one has left. */
  completed = false;
  private outstanding = 0;
  private toldOfRefusal = false;
  private held: { value: unknown } | undefined = undefined;
  /** Takes no value any more, and the one it holds does not leave by itself. */
  private frozen = false;
  /** The handler has ended well: what is held is the last value, and none if the run fails after all. */
  private ending = false;

  constructor(
    private readonly address: ReplyAddress,
    private readonly publish: (message: ReplyMessage) => Promise<unknown>,
    /** After each outcome of a value; with the error of one that cannot be delivered now. */
    private readonly onProgress: (failure: { error: unknown } | undefined) => void,
    private readonly onRefused: (error: unknown) => void,
  ) {}

  /** Something is not accepted or refused yet. */
  get pending(): boolean {
    return this.outstanding > 0 || this.held !== undefined;
  }

  /** The requester has a value, or may have. */
  get started(): boolean {
    return this.accepted + this.outstanding > 0;
  }

  next(value: unknown): void {
    if (!this.frozen) this.flush();
    // Also where the value before cannot be sent.
    if (this.frozen) return;
    const held = { value };
    this.held = held;
    // Two microtasks: a promise that Nest turned into an Observable completes one reaction after its value.
    queueMicrotask(() => queueMicrotask(() => this.held === held && !this.frozen && this.flush()));
  }

  /** The handler has ended well; `complete()` follows, unless the run fails. */
  end(): void {
    this.ending ||= !this.frozen;
    this.frozen = true;
  }

  /** The run has failed: its values are over. */
  freeze(): void {
    this.frozen = true;
  }

  /** The run counts for nothing, or something else decides: the value that has not left never does. */
  mute(): void {
    this.frozen = true;
    this.held = undefined;
  }

  /** The end of the replies, once: the value it holds as the last one, or none. */
  complete(): void {
    if (this.completed) return;
    this.completed = this.frozen = true;
    const { held } = this;
    this.held = undefined;
    if (held === undefined) this.send('end', undefined);
    else this.send('last', held.value);
  }

  /** The error reply. Resolves when the broker accepted it, refused it for good, or it cannot be delivered now. */
  async error(error: unknown): Promise<ReplyOutcome> {
    // It has one.
    if (this.toldOfRefusal) return 'refused';
    if (this.ending) this.held = undefined;
    this.flush();
    this.frozen = true;
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
    this.outstanding += 1;
    let message: ReplyMessage;
    try {
      message = this.address.encode(kind, value);
    } catch (error) {
      this.refused(error);
      return;
    }
    this.publish(message).then(
      () => {
        this.outstanding -= 1;
        this.accepted += 1;
        this.onProgress(undefined);
      },
      (error: unknown) => {
        if (isPermanent(error)) {
          this.refused(error);
          return;
        }
        this.outstanding -= 1;
        this.onProgress({ error });
      },
    );
  }

  /** The requester must not wait for a value that was never sent: its replies end with an error. */
  private refused(error: unknown): void {
    this.onRefused(error);
    const done = (): void => {
      this.outstanding -= 1;
      this.onProgress(undefined);
    };
    if (!neverSent(error) || this.toldOfRefusal) {
      done();
      return;
    }
    this.toldOfRefusal = this.completed = true;
    this.mute();
    const told = this.publish(
      this.address.encode('error', { status: 'error', message: 'The reply could not be sent' }),
    );
    told.then(done, done);
  }
}

/** Refused here: too large for the broker, or without a form on the wire. */
function neverSent(error: unknown): boolean {
  return !isTransportError(error) || error.code === 'ERR_SERIALIZATION' || error.code === 'ERR_MESSAGE_TOO_LARGE';
}

/** A repetition of the same reply would be refused again. Closing is not a refusal: the request stays un-acknowledged. */
function isPermanent(error: unknown): boolean {
  return !(isTransportError(error) && (error.retriable || error.code === 'ERR_CLOSED' || error.code === 'ERR_ABORTED'));
}
