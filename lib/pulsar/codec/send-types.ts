/** What the encoders of SEND frames take. */
import { type CompressionType } from './constants.js';
import { type KeyValue } from './command-types.js';

/** One message, checked by the caller. */
export interface EncodableMessage {
  /** Null: a tombstone, sent as an empty payload that is marked as "no value". */
  readonly payload: Uint8Array | null;
  readonly key?: string;
  /** A key of bytes, sent in base64 with its mark; goes before `key`. */
  readonly keyBytes?: Uint8Array;
  readonly orderingKey?: Uint8Array;
  readonly properties?: Readonly<Record<string, string>>;
  /** Milliseconds since 1970. */
  readonly eventTime?: number;
  /** Milliseconds since 1970. Not in a batch. */
  readonly deliverAt?: number;
  /** Not in a batch. An empty list: replicated nowhere. */
  readonly replicationClusters?: readonly string[];
}

/** A synchronous compressor and the type that tells consumers how to undo it. */
export interface Compression {
  readonly type: CompressionType;
  compress(input: Buffer): Buffer;
}

export interface EncryptedPayload {
  readonly payload: Uint8Array;
  /** The data key, encrypted for each of the consumers' keys. */
  readonly keys: readonly {
    readonly name: string;
    readonly value: Uint8Array;
    readonly metadata?: readonly KeyValue[];
  }[];
  readonly algorithm?: string;
  /** The initialization vector. */
  readonly parameter: Uint8Array;
}

/** Encrypts payloads that are compressed already. */
export interface Encryption {
  /** Bytes that it adds to a frame at most: keys, parameter and tag. Chunks are that much smaller. */
  readonly overhead: number;
  encrypt(payload: Uint8Array): EncryptedPayload;
}

/** What every frame of a producer carries. */
export interface FrameSource {
  readonly producerId: number;
  readonly producerName: string;
  /** Milliseconds since 1970. */
  readonly publishTime: number;
  readonly schemaVersion?: Uint8Array;
  readonly compression?: Compression;
  readonly encryption?: Encryption;
  /** The broker's limit for metadata and payload; none if absent. */
  readonly maxMessageSize?: number;
}

/** Place of a frame in a message that is sent in several chunks. */
export interface ChunkInfo {
  /** The same for all chunks of a message: producer name and sequence id in other clients. */
  readonly uuid: string;
  readonly id: number;
  readonly count: number;
  /** Of the whole message, after compression, in bytes. */
  readonly totalSize: number;
}
