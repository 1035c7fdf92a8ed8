import { BaseRpcContext } from '@nestjs/microservices';
import { LocalProtocolError } from '../errors.js';
import { type MqttMessageContext } from './mqtt-message.context.js';

/** What the context asks of the batch it belongs to. */
export interface BatchControl {
  /** The results of its messages are out. */
  readonly ended: boolean;
  readonly signal: AbortSignal;
  failMember(index: number, error: unknown): void;
  recordFailure(error: unknown): void;
}

/**
 * The second argument of a batch handler (`@MqttEvent(filter, { batch: { size, delay } })`). The data and the contexts have
 * the same indexes. If the handler succeeds, every message succeeded but those named by `fail()`; if it fails, all failed.
 */
export class MqttBatchContext extends BaseRpcContext<[contexts: readonly MqttMessageContext[]]> {
  /** @internal */
  constructor(
    contexts: readonly MqttMessageContext[],
    private readonly control: BatchControl,
  ) {
    super([contexts]);
  }

  /** Messages of this batch. */
  get size(): number {
    return this.args[0].length;
  }

  /** One per message, in received order. */
  getContexts(): readonly MqttMessageContext[] {
    return this.args[0];
  }

  /** Aborts like `MqttMessageContext.signal`, with the first message of the batch. */
  get signal(): AbortSignal {
    return this.control.signal;
  }

  /** This message failed: the failure policy decides about it alone. Of several calls for one index the last one counts. */
  fail(index: number, error: unknown): void {
    if (!Number.isInteger(index) || index < 0 || index >= this.size) {
      throw new LocalProtocolError(`fail(): expected an index from 0 to ${this.size - 1}, received ${index}`);
    }
    if (this.control.ended) throw new LocalProtocolError('fail(): the run of the batch is over');
    this.control.failMember(index, error);
  }

  /** @internal Records what was thrown, before an exception filter makes something else of it. */
  recordFailure(error: unknown): void {
    this.control.recordFailure(error);
  }
}
