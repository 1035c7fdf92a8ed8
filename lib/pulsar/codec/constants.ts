/** Numbers of the Pulsar protocol, as in PulsarApi.proto. */

export const PROTOCOL_VERSION = 21;

/** A frame may be this much larger than `max_message_size`: room for the command and the metadata. */
export const FRAME_PADDING = 10 * 1024;

/** `max_message_size` of a broker that names none. */
export const DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024;

/** Before the checksum in a SEND or MESSAGE. */
export const MAGIC_CRC32C = 0x0e01;

/** Before the broker's entry metadata in a MESSAGE. */
export const MAGIC_BROKER_ENTRY = 0x0e02;

export const CompressionType = { NONE: 0, LZ4: 1, ZLIB: 2, ZSTD: 3, SNAPPY: 4 } as const;
export type CompressionType = (typeof CompressionType)[keyof typeof CompressionType];

export const ProducerAccessMode = { Shared: 0, Exclusive: 1, WaitForExclusive: 2, ExclusiveWithFencing: 3 } as const;
export type ProducerAccessMode = (typeof ProducerAccessMode)[keyof typeof ProducerAccessMode];

export const SchemaType = {
  None: 0,
  String: 1,
  Json: 2,
  Protobuf: 3,
  Avro: 4,
  Bool: 5,
  Int8: 6,
  Int16: 7,
  Int32: 8,
  Int64: 9,
  Float: 10,
  Double: 11,
  Date: 12,
  Time: 13,
  Timestamp: 14,
  KeyValue: 15,
  Instant: 16,
  LocalDate: 17,
  LocalTime: 18,
  LocalDateTime: 19,
  ProtobufNative: 20,
} as const;
export type SchemaType = (typeof SchemaType)[keyof typeof SchemaType];

export const LookupType = { Redirect: 0, Connect: 1, Failed: 2 } as const;
export const PartitionMetadataResult = { Success: 0, Failed: 1 } as const;
export const ResourceType = { Producer: 0, Consumer: 1 } as const;
export const SubType = { Exclusive: 0, Shared: 1, Failover: 2, KeyShared: 3 } as const;
export const InitialPosition = { Latest: 0, Earliest: 1 } as const;
export const KeySharedMode = { AutoSplit: 0, Sticky: 1 } as const;
export const AckType = { Individual: 0, Cumulative: 1 } as const;
export const AckValidationError = {
  UncompressedSizeCorruption: 0,
  DecompressionError: 1,
  ChecksumMismatch: 2,
  BatchDeSerializeError: 3,
  DecryptionError: 4,
} as const;
