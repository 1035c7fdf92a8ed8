import { inflateSync } from 'node:zlib';
import { type PulsarCommands } from './commands.js';
import { readPayload } from './frames.js';
import { CompressionType, decodeMetadata, decodeSingleMetadata, type Plain } from './proto.js';

export type CompressionName = keyof typeof CompressionType;

/** One message as a consumer would see it. Of a batch, each member is one. */
export interface StoredMessage {
  /** Absent until it is stored. */
  readonly ledgerId: number;
  readonly entryId: number;
  /** -1 outside a batch. */
  readonly batchIndex: number;
  /** Messages in the batch; 1 outside a batch. */
  readonly batchSize: number;
  readonly producerName: string;
  readonly sequenceId: number;
  /** Milliseconds since the Unix epoch. */
  readonly publishTime: number;
  readonly eventTime: number | undefined;
  /** The key as it was sent: base64 text if it was given as bytes, see {@link keyBytes}. */
  readonly key: string | undefined;
  /** Set if the key was given as bytes. */
  readonly keyBytes: Buffer | undefined;
  readonly orderingKey: Buffer | undefined;
  readonly properties: Readonly<Record<string, string>>;
  /** Null is a tombstone. Of an encrypted message, or one whose compression this broker cannot undo, the stored bytes. */
  readonly payload: Buffer | null;
  readonly compression: CompressionName;
  /** True if `payload` is not what the application gave: encrypted, or compressed in a way this broker cannot undo. */
  readonly opaque: boolean;
  readonly encryptionKeys: readonly string[];
  readonly schemaVersion: Buffer | undefined;
  readonly deliverAt: number | undefined;
  readonly replicateTo: readonly string[];
  /** Of a chunked message, each chunk is stored alone. */
  readonly chunk:
    { readonly uuid: string; readonly id: number; readonly count: number; readonly totalSize: number } | undefined;
}

/** What one SEND holds. */
export interface ReadSend {
  readonly messages: readonly StoredMessage[];
  readonly metadata: Plain;
  /** Metadata and payload, in bytes: what `max_message_size` bounds. */
  readonly size: number;
  readonly sequenceId: number;
  /** The highest id in the frame. */
  readonly highestSequenceId: number;
}

/** Undoes a compression; `size` is the length of the result in bytes. */
export type Decompress = (bytes: Buffer, size: number) => Buffer;

/** The checksum does not fit: what the broker answers with SEND_ERROR, the connection stays. */
export class ChecksumError extends Error {}

/**
 * Reads the payload part of a SEND strictly.
 *
 * @throws ChecksumError
 * @throws Error naming the first thing that does not fit
 */
export function readSend(
  send: PulsarCommands['send'],
  tail: Buffer,
  decompressors: Partial<Record<CompressionName, Decompress>> = {},
): ReadSend {
  const parts = readPayload(tail);
  if (!parts.checksumValid) throw new ChecksumError('checksum of metadata and payload does not fit');
  const metadata = decodeMetadata(parts.metadata);
  const compression = nameOf(metadata['compression'] as number | undefined);
  const count = (metadata['numMessagesInBatch'] as number | undefined) ?? 1;
  const isBatch = metadata['numMessagesInBatch'] !== undefined;
  const highest = (metadata['highestSequenceId'] as number | undefined) ?? 0;
  const sequenceId = metadata['sequenceId'] as number;
  demand(sequenceId === send.sequenceId, `sequence id ${sequenceId} in the metadata, ${send.sequenceId} in SEND`);
  demand((send.numMessages ?? 1) === count, `${count} messages in the metadata, ${send.numMessages ?? 1} in SEND`);
  demand(count >= 1, 'num_messages_in_batch is 0');
  demand((metadata['publishTime'] as number) > 0, 'publish time is 0');
  if (isBatch && count > 1) {
    demand(highest >= sequenceId, `highest sequence id ${highest} of a batch that begins with ${sequenceId}`);
    demand(send.highestSequenceId === highest, 'highest sequence id differs between SEND and metadata');
  }
  const encrypted = metadata['encryptionKeys'] !== undefined;
  const decompress = decompressor(compression, decompressors);
  const opaque = encrypted || decompress === undefined;
  // A chunk is a slice of the compressed message: it cannot be undone alone.
  const isChunk = ((metadata['numChunksFromMsg'] as number | undefined) ?? 0) > 1;
  let payload = parts.payload;
  if (!opaque && !isChunk && compression !== 'NONE') {
    const size = (metadata['uncompressedSize'] as number | undefined) ?? 0;
    payload = decompress(payload, size);
    demand(payload.length === size, `uncompressed size ${payload.length}, announced ${size}`);
  }
  const common = { metadata, compression, opaque: opaque || (isChunk && compression !== 'NONE') };
  const messages =
    isBatch && !opaque ? batch(payload, count, common) : [message({ ...common, own: metadata, payload, index: -1 })];
  return {
    messages,
    metadata,
    size: parts.metadata.length + parts.payload.length,
    sequenceId,
    highestSequenceId: Math.max(sequenceId, highest),
  };
}

interface Common {
  readonly metadata: Plain;
  readonly compression: CompressionName;
  readonly opaque: boolean;
}

function batch(payload: Buffer, count: number, common: Common): StoredMessage[] {
  const messages: StoredMessage[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    demand(at + 4 <= payload.length, `batch of ${count} ends at message ${index}`);
    const length = payload.readUInt32BE(at);
    const start = at + 4 + length;
    demand(start <= payload.length, `metadata of message ${index} is longer than the batch`);
    const own = decodeSingleMetadata(payload.subarray(at + 4, start));
    const size = own['payloadSize'] as number;
    demand(start + size <= payload.length, `payload of message ${index} is longer than the batch`);
    messages.push(message({ ...common, own, payload: payload.subarray(start, start + size), index, count }));
    at = start + size;
  }
  demand(at === payload.length, `${payload.length - at} bytes left after the last message of the batch`);
  return messages;
}

function message(from: Common & { own: Plain; payload: Buffer; index: number; count?: number }): StoredMessage {
  const { metadata, own } = from;
  const key = own['partitionKey'] as string | undefined;
  const sequenceId =
    from.index < 0
      ? (metadata['sequenceId'] as number)
      : ((own['sequenceId'] as number | undefined) ?? (metadata['sequenceId'] as number) + from.index);
  const uuid = metadata['uuid'] as string | undefined;
  return {
    ledgerId: -1,
    entryId: -1,
    batchIndex: from.index,
    batchSize: from.count ?? 1,
    producerName: metadata['producerName'] as string,
    sequenceId,
    publishTime: metadata['publishTime'] as number,
    eventTime: own['eventTime'] as number | undefined,
    key,
    keyBytes: own['partitionKeyB64Encoded'] === true && key !== undefined ? Buffer.from(key, 'base64') : undefined,
    orderingKey: own['orderingKey'] as Buffer | undefined,
    properties: Object.fromEntries(
      ((own['properties'] as { key: string; value: string }[] | undefined) ?? []).map(({ key, value }) => [key, value]),
    ),
    payload: own['nullValue'] === true ? null : Buffer.from(from.payload),
    compression: from.compression,
    opaque: from.opaque,
    encryptionKeys: ((metadata['encryptionKeys'] as { key: string }[] | undefined) ?? []).map((one) => one.key),
    schemaVersion: metadata['schemaVersion'] as Buffer | undefined,
    deliverAt: metadata['deliverAtTime'] as number | undefined,
    replicateTo: (metadata['replicateTo'] as string[] | undefined) ?? [],
    chunk:
      uuid === undefined
        ? undefined
        : {
            uuid,
            id: (metadata['chunkId'] as number | undefined) ?? 0,
            count: (metadata['numChunksFromMsg'] as number | undefined) ?? 1,
            totalSize: (metadata['totalChunkMsgSize'] as number | undefined) ?? 0,
          },
  };
}

function decompressor(
  compression: CompressionName,
  given: Partial<Record<CompressionName, Decompress>>,
): Decompress | undefined {
  if (compression === 'NONE') return (bytes) => bytes;
  return given[compression] ?? (compression === 'ZLIB' ? (bytes) => inflateSync(bytes) : undefined);
}

function nameOf(compression: number | undefined): CompressionName {
  const found = Object.entries(CompressionType).find(([, value]) => value === (compression ?? 0));
  if (found === undefined) throw new Error(`unknown compression ${compression ?? 0}`);
  return found[0] as CompressionName;
}

function demand(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}
