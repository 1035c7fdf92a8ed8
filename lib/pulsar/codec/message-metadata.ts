/** `MessageMetadata` and `SingleMessageMetadata` written by hand: one of them stands before every payload. */
import { ProtoWriter } from './proto-writer.js';
import { type ChunkInfo, type EncodableMessage, type EncryptedPayload, type FrameSource } from './send-types.js';

export interface MetadataFields {
  readonly source: FrameSource;
  readonly sequenceId: number;
  /** The message; of a batch the first one, whose keys decide where the batch is dispatched. */
  readonly message: EncodableMessage;
  /** Only for a batch. */
  readonly batch?: { readonly count: number; readonly highestSequenceId: number };
  /** `CompressionType`; absent if the payload is not compressed. */
  readonly compression?: number;
  /** Of the whole payload before compression, in bytes. */
  readonly uncompressedSize: number;
  readonly encrypted?: EncryptedPayload;
  readonly chunk?: ChunkInfo;
}

export function writeMessageMetadata(writer: ProtoWriter, fields: MetadataFields): void {
  const { source, message, batch, encrypted, chunk } = fields;
  writer.string(tag(1, BYTES), source.producerName);
  writer.number(tag(2, VARINT), fields.sequenceId);
  writer.number(tag(3, VARINT), source.publishTime);
  if (batch === undefined && message.properties !== undefined)
    writeProperties(writer, tag(4, BYTES), message.properties);
  const key = partitionKey(message);
  if (key !== undefined) writer.string(tag(6, BYTES), key);
  if (batch === undefined && message.replicationClusters !== undefined)
    writeClusters(writer, message.replicationClusters);
  if (fields.compression !== undefined) writer.number(tag(8, VARINT), fields.compression);
  // The Go client reads what it decrypted, or put together from chunks, only where this is there.
  if (fields.compression !== undefined || encrypted !== undefined || chunk !== undefined) {
    writer.number(tag(9, VARINT), fields.uncompressedSize);
  }
  if (batch !== undefined) writer.number(tag(11, VARINT), batch.count);
  else if (message.eventTime !== undefined) writer.number(tag(12, VARINT), message.eventTime);
  if (encrypted !== undefined) writeEncryption(writer, encrypted);
  if (source.schemaVersion !== undefined) writer.bytes(tag(16, BYTES), source.schemaVersion);
  if (message.keyBytes !== undefined) writer.flag(tag(17, VARINT));
  if (message.orderingKey !== undefined) writer.bytes(tag(18, BYTES), message.orderingKey);
  if (batch !== undefined) writer.number(tag(24, VARINT), batch.highestSequenceId);
  else {
    if (message.deliverAt !== undefined) writer.number(tag(19, VARINT), message.deliverAt);
    if (message.payload === null) writer.flag(tag(25, VARINT));
  }
  if (chunk !== undefined) {
    writer.string(tag(26, BYTES), chunk.uuid);
    writer.number(tag(27, VARINT), chunk.count);
    writer.number(tag(28, VARINT), chunk.totalSize);
    writer.number(tag(29, VARINT), chunk.id);
  }
}

export function writeSingleMetadata(
  writer: ProtoWriter,
  message: EncodableMessage,
  payloadSize: number,
  sequenceId: number,
): void {
  if (message.properties !== undefined) writeProperties(writer, tag(1, BYTES), message.properties);
  const key = partitionKey(message);
  if (key !== undefined) writer.string(tag(2, BYTES), key);
  writer.number(tag(3, VARINT), payloadSize);
  if (message.eventTime !== undefined) writer.number(tag(5, VARINT), message.eventTime);
  if (message.keyBytes !== undefined) writer.flag(tag(6, VARINT));
  if (message.orderingKey !== undefined) writer.bytes(tag(7, BYTES), message.orderingKey);
  writer.number(tag(8, VARINT), sequenceId);
  if (message.payload === null) writer.flag(tag(9, VARINT));
}

const VARINT = 0;
const BYTES = 2;
const tag = (field: number, wireType: number): number => (field << 3) | wireType;

/** What clients write for "to no other cluster": an empty list is the same as none on the wire. */
const LOCAL_ONLY = '__local__';

function partitionKey(message: EncodableMessage): string | undefined {
  const { keyBytes } = message;
  if (keyBytes === undefined) return message.key;
  return Buffer.from(keyBytes.buffer, keyBytes.byteOffset, keyBytes.length).toString('base64');
}

function writeProperties(writer: ProtoWriter, tag: number, properties: Readonly<Record<string, string>>): void {
  for (const key in properties) writer.keyValue(tag, key, properties[key]);
}

function writeClusters(writer: ProtoWriter, clusters: readonly string[]): void {
  if (clusters.length === 0) writer.string(tag(7, BYTES), LOCAL_ONLY);
  for (const cluster of clusters) writer.string(tag(7, BYTES), cluster);
}

function writeEncryption(writer: ProtoWriter, encrypted: EncryptedPayload): void {
  for (const key of encrypted.keys) {
    // Rare, and its length stands before it: written apart.
    const inner = new ProtoWriter(512);
    inner.string(tag(1, BYTES), key.name);
    inner.bytes(tag(2, BYTES), key.value);
    for (const entry of key.metadata ?? []) inner.keyValue(tag(3, BYTES), entry.key, entry.value);
    writer.bytes(tag(13, BYTES), inner.buffer.subarray(0, inner.at));
  }
  if (encrypted.algorithm !== undefined) writer.string(tag(14, BYTES), encrypted.algorithm);
  writer.bytes(tag(15, BYTES), encrypted.parameter);
}
