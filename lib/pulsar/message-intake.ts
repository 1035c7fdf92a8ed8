import { isTransportError, TransportError } from '../errors.js';
import { type Clock } from '../net/clock.js';
import { type EncodableMessage } from './codec/send-types.js';
import { type Schema } from './schema/index.js';
import { checkMessage, encodeValue, Send, standsAlone, withDeliverAt } from './send.js';
import { type ProducerInterceptor, type ProducerMessage, type SendCallback, type SendResult } from './types.js';

export interface IntakeSettings {
  readonly interceptors: readonly ProducerInterceptor[];
  readonly schema: Schema<unknown> | undefined;
  readonly sendTimeout: number;
  readonly clock: Clock;
}

/**
 * The user's side of a message: interceptors and schema on its way in, interceptors on its way out. What the user's code
 * throws on the way in is the outcome of that message; on the way out it changes nothing.
 */
export class MessageIntake {
  constructor(
    private readonly settings: IntakeSettings,
    /** An interceptor threw in `afterReceipt`. */
    private readonly interceptorFailed: (cause: unknown) => void,
  ) {}

  /** Never throws: what is wrong with the message is the `problem` of the send. */
  take(message: ProducerMessage, callback: SendCallback): Send {
    const { interceptors, schema, sendTimeout, clock } = this.settings;
    const submittedAt = sendTimeout > 0 ? clock.now() : 0;
    let given = message;
    try {
      for (const interceptor of interceptors) given = interceptor.beforeSend?.(given) ?? given;
      let encoded = given.value === undefined ? given : encodeValue(given, schema);
      const size = checkMessage(encoded);
      if (encoded.deliverAfter !== undefined) encoded = withDeliverAt(encoded, clock.wallTime());
      return new Send(encoded as EncodableMessage, size, standsAlone(encoded), submittedAt, given, callback);
    } catch (error) {
      const send = new Send(EMPTY, 0, true, submittedAt, given, callback);
      send.problem = isTransportError(error)
        ? error
        : new TransportError('ERR_SERIALIZATION', 'The message could not be made', { cause: error });
      return send;
    }
  }

  settled({ given }: Send, error: TransportError | undefined, result: SendResult | undefined): void {
    for (const interceptor of this.settings.interceptors) {
      try {
        interceptor.afterReceipt?.(given, error, result);
      } catch (thrown) {
        this.interceptorFailed(thrown);
      }
    }
  }
}

const EMPTY: EncodableMessage = { payload: null };
