import { type TransportError } from '../../../../lib/errors.js';
import { type MessageId, type ProducerMessage, type SendResult } from '../../../../lib/pulsar/index.js';

type Done = (error: TransportError | undefined, result?: SendResult) => void;

export interface Submitted {
  readonly message: ProducerMessage;
  readonly done: Done;
  written: boolean;
}

let entry = 0;

export function stored(): SendResult {
  entry += 1;
  return { messageId: { entryId: entry } as unknown as MessageId, sequenceId: entry, deduplicated: false };
}

/** A producer whose receipts the test gives. */
export class FakeProducer {
  readonly submitted: Submitted[] = [];
  closed = false;
  finishClose: () => void = () => undefined;

  constructor(
    readonly topic: string,
    private readonly slowClose = false,
    /** May refuse a message inside `submit()`. */
    private readonly onSubmit: ((text: string) => TransportError | undefined) | undefined = undefined,
  ) {}

  submit(message: ProducerMessage, done: Done): { cancel(): boolean } {
    const refusal = this.onSubmit?.(Buffer.from(message.payload ?? []).toString());
    if (refusal !== undefined) {
      done(refusal);
      return { cancel: () => false };
    }
    const item: Submitted = { message, done, written: true };
    this.submitted.push(item);
    return { cancel: () => !item.written && (this.submitted.splice(this.submitted.indexOf(item), 1), true) };
  }

  /** Receipts for everything submitted. */
  receive(): void {
    for (const { done } of this.submitted.splice(0)) done(undefined, stored());
  }

  on(): () => void {
    return () => undefined;
  }

  close(): Promise<void> {
    this.closed = true;
    return this.slowClose ? new Promise((resolve) => (this.finishClose = resolve)) : Promise.resolve();
  }

  destroy(): void {
    this.closed = true;
  }

  get payloads(): string[] {
    return this.submitted.map(({ message }) => Buffer.from(message.payload ?? []).toString());
  }
}
