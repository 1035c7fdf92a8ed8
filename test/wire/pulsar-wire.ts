import {
  type Command,
  commandOf,
  FrameSplitter,
  messagesOf,
  type StoredMessage,
  Type,
} from '../../sample/01-mqtt-to-pulsar/src/verify/pulsar-frames.js';
import { type Tap, TcpProxy } from './tcp-proxy.js';

export interface PulsarWireOptions {
  readonly targetPort: number;
  readonly port?: number;
  /** The messages of one SEND, before the broker has them. */
  readonly onSend?: (topic: string, messages: readonly StoredMessage[]) => void;
  /** The messages whose send receipt is on its way to the client, before the client has it. */
  readonly onReceipt?: (topic: string, messages: readonly StoredMessage[]) => void;
}

/** A recording proxy between a Pulsar client and its broker, decoded with protobufjs. */
export class PulsarWire {
  readonly figures = {
    /** SEND frames and the messages in them, repetitions included. */
    sends: 0,
    sentMessages: 0,
    receipts: 0,
    /** Receipts of -1:-1: dropped by deduplication, stored nothing. */
    deduplicated: 0,
    sendErrors: 0,
    closedProducers: 0,
    /** SEND frames whose checksum or metadata could not be read. */
    malformed: 0,
  };

  private constructor(private readonly options: PulsarWireOptions) {}

  // set once by start()
  proxy!: TcpProxy;

  static async start(options: PulsarWireOptions): Promise<PulsarWire> {
    const wire = new PulsarWire(options);
    wire.proxy = await TcpProxy.start({
      targetPort: options.targetPort,
      ...(options.port === undefined ? {} : { port: options.port }),
      tap: () => wire.tap(),
    });
    return wire;
  }

  get url(): string {
    return `pulsar://127.0.0.1:${this.proxy.port}`;
  }

  private tap(): Tap {
    const client = new FrameSplitter();
    const server = new FrameSplitter();
    const topics = new Map<number, string>();
    const unanswered = new Map<string, readonly StoredMessage[]>();
    return {
      fromClient: (chunk) => {
        for (const frame of client.push(chunk)) this.toServer(frame, topics, unanswered);
      },
      fromServer: (chunk) => {
        for (const frame of server.push(chunk)) this.toClient(commandOf(frame), topics, unanswered);
      },
      closed: () => unanswered.clear(),
    };
  }

  private toServer(
    frame: Buffer,
    topics: Map<number, string>,
    unanswered: Map<string, readonly StoredMessage[]>,
  ): void {
    const command = commandOf(frame);
    if (command.type === Type.PRODUCER) topics.set(command['producer'].producerId, command['producer'].topic);
    if (command.type !== Type.SEND) return;
    this.figures.sends++;
    const { producerId, sequenceId } = command['send'];
    let messages: readonly StoredMessage[];
    try {
      messages = messagesOf(frame);
    } catch {
      this.figures.malformed++;
      return;
    }
    this.figures.sentMessages += messages.length;
    unanswered.set(`${producerId}:${sequenceId}`, messages);
    this.options.onSend?.(topics.get(producerId) ?? '', messages);
  }

  private toClient(
    command: Command,
    topics: Map<number, string>,
    unanswered: Map<string, readonly StoredMessage[]>,
  ): void {
    if (command.type === Type.SEND_ERROR) this.figures.sendErrors++;
    if (command.type === Type.CLOSE_PRODUCER) this.figures.closedProducers++;
    if (command.type !== Type.SEND_RECEIPT) return;
    this.figures.receipts++;
    const { producerId, sequenceId, messageId } = command['sendReceipt'];
    const id = `${producerId}:${sequenceId}`;
    const messages = unanswered.get(id);
    unanswered.delete(id);
    if (messageId !== undefined && messageId.ledgerId > Number.MAX_SAFE_INTEGER) {
      this.figures.deduplicated++;
      return;
    }
    if (messages !== undefined) this.options.onReceipt?.(topics.get(producerId) ?? '', messages);
  }
}
