import { type WritePacket } from '@nestjs/microservices';
import { type TransportError, TimeoutError } from '../errors.js';
import { type Clock } from '../net/clock.js';
import { Deadline, DeadlineQueue } from './deadline-queue.js';

export type ReplyCallback = (packet: WritePacket) => void;

/** A request that waits for replies; its own entry in the deadline queue. */
export class PendingRequest extends Deadline {
  /** Takes the request back if it was not written yet. */
  handle: { cancel(): boolean } | undefined = undefined;
  open = true;
  /** The replies are decoded one after the other, also if a decoder is asynchronous. */
  private decoding: Promise<void> | undefined = undefined;

  constructor(
    private readonly table: RequestTable,
    readonly key: string,
    readonly route: string,
    private readonly timeoutMs: number,
    private readonly callback: ReplyCallback,
  ) {
    super();
  }

  /** `value` is called to decode; what it throws or rejects with is the error of the request. */
  reply(value: (() => unknown) | undefined, last: boolean): void {
    if (last) this.table.expectNoMore(this);
    else this.table.extend(this, this.timeoutMs);
    if (this.decoding !== undefined) {
      this.decoding = this.decoding.then(() => this.decode(value, last));
      return;
    }
    const decoded = this.decode(value, last);
    if (decoded !== undefined) {
      const own = decoded.finally(() => {
        if (this.decoding === own) this.decoding = undefined;
      });
      this.decoding = own;
    }
  }

  /** The responder's error; comes after the values before it. */
  replyError(error: unknown): void {
    this.table.expectNoMore(this);
    if (this.decoding === undefined) this.fail(error);
    else void this.decoding.then(() => this.fail(error));
  }

  /** At once. */
  fail(error: unknown): void {
    if (!this.open) return;
    this.end();
    this.callback({ err: error, isDisposed: true });
  }

  /** The requester has lost interest: what comes is dropped. */
  abandon(): void {
    if (!this.open) return;
    this.end();
    this.handle?.cancel();
  }

  override onDeadline(): void {
    this.table.timedOut += 1;
    this.fail(
      new TimeoutError(`send('${this.route}'): no reply within ${this.timeoutMs} ms`, this.timeoutMs, {
        ambiguous: true,
      }),
    );
  }

  private decode(value: (() => unknown) | undefined, last: boolean): Promise<void> | undefined {
    if (!this.open) return undefined;
    if (value === undefined) {
      this.give(undefined, last);
      return undefined;
    }
    try {
      const decoded = value();
      if (typeof (decoded as { then?: unknown } | undefined)?.then !== 'function') {
        this.give({ value: decoded }, last);
        return undefined;
      }
      return (decoded as Promise<unknown>).then(
        (result) => this.give({ value: result }, last),
        (error: unknown) => this.fail(error),
      );
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  private give(result: { readonly value: unknown } | undefined, last: boolean): void {
    if (!this.open) return;
    if (last) this.end();
    // Nest takes an `undefined` response for none, so a value that is one cannot be told from the end of the stream.
    this.callback({ ...(result !== undefined && { response: result.value }), ...(last && { isDisposed: true }) });
  }

  private end(): void {
    this.open = false;
    this.table.forget(this);
  }
}

/** The requests without an end, by what their replies are recognised with. */
export class RequestTable {
  timedOut = 0;
  /** Replies whose request is unknown or finished. */
  droppedReplies = 0;

  private readonly requests = new Map<string, PendingRequest>();
  private readonly deadlines: DeadlineQueue;

  constructor(
    private readonly clock: Clock,
    private readonly onForgotten: (request: PendingRequest) => void = () => undefined,
  ) {
    this.deadlines = new DeadlineQueue(clock);
  }

  get size(): number {
    return this.requests.size;
  }

  open(key: string, route: string, timeoutMs: number, callback: ReplyCallback): PendingRequest {
    const request = new PendingRequest(this, key, route, timeoutMs, callback);
    this.requests.set(key, request);
    this.extend(request, timeoutMs);
    return request;
  }

  /** The request of a reply; without one the reply is counted as dropped. */
  find(key: string | undefined): PendingRequest | undefined {
    const request = key === undefined ? undefined : this.requests.get(key);
    if (request === undefined) this.droppedReplies += 1;
    return request;
  }

  failAll(error: TransportError): void {
    for (const request of [...this.requests.values()]) request.fail(error);
    this.deadlines.clear();
  }

  /** @internal */
  extend(request: PendingRequest, timeoutMs: number): void {
    if (timeoutMs > 0 && request.open) this.deadlines.add(request, this.clock.now(), timeoutMs);
  }

  /** @internal */
  expectNoMore(request: PendingRequest): void {
    this.deadlines.remove(request);
    this.requests.delete(request.key);
  }

  /** @internal */
  forget(request: PendingRequest): void {
    this.expectNoMore(request);
    this.onForgotten(request);
  }
}
