import { type TransportError } from '../../errors.js';
import { type Properties, type Qos } from '../codec/packets.js';
import { type PublishResult } from './types.js';

/**
 * - `queued`: no bytes on this connection yet. `sent`: PUBLISH is out. `released`: QoS 2, PUBREC has come, PUBREL is out.
 * - `settled`: `error` or `result` is set.
 */
export type PublishStage = 'queued' | 'sent' | 'released' | 'settled';

/** One publish from `publish()` to its settlement. */
export class OutboundPublish {
  // valid for the session
  stage: PublishStage = 'queued';
  /** Bytes were handed out at least once: the broker may have it. */
  written = false;
  error: TransportError | undefined = undefined;
  result: PublishResult | undefined = undefined;
  // valid until the session is lost
  packetId = 0;
  /** Its bytes with this identifier were handed to a socket: the next ones carry DUP [MQTT-3.3.1-1]. */
  handed = false;

  constructor(
    /** Ascending in the order of the calls. */
    readonly sequence: number,
    readonly topic: string,
    readonly payload: Buffer,
    readonly qos: Qos,
    readonly retain: boolean,
    readonly properties: Properties | undefined,
    /** Milliseconds of the session's clock. */
    readonly submittedAt: number,
    /** The driver's own: whom to tell. */
    readonly token: unknown,
  ) {}

  get kind(): 'published' {
    return 'published';
  }

  /** What the queue's byte bound counts. */
  get size(): number {
    return this.payload.length + this.topic.length + OVERHEAD;
  }
}

const OVERHEAD = 64;
