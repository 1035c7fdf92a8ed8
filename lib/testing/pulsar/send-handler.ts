import { type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type PulsarHost } from './host.js';
import { ServerError } from './proto.js';
import { MAX_MESSAGE_SIZE } from './session-handler.js';
import { ChecksumError, type ReadSend, readSend } from './stored-message.js';

/** Counters of what producers did. */
export interface SendFigures {
  /** SEND commands received. */
  sends: number;
  /** Of those, for a producer the broker does not know (any more): ignored silently, as measured. */
  ignored: number;
  /** Messages stored. */
  stored: number;
  /** SENDs answered with -1:-1. */
  deduplicated: number;
  /** SENDs answered with SEND_ERROR. */
  sendErrors: number;
}

/** SEND: checked strictly, stored, and answered with a receipt. */
export class SendHandler {
  readonly figures: SendFigures = { sends: 0, ignored: 0, stored: 0, deduplicated: 0, sendErrors: 0 };
  private singles = 0;

  constructor(private readonly host: PulsarHost) {}

  /** What the SEND holds, or the fault that made it unreadable. */
  read(send: PulsarCommands['send'], tail: Buffer): ReadSend | Error {
    try {
      return readSend(send, tail, this.host.options.decompress);
    } catch (error) {
      return error as Error;
    }
  }

  send(
    send: PulsarCommands['send'],
    content: ReadSend | Error,
    tail: Buffer,
    connection: PulsarBrokerConnection,
  ): void {
    this.figures.sends++;
    const { producerId, sequenceId } = send;
    const producer = connection.producers.get(producerId);
    if (producer === undefined) {
      this.figures.ignored++;
      return;
    }
    if (producer.fenced) return connection.cut();
    if (producer.wedged) return;
    if (!producer.ready) return this.broken('SEND before the producer is ready', connection);
    const { topic } = producer;
    const fail = (error: number, message: string): void => {
      this.figures.sendErrors++;
      connection.answer('sendError', { producerId, sequenceId, error, message });
    };
    const scripted = this.host.faults.takeFailure('send');
    if (scripted !== undefined) return fail(scripted.error, scripted.message);
    if (content instanceof ChecksumError) return fail(ServerError.ChecksumError, 'Checksum failed on the broker');
    if (content instanceof Error) return this.broken(`SEND ${sequenceId}: ${content.message}`, connection);
    if (content.metadata['producerName'] !== producer.name) {
      return this.broken(`SEND ${sequenceId}: producer name differs from that of PRODUCER_SUCCESS`, connection);
    }
    if (content.size > (this.host.options.maxMessageSize ?? MAX_MESSAGE_SIZE)) {
      producer.wedged = true;
      return;
    }
    if (topic.encryptionRequired && content.metadata['encryptionKeys'] === undefined) {
      return fail(ServerError.MetadataError, 'Messages must be encrypted');
    }
    if (topic.terminated) return fail(ServerError.TopicTerminatedError, 'Topic was already terminated');
    if (topic.deduplication && topic.isDuplicate(content)) {
      topic.deduplicated++;
      this.figures.deduplicated++;
      const messageId = { ledgerId: -1, entryId: -1 };
      return this.host.faults.receipt(topic.name, connection, {
        producerId,
        sequenceId,
        messageId,
        highestSequenceId: content.highestSequenceId,
      });
    }
    const entry = topic.store(content, tail);
    this.figures.stored += entry.messages.length;
    this.host.faults.receipt(topic.name, connection, {
      producerId,
      sequenceId,
      messageId: { ledgerId: entry.ledgerId, entryId: entry.entryId },
      // For singles the real broker says now -1, now 0: nothing may depend on it.
      highestSequenceId: send.highestSequenceId ?? (this.singles++ % 2 === 0 ? -1 : 0),
    });
  }

  private broken(text: string, connection: PulsarBrokerConnection): void {
    this.host.violation(text, connection);
    connection.cut();
  }
}
