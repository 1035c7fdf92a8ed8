import { type TransportError } from '../errors.js';
import { type SendReceipt } from './codec/command-types.js';
import { type Connection, type ProducerHandler } from './connection.js';
import { type DialHint } from './protocol/producer-events.js';
import { type ProducerState } from './protocol/producer-state.js';
import { type Send } from './send.js';

/** A producer on one connection, from one PRODUCER on: gives what the broker says the number of its link. */
export class PartitionLink implements ProducerHandler {
  constructor(
    private readonly core: ProducerState<Send>,
    readonly generation: number,
    readonly connection: Connection,
    readonly producerId: number,
    readonly chunkRead: () => void,
  ) {}

  receipt({ sequenceId, highestSequenceId, ledgerId, entryId }: SendReceipt): void {
    const { core, generation } = this;
    core.post({ kind: 'receipt', generation, sequenceId, highestSequenceId, ledgerId, entryId });
  }

  sendError(sequenceId: number, code: number, message: string): void {
    this.core.post({ kind: 'sendError', generation: this.generation, sequenceId, code, message });
  }

  brokerClosed(error: TransportError, hint: DialHint | undefined): void {
    this.core.post({ kind: 'brokerClose', generation: this.generation, error, hint });
  }

  connectionLost(error: TransportError): void {
    this.core.post({ kind: 'linkDown', generation: this.generation, error });
  }

  queued(): void {
    this.core.post({ kind: 'linkQueued', generation: this.generation });
    this.chunkRead();
  }
}
