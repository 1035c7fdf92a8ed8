import { type Logger } from '@nestjs/common';
import { errorText } from '../error-text.js';
import { type MqttDelivery } from '../mqtt/index.js';
import { type MqttServerOwnOptions } from './mqtt-server-options.js';
import { MqttMessageContext } from './mqtt-message.context.js';
import { isPromiseLike } from './promise-like.js';

/** Which messages run one at a time: those with the same key, by the option `order`. `undefined` has no such tie. */
export class OrderKeys {
  private told = false;

  constructor(
    private readonly order: NonNullable<MqttServerOwnOptions['order']>,
    private readonly logger: Logger,
    private readonly wallTimeAt: (monotonic: number) => number,
  ) {}

  /** @param filter of the first handler that matches: what `getPattern()` and `getParams()` of the context go by */
  of(delivery: MqttDelivery, filter: string): unknown {
    const { order } = this;
    if (order === 'none') return undefined;
    const { topic } = delivery.message;
    if (order === 'topic') return topic;
    try {
      const key = order(new MqttMessageContext(delivery, filter, undefined, this.wallTimeAt));
      if (!isPromiseLike(key)) return key;
      // It may still reject: nobody else would hear it.
      key.then(undefined, () => undefined);
      this.tell(`order() gave a promise for a message on '${topic}'`);
    } catch (error) {
      this.tell(`order() failed for a message on '${topic}': ${errorText(error)}`);
    }
    return undefined;
  }

  /** Once: a function that fails for one message fails for many. */
  private tell(what: string): void {
    if (this.told) return;
    this.told = true;
    this.logger.error(`${what}. Such messages have no key: they run without an order, and this is said only once`);
  }
}
