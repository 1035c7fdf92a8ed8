/**
 * Pulsar's binary protocol as far as reading a topic back needs it, on protobufjs alone. Deliberately not the package's
 * own codec: what checks the product must not share its mistakes.
 *
 *     simple frame   [total u32][command size u32][BaseCommand]
 *     message frame  [total u32][command size u32][BaseCommand]([0x0e02][size u32][BrokerEntryMetadata])
 *                    [0x0e01][crc32c u32][metadata size u32][MessageMetadata][payload]
 */
import { inflateSync } from 'node:zlib';
import protobuf from 'protobufjs';

const schema = protobuf.parse(
  `syntax = "proto2";
  message MessageId { required uint64 ledgerId = 1; required uint64 entryId = 2; optional int32 partition = 3 [default = -1];
    optional int32 batch_index = 4 [default = -1]; }
  message KeyValue { required string key = 1; required string value = 2; }
  message Connect { required string client_version = 1; optional bytes auth_data = 3; optional int32 protocol_version = 4;
    optional string auth_method_name = 5; }
  message Lookup { required string topic = 1; required uint64 request_id = 2; optional bool authoritative = 3; }
  message LookupResponse { optional string brokerServiceUrl = 1; optional int32 response = 3; required uint64 request_id = 4;
    optional bool authoritative = 5; optional int32 error = 6; optional string message = 7;
    optional bool proxy_through_service_url = 8; }
  message PartitionedMetadata { required string topic = 1; required uint64 request_id = 2; }
  message PartitionedMetadataResponse { optional uint32 partitions = 1; required uint64 request_id = 2;
    optional int32 response = 3; optional int32 error = 4; optional string message = 5; }
  message Subscribe { required string topic = 1; required string subscription = 2; required int32 subType = 3;
    required uint64 consumer_id = 4; required uint64 request_id = 5; optional string consumer_name = 6;
    optional bool durable = 8; optional MessageId start_message_id = 9; optional int32 initialPosition = 13; }
  message Producer { required string topic = 1; required uint64 producer_id = 2; required uint64 request_id = 3;
    optional string producer_name = 4; optional uint64 epoch = 8; }
  message ProducerSuccess { required uint64 request_id = 1; required string producer_name = 2;
    optional int64 last_sequence_id = 3; }
  message Send { required uint64 producer_id = 1; required uint64 sequence_id = 2; optional int32 num_messages = 3;
    optional uint64 highest_sequence_id = 6; }
  message SendReceipt { required uint64 producer_id = 1; required uint64 sequence_id = 2; optional MessageId message_id = 3;
    optional uint64 highest_sequence_id = 4; }
  message SendError { required uint64 producer_id = 1; required uint64 sequence_id = 2; required int32 error = 3;
    required string message = 4; }
  message Message { required uint64 consumer_id = 1; required MessageId message_id = 2; }
  message Flow { required uint64 consumer_id = 1; required uint32 messagePermits = 2; }
  message CloseProducer { required uint64 producer_id = 1; required uint64 request_id = 2;
    optional string assignedBrokerServiceUrl = 3; }
  message Request { required uint64 request_id = 1; }
  message GetLastMessageId { required uint64 consumer_id = 1; required uint64 request_id = 2; }
  message GetLastMessageIdResponse { required MessageId last_message_id = 1; required uint64 request_id = 2; }
  message ErrorAnswer { required uint64 request_id = 1; required int32 error = 2; required string message = 3; }
  message Empty {}
  message BaseCommand { required int32 type = 1; optional Connect connect = 2; optional Empty connected = 3;
    optional Subscribe subscribe = 4; optional Producer producer = 5; optional Send send = 6;
    optional SendReceipt send_receipt = 7; optional SendError send_error = 8; optional Message message = 9;
    optional Flow flow = 11; optional Request success = 13; optional ErrorAnswer error = 14;
    optional CloseProducer close_producer = 15; optional ProducerSuccess producer_success = 17; optional Empty ping = 18;
    optional Empty pong = 19; optional PartitionedMetadata partitionMetadata = 21;
    optional PartitionedMetadataResponse partitionMetadataResponse = 22; optional Lookup lookupTopic = 23;
    optional LookupResponse lookupTopicResponse = 24; optional GetLastMessageId getLastMessageId = 29;
    optional GetLastMessageIdResponse getLastMessageIdResponse = 30; }
  message MessageMetadata { required string producer_name = 1; required uint64 sequence_id = 2;
    required uint64 publish_time = 3; repeated KeyValue properties = 4; optional string partition_key = 6;
    optional int32 compression = 8; optional uint32 uncompressed_size = 9; optional int32 num_messages_in_batch = 11;
    optional uint64 event_time = 12; optional bool partition_key_b64_encoded = 17; }
  message SingleMessageMetadata { repeated KeyValue properties = 1; optional string partition_key = 2;
    required int32 payload_size = 3; optional uint64 event_time = 5; optional bool partition_key_b64_encoded = 6;
    optional uint64 sequence_id = 8; }`,
).root;

const BaseCommand = schema.lookupType('BaseCommand');
const MessageMetadata = schema.lookupType('MessageMetadata');
const SingleMessageMetadata = schema.lookupType('SingleMessageMetadata');
const PLAIN = { longs: Number, defaults: false } as const;
const MAGIC_CHECKSUM = 0x0e01;
const MAGIC_ENTRY_METADATA = 0x0e02;

/** The `type` numbers used here. */
export const Type = {
  CONNECT: 2,
  CONNECTED: 3,
  SUBSCRIBE: 4,
  PRODUCER: 5,
  SEND: 6,
  SEND_RECEIPT: 7,
  SEND_ERROR: 8,
  MESSAGE: 9,
  FLOW: 11,
  SUCCESS: 13,
  ERROR: 14,
  CLOSE_PRODUCER: 15,
  PRODUCER_SUCCESS: 17,
  PING: 18,
  PONG: 19,
  PARTITIONED_METADATA: 21,
  PARTITIONED_METADATA_RESPONSE: 22,
  LOOKUP: 23,
  LOOKUP_RESPONSE: 24,
  GET_LAST_MESSAGE_ID: 29,
  GET_LAST_MESSAGE_ID_RESPONSE: 30,
} as const;

/** A decoded BaseCommand: `type` and the one field that belongs to it, numbers as numbers. */
export interface Command {
  readonly type: number;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the schema above is the type
  readonly [field: string]: any;
}

/** One message as it is stored, a batch taken apart. */
export interface StoredMessage {
  readonly payload: Buffer;
  readonly key: string | undefined;
  readonly properties: Readonly<Record<string, string>>;
  readonly producerName: string;
  readonly sequenceId: number;
  readonly eventTime: number;
}

export function simpleFrame(command: Command): Buffer {
  const body = BaseCommand.encode(BaseCommand.fromObject(command)).finish();
  const frame = Buffer.allocUnsafe(8 + body.length);
  frame.writeUInt32BE(4 + body.length, 0);
  frame.writeUInt32BE(body.length, 4);
  frame.set(body, 8);
  return frame;
}

/** The command of a whole frame. */
export function commandOf(frame: Buffer): Command {
  const size = frame.readUInt32BE(4);
  return BaseCommand.toObject(BaseCommand.decode(frame.subarray(8, 8 + size)), PLAIN) as Command;
}

/** The messages of a whole SEND or MESSAGE frame. Throws where the checksum is wrong. */
export function messagesOf(frame: Buffer): StoredMessage[] {
  let at = 8 + frame.readUInt32BE(4);
  if (frame.readUInt16BE(at) === MAGIC_ENTRY_METADATA) at += 6 + frame.readUInt32BE(at + 2);
  if (frame.readUInt16BE(at) !== MAGIC_CHECKSUM) throw new Error('a message frame without a checksum');
  const expected = frame.readUInt32BE(at + 2);
  at += 6;
  if (crc32c(frame.subarray(at)) !== expected) throw new Error('a message frame with a wrong checksum');
  const metadataSize = frame.readUInt32BE(at);
  const metadata = plain(MessageMetadata, frame.subarray(at + 4, at + 4 + metadataSize));
  let payload = frame.subarray(at + 4 + metadataSize);
  if ((metadata.compression ?? 0) === 2) payload = inflateSync(payload);
  else if ((metadata.compression ?? 0) !== 0) throw new Error(`compression ${metadata.compression} is not read here`);
  const { producerName, sequenceId } = metadata;
  if (metadata.numMessagesInBatch === undefined) return [message(metadata, payload, producerName, sequenceId)];
  const messages: StoredMessage[] = [];
  for (let index = 0, from = 0; index < metadata.numMessagesInBatch; index++) {
    const size = payload.readUInt32BE(from);
    const single = plain(SingleMessageMetadata, payload.subarray(from + 4, from + 4 + size));
    from += 4 + size;
    const end = from + (single.payloadSize as number);
    messages.push(
      message(single, payload.subarray(from, end), producerName, single.sequenceId ?? (sequenceId as number) + index),
    );
    from = end;
  }
  return messages;
}

/** Cuts a byte stream into whole frames. */
export class FrameSplitter {
  private rest: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): Buffer[] {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const frames: Buffer[] = [];
    let at = 0;
    while (bytes.length - at >= 4) {
      const end = at + 4 + bytes.readUInt32BE(at);
      if (end > bytes.length) break;
      frames.push(bytes.subarray(at, end));
      at = end;
    }
    this.rest = bytes.subarray(at);
    return frames;
  }
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the schema above is the type
type Fields = Record<string, any>;

function plain(type: protobuf.Type, bytes: Buffer): Fields {
  return type.toObject(type.decode(bytes), PLAIN);
}

function message(fields: Fields, payload: Buffer, producerName: string, sequenceId: number): StoredMessage {
  const pairs = (fields['properties'] ?? []) as { key: string; value: string }[];
  const key = fields['partitionKey'] as string | undefined;
  const encoded = key !== undefined && fields['partitionKeyB64Encoded'] === true;
  return {
    payload: Buffer.from(payload),
    key: encoded ? Buffer.from(key, 'base64').toString('utf8') : key,
    properties: Object.fromEntries(pairs.map((pair) => [pair.key, pair.value])),
    producerName,
    sequenceId,
    eventTime: (fields['eventTime'] as number | undefined) ?? 0,
  };
}

/** CRC32C, a table and a byte at a time: speed is not the point here. */
export function crc32c(bytes: Buffer): number {
  let crc = -1;
  for (const byte of bytes) crc = (crc >>> 8) ^ CASTAGNOLI[(crc ^ byte) & 255];
  return ~crc >>> 0;
}

const CASTAGNOLI = Int32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});
