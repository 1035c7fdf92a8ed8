/** What a consumer gets in a MESSAGE: entry metadata of the broker, checksum, metadata, payload; and the batch in it. */
import { type KeyValue } from './command-types.js';
import { MAGIC_BROKER_ENTRY, MAGIC_CRC32C } from './constants.js';
import { crc32c } from './crc32c.js';
import { malformed } from './malformed.js';
import { decodeProto } from './proto/reflection.js';

export interface MessageMetadata {
  readonly producerName: string;
  readonly sequenceId: number;
  readonly publishTime: number;
  readonly properties: readonly KeyValue[];
  readonly replicatedFrom?: string;
  readonly partitionKey?: string;
  readonly replicateTo: readonly string[];
  /** `CompressionType` */
  readonly compression?: number;
  readonly uncompressedSize?: number;
  /** Present, also as 1, only for a batch. */
  readonly numMessagesInBatch?: number;
  readonly eventTime?: number;
  readonly encryptionKeys: readonly {
    readonly key: string;
    readonly value: Uint8Array;
    readonly metadata: readonly KeyValue[];
  }[];
  readonly encryptionAlgo?: string;
  readonly encryptionParam?: Uint8Array;
  readonly schemaVersion?: Uint8Array;
  readonly partitionKeyB64Encoded?: boolean;
  readonly orderingKey?: Uint8Array;
  readonly deliverAtTime?: number;
  readonly markerType?: number;
  readonly highestSequenceId?: number;
  readonly nullValue?: boolean;
  readonly uuid?: string;
  readonly numChunksFromMsg?: number;
  readonly totalChunkMsgSize?: number;
  readonly chunkId?: number;
  readonly nullPartitionKey?: boolean;
}

export interface SingleMessageMetadata {
  readonly properties: readonly KeyValue[];
  readonly partitionKey?: string;
  readonly payloadSize: number;
  readonly compactedOut?: boolean;
  readonly eventTime?: number;
  readonly partitionKeyB64Encoded?: boolean;
  readonly orderingKey?: Uint8Array;
  readonly sequenceId?: number;
  readonly nullValue?: boolean;
  readonly nullPartitionKey?: boolean;
}

export interface Entry {
  readonly brokerEntry?: { readonly brokerTimestamp?: number; readonly index?: number };
  readonly metadata: MessageMetadata;
  /** As stored: compressed and encrypted as the metadata says. A view of the input. */
  readonly payload: Buffer;
  /** False: the bytes are not those that were sent. */
  readonly checksumOk: boolean;
}

/** @throws RemoteProtocolError if the bytes are no entry; a wrong checksum is not one */
export function decodeEntry(buffer: Buffer): Entry {
  let at = 0;
  let brokerEntry: Entry['brokerEntry'];
  let checksumOk = true;
  if (magicAt(buffer, at) === MAGIC_BROKER_ENTRY) {
    const start = at + 6;
    at = start + sizeAt(buffer, at + 2);
    brokerEntry = decodeProto('BrokerEntryMetadata', buffer.subarray(start, at)) as Entry['brokerEntry'];
  }
  if (magicAt(buffer, at) === MAGIC_CRC32C) {
    if (at + 6 > buffer.length) throw malformed('an entry that ends in its checksum');
    checksumOk = buffer.readUInt32BE(at + 2) === crc32c(buffer, at + 6);
    at += 6;
  }
  const start = at + 4;
  at = start + sizeAt(buffer, at);
  const payload = buffer.subarray(at);
  // Bytes that were damaged on the way may still be a frame: what they say is not to be trusted, so it is not read.
  if (!checksumOk) return { brokerEntry, metadata: UNREADABLE, payload, checksumOk };
  const metadata = decodeProto('MessageMetadata', buffer.subarray(start, at)) as MessageMetadata;
  return { brokerEntry, metadata, payload, checksumOk };
}

/**
 * The messages of a batch whose payload is decrypted and decompressed.
 *
 * @throws RemoteProtocolError if there are not `count` messages in it
 */
export function splitBatch(
  payload: Buffer,
  count: number,
): { readonly metadata: SingleMessageMetadata; readonly payload: Buffer }[] {
  const messages = [];
  let at = 0;
  for (let index = 0; index < count; index += 1) {
    const start = at + 4;
    at = start + sizeAt(payload, at);
    const metadata = decodeProto('SingleMessageMetadata', payload.subarray(start, at)) as SingleMessageMetadata;
    const { payloadSize } = metadata;
    if (payloadSize < 0 || payloadSize > payload.length - at) throw malformed('a batched message beyond its batch');
    messages.push({ metadata, payload: payload.subarray(at, at + payloadSize) });
    at += payloadSize;
  }
  return messages;
}

const UNREADABLE: MessageMetadata = {
  producerName: '',
  sequenceId: -1,
  publishTime: 0,
  properties: [],
  replicateTo: [],
  encryptionKeys: [],
};

function magicAt(buffer: Buffer, at: number): number {
  return at + 2 <= buffer.length ? buffer.readUInt16BE(at) : 0;
}

/** A size field at `at` whose bytes are all there. */
function sizeAt(buffer: Buffer, at: number): number {
  if (at + 4 > buffer.length) throw malformed('an entry that ends in a size');
  const size = buffer.readUInt32BE(at);
  if (size > buffer.length - at - 4) throw malformed('metadata beyond its entry');
  return size;
}
