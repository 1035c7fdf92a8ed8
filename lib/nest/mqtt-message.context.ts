import { BaseRpcContext } from '@nestjs/microservices';
import { type Observable } from 'rxjs';
import {
  matchParameters,
  type MqttDelivery,
  type MqttMessage,
  type Properties,
  type UserProperty,
} from '../mqtt/index.js';
import { LocalProtocolError } from '../errors.js';
import { describeValue } from '../option-checks.js';

/** Ends a delivery that its handler took out of the run with `ctx.detach()`. Each call counts once per handle. */
export interface DetachedDelivery {
  /** The work is done. True the first time; false if the handle was used before or its time was over. */
  acknowledge(): boolean;
  /** The work failed: the failure policy decides. True the first time. */
  fail(error: unknown): boolean;
  /** Neither was called yet and the time is not over. */
  readonly pending: boolean;
}

export interface DetachOptions {
  /** How long the handle may stay unused, in ms; then the run counts as failed. Default: option `detachTimeout` (5 min). */
  readonly timeout?: number;
}

/** What a handler can ask for instead of what the failure policy says. */
export type Directive =
  | { readonly action: 'retry'; readonly delayMs: number }
  | { readonly action: 'deadLetter'; readonly reason: string | undefined }
  | { readonly action: 'reject'; readonly reasonCode: number };

/** What a context asks of the run it belongs to. */
export interface RunControl {
  readonly signal: AbortSignal;
  readonly run: number;
  waitUntil(work: PromiseLike<unknown> | Observable<unknown>): void;
  detach(options: DetachOptions): DetachedDelivery;
  /** False: the run is over. */
  direct(directive: Directive): boolean;
  recordFailure(error: unknown): void;
}

/** Brand of the class; holds across two copies of this package in one process. */
const BRAND = Symbol.for('nestjs-mqtt-pulsar/mqtt-message-context');

/**
 * The second argument of a handler (`@Ctx()`): one MQTT message on its way through one run of one handler.
 *
 * The parts that most handlers do not use are made at first use. `getArgs()` is `[topic, message]`.
 */
export class MqttMessageContext extends BaseRpcContext<[topic: string, message: MqttMessage]> {
  readonly [BRAND] = true;

  /** @internal */
  constructor(
    /** @internal */ readonly delivery: MqttDelivery,
    private readonly filter: string,
    private readonly control: RunControl | undefined,
    private readonly wallTimeAt: (monotonic: number) => number,
  ) {
    super([delivery.message.topic, delivery.message]);
  }

  /** The topic name the message was published to, topic alias resolved. */
  getTopic(): string {
    return this.delivery.message.topic;
  }

  /** The topic filter of the handler, without `$share/group/`. */
  getPattern(): string {
    return this.filter;
  }

  /** What the wildcards of the filter stand for, in order; `#` gives the rest of the topic as one string. */
  getParams(): string[] {
    return matchParameters(this.filter, this.delivery.message.topic);
  }

  /** The message as received: topic, payload, qos, retain, dup, properties. */
  getMessage(): MqttMessage {
    return this.delivery.message;
  }

  /** The same as `getMessage()`, under the name of Nest's built-in context. */
  getPacket(): MqttMessage {
    return this.delivery.message;
  }

  /** The payload bytes as received. A view of the receive buffer: copy what outlives the handler in large numbers. */
  getPayload(): Buffer {
    return this.delivery.message.payload;
  }

  /** MQTT 5 properties; empty in 3.1.1. */
  getProperties(): Properties {
    return this.delivery.message.properties ?? {};
  }

  /** MQTT 5 user properties as ordered pairs; names can repeat. */
  getUserProperties(): readonly UserProperty[] {
    return this.delivery.message.properties?.userProperties ?? [];
  }

  /** The first user property of that name. */
  getUserProperty(name: string): string | undefined {
    return this.getUserProperties().find(([key]) => key === name)?.[1];
  }

  /** User properties as an object (the last of a repeated name wins): Nest's packet metadata. */
  getMetadata(): Record<string, string> {
    return Object.fromEntries(this.getUserProperties());
  }

  /** 1 for the first delivery; + 1 each time the broker delivered it again and it ran again. */
  getAttempt(): number {
    return this.delivery.attempt;
  }

  /** 1 for the first run of this attempt; + 1 for each local retry. */
  getRun(): number {
    return this.control?.run ?? 1;
  }

  /** When this process first received it, in milliseconds since the Unix epoch. */
  getReceivedAt(): number {
    return this.wallTimeAt(this.delivery.receivedAt);
  }

  /** The broker sent it because it was stored as a retained message (or the subscription keeps the flag as published). */
  get retained(): boolean {
    return this.delivery.message.retain;
  }

  /** The broker marked it as sent before (DUP). */
  get redelivered(): boolean {
    return this.delivery.message.dup;
  }

  /**
   * Aborts when the handler's time is over, at the end of `shutdownTimeout`, and on `destroy()`; never because the
   * connection or the session was lost. The reason is the error.
   */
  get signal(): AbortSignal {
    return this.owned('signal').signal;
  }

  /** Holds the acknowledgement until `work` is fulfilled or complete; if it fails, the run failed. */
  waitUntil(work: PromiseLike<unknown> | Observable<unknown>): void {
    this.owned('waitUntil()').waitUntil(work);
  }

  /**
   * Takes the delivery out of this run: the return of the handler says nothing any more, the handle does. The place in
   * the window and the ordering key stay taken, the running place is free. Survives reconnects.
   *
   * @throws LocalProtocolError if the run is over or was detached before
   */
  detach(options: DetachOptions = {}): DetachedDelivery {
    return this.owned('detach()').detach(options);
  }

  /**
   * Whatever the handler returns or throws: it runs again after `delayMs`, up to `maxHold` after its first run; later than
   * that, the end of the failure policy follows (`then`). The last of these three calls counts.
   *
   * A request handler sends nothing of a run that will run again: what it gives after this call, and the result of a handler
   * that has not ended, never leaves. Where a stream has sent values before, there is no further run, since the requester
   * would get them twice: the policy's end follows, with an error reply.
   *
   * @returns false if the run is over: too late, nothing happens
   */
  retryLater(delayMs: number): boolean {
    if (!(typeof delayMs === 'number' && delayMs >= 0)) {
      throw new LocalProtocolError(`retryLater(): expected milliseconds >= 0, received ${describeValue(delayMs)}`);
    }
    return this.owned('retryLater()').direct({ action: 'retry', delayMs });
  }

  /**
   * Whatever the handler returns or throws: the message goes to the dead-letter target, then it is acknowledged. The
   * requester of a request gets no value but one error reply first: what the handler throws (an `RpcException`, say), else
   * "Internal server error".
   *
   * @returns false if the run is over: too late, nothing happens
   */
  deadLetter(reason?: string): boolean {
    return this.owned('deadLetter()').direct({ action: 'deadLetter', reason });
  }

  /**
   * Whatever the handler returns or throws: the message is acknowledged with this MQTT 5 reason code (128 to 255, default
   * 131, implementation specific error). Brokers treat it as done. In 3.1.1 it is acknowledged and counted `rejected`. The
   * requester of a request gets one error reply first, as with `deadLetter()`.
   *
   * @returns false if the run is over: too late, nothing happens
   */
  reject(reasonCode = 0x83): boolean {
    if (!REJECT_CODES.has(reasonCode)) {
      throw new LocalProtocolError(
        `reject(): expected a reason code of PUBACK and PUBREC (${[...REJECT_CODES].join(', ')}), received ${reasonCode}`,
      );
    }
    return this.owned('reject()').direct({ action: 'reject', reasonCode });
  }

  /** @internal Records what was thrown, before an exception filter makes something else of it. */
  recordFailure(error: unknown): void {
    this.control?.recordFailure(error);
  }

  private owned(what: string): RunControl {
    if (this.control === undefined) throw new LocalProtocolError(`${what} is there only while a handler runs`);
    return this.control;
  }
}

/** The error codes that PUBACK and PUBREC may carry [MQTT5 3.4.2.1, 3.5.2.1]. */
export const REJECT_CODES: ReadonlySet<number> = new Set([0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]);

/** True for a context of this package, also of another copy of it. */
export function isMqttMessageContext(value: unknown): value is MqttMessageContext {
  return typeof value === 'object' && value !== null && BRAND in value;
}
