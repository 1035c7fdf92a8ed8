import { connect, type Socket } from 'node:net';
import protobuf from 'protobufjs';
import { descriptor } from '../../../lib/pulsar/codec/proto/pulsar-api-descriptor.js';

const root = protobuf.Root.fromJSON(descriptor as protobuf.INamespace);
const BaseCommand = root.lookupType('pulsar.proto.BaseCommand');
export const MessageMetadata = root.lookupType('pulsar.proto.MessageMetadata');
export const SingleMessageMetadata = root.lookupType('pulsar.proto.SingleMessageMetadata');

/** A decoded body. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type RawBody = Record<string, any>;

export interface RawCommand {
  readonly type: string;
  /** 64-bit numbers as decimal text. */
  readonly body: RawBody;
  readonly tail: Buffer;
}

/** A socket that speaks Pulsar frames through protobufjs and knows nothing else. */
export class RawPulsarClient {
  readonly received: RawCommand[] = [];
  closed = false;
  private buffered = Buffer.alloc(0);
  private readonly waiters = new Set<() => void>();

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => this.read(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.closed = true;
      this.wake();
    });
  }

  /** Opens a socket, and a Pulsar connection on it unless told otherwise. */
  static async open(port: number, options: { readonly handshake?: boolean; readonly connect?: object } = {}) {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    const client = new RawPulsarClient(socket);
    if (options.handshake !== false) {
      client.send('connect', { clientVersion: 'raw', protocolVersion: 19, ...options.connect });
      await client.next('connected');
    }
    return client;
  }

  send(type: string, body: object, tail: Uint8Array = Buffer.alloc(0)): void {
    const field = BaseCommand.fields[type];
    const command = BaseCommand.encode(BaseCommand.fromObject({ type: field.id, [type]: body })).finish();
    const head = Buffer.alloc(8);
    head.writeUInt32BE(4 + command.length + tail.length, 0);
    head.writeUInt32BE(command.length, 4);
    this.socket.write(Buffer.concat([head, command, tail]));
  }

  sendRaw(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** The next command of this type that nobody has taken yet. */
  async next(type: string, where: (body: RawBody) => boolean = () => true): Promise<RawBody> {
    return (await this.take(type, where)).body;
  }

  async take(type: string, where: (body: RawBody) => boolean = () => true): Promise<RawCommand> {
    for (;;) {
      const at = this.received.findIndex((command) => command.type === type && where(command.body));
      if (at >= 0) return this.received.splice(at, 1)[0];
      if (this.closed) throw new Error(`closed while waiting for ${type}`);
      await new Promise<void>((resolve) => this.waiters.add(resolve));
    }
  }

  async whenClosed(): Promise<void> {
    while (!this.closed) await new Promise<void>((resolve) => this.waiters.add(resolve));
  }

  /** Looks the topic up and creates a producer. */
  async produce(topic: string, options: Record<string, unknown> = {}): Promise<RawBody> {
    await this.lookup(topic);
    this.send('producer', { topic, producerId: 1, requestId: 100, ...options });
    return this.next('producerSuccess');
  }

  async lookup(topic: string): Promise<RawBody> {
    this.send('lookupTopic', { topic, requestId: 99 });
    return this.next('lookupTopicResponse');
  }

  close(): void {
    this.socket.destroy();
  }

  private read(chunk: Buffer): void {
    this.buffered = Buffer.concat([this.buffered, chunk]);
    while (this.buffered.length >= 4 && this.buffered.length >= 4 + this.buffered.readUInt32BE(0)) {
      const end = 4 + this.buffered.readUInt32BE(0);
      const commandEnd = 8 + this.buffered.readUInt32BE(4);
      const message = BaseCommand.decode(this.buffered.subarray(8, commandEnd));
      const plain = BaseCommand.toObject(message, { longs: String, bytes: Buffer });
      const name = BaseCommand.fieldsById[plain['type'] as number]?.name ?? 'unknown';
      this.received.push({ type: name, body: plain[name], tail: Buffer.from(this.buffered.subarray(commandEnd, end)) });
      this.buffered = this.buffered.subarray(end);
    }
    this.wake();
  }

  private wake(): void {
    for (const waiter of this.waiters) waiter();
    this.waiters.clear();
  }
}

/** CRC-32C bit by bit. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** The payload part of a SEND. */
export function tailOf(metadata: object, payload: Uint8Array): Buffer {
  const encoded = MessageMetadata.encode(MessageMetadata.fromObject(metadata)).finish();
  const checked = Buffer.concat([Buffer.alloc(4), encoded, payload]);
  checked.writeUInt32BE(encoded.length, 0);
  const head = Buffer.from([0x0e, 0x01, 0, 0, 0, 0]);
  head.writeUInt32BE(crc32c(checked), 2);
  return Buffer.concat([head, checked]);
}

export interface RawMessage {
  readonly payload: string;
  readonly metadata?: object;
}

/** The payload of a batch. */
export function batchOf(messages: readonly RawMessage[]): Buffer {
  return Buffer.concat(
    messages.flatMap(({ payload, metadata }) => {
      const own = { payloadSize: Buffer.byteLength(payload), ...metadata };
      const encoded = SingleMessageMetadata.encode(SingleMessageMetadata.fromObject(own)).finish();
      const length = Buffer.alloc(4);
      length.writeUInt32BE(encoded.length, 0);
      return [length, encoded, Buffer.from(payload)];
    }),
  );
}
