/** protobufjs over the descriptor of Pulsar's .proto: bytes to plain objects and back. */
import protobuf from 'protobufjs';
import { descriptor } from '../../pulsar/codec/proto/pulsar-api-descriptor.js';

const root = protobuf.Root.fromJSON(descriptor as protobuf.INamespace);
const types = {
  command: root.lookupType('pulsar.proto.BaseCommand'),
  metadata: root.lookupType('pulsar.proto.MessageMetadata'),
  single: root.lookupType('pulsar.proto.SingleMessageMetadata'),
} as const;

/** Error name -> number, as in the .proto. */
export const ServerError = root.lookupEnum('pulsar.proto.ServerError').values as Readonly<
  Record<ServerErrorName, number>
>;
export const CompressionType = root.lookupEnum('pulsar.proto.CompressionType').values as Readonly<
  Record<'NONE' | 'LZ4' | 'ZLIB' | 'ZSTD' | 'SNAPPY', number>
>;

export type ServerErrorName =
  | 'UnknownError'
  | 'MetadataError'
  | 'PersistenceError'
  | 'AuthenticationError'
  | 'AuthorizationError'
  | 'ConsumerBusy'
  | 'ServiceNotReady'
  | 'ProducerBlockedQuotaExceededError'
  | 'ProducerBlockedQuotaExceededException'
  | 'ChecksumError'
  | 'UnsupportedVersionError'
  | 'TopicNotFound'
  | 'SubscriptionNotFound'
  | 'ConsumerNotFound'
  | 'TooManyRequests'
  | 'TopicTerminatedError'
  | 'ProducerBusy'
  | 'InvalidTopicName'
  | 'IncompatibleSchema'
  | 'ConsumerAssignError'
  | 'NotAllowedError'
  | 'ProducerFenced';

/**
 * Every unsigned 64-bit number of the protocol as a number; 2^64-1 and its neighbours read as negative, since the broker
 * uses it as -1. `ackSet` words stay exact, as bigint.
 */
export type Plain = Record<string, unknown>;

/** Name of the command (its field in BaseCommand, for example `sendReceipt`) and its body. */
export interface DecodedCommand {
  readonly type: string;
  readonly body: Plain;
}

/** @throws Error if the bytes are no BaseCommand, or its type and body do not belong together */
export function decodeCommand(bytes: Uint8Array): DecodedCommand {
  const message = types.command.decode(bytes) as unknown as Plain;
  const number = message['type'] as number;
  // In BaseCommand the number of a body's field is the number of its type.
  const field = types.command.fieldsById[number];
  if (field === undefined) throw new Error(`unknown command type ${number}`);
  const body = message[field.name];
  if (body === undefined || body === null) throw new Error(`command ${field.name} without its body`);
  return { type: field.name, body: plain(body) as Plain };
}

/** The bytes of a BaseCommand. `type` is the name of the body's field. */
export function encodeCommand(type: string, body: object): Buffer {
  const field = types.command.fields[type];
  if (field === undefined) throw new Error(`unknown command '${type}'`);
  const message = types.command.fromObject({ type: field.id, ...wire(types.command, { [type]: body }) });
  return Buffer.from(types.command.encode(message).finish());
}

export function decodeMetadata(bytes: Uint8Array): Plain {
  return plain(types.metadata.decode(bytes)) as Plain;
}

export function encodeMetadata(metadata: object): Buffer {
  return Buffer.from(types.metadata.encode(types.metadata.fromObject(wire(types.metadata, metadata))).finish());
}

export function decodeSingleMetadata(bytes: Uint8Array): Plain {
  return plain(types.single.decode(bytes)) as Plain;
}

/** A 64-bit number as protobufjs decodes it. */
interface Long {
  readonly low: number;
  readonly high: number;
  readonly unsigned: boolean;
}

/** Own fields only: a prototype's default would make an absent `error` read as UnknownError. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return Buffer.from(value);
  if (typeof value !== 'object' || value === null) return value;
  if (isLong(value)) return (value.high | 0) * 2 ** 32 + (value.low >>> 0);
  const result: Plain = {};
  for (const key of Object.keys(value)) {
    const field = (value as Plain)[key];
    // protobufjs gives every repeated field an empty list of its own.
    if (Array.isArray(field) && field.length === 0) continue;
    result[key] = key === 'ackSet' && Array.isArray(field) ? field.map(toBits) : plain(field);
  }
  return result;
}

function isLong(value: object): value is Long {
  return 'low' in value && 'high' in value && 'unsigned' in value;
}

function toBits(word: Long | number): bigint {
  if (typeof word === 'number') return BigInt.asUintN(64, BigInt(word));
  return (BigInt(word.high >>> 0) << 32n) | BigInt(word.low >>> 0);
}

/** Integers of 64 bits as protobufjs takes them: it has no bigint, and reads a negative number of an unsigned field as 0. */
function wire(type: protobuf.Type, body: object): Plain {
  const result: Plain = {};
  for (const [key, value] of Object.entries(body) as [string, unknown][]) {
    const field = type.fields[key];
    if (field === undefined) throw new Error(`${type.name} has no field '${key}'`);
    if (value === undefined) continue;
    result[key] = Array.isArray(value) ? value.map((one) => wireValue(field, one)) : wireValue(field, value);
  }
  return result;
}

function wireValue(field: protobuf.Field, value: unknown): unknown {
  field.resolve();
  if (field.resolvedType instanceof protobuf.Type) return wire(field.resolvedType, value as object);
  if (!field.type.endsWith('int64')) return value;
  const bits = BigInt.asUintN(64, BigInt(value as number | bigint));
  return { low: Number(bits & 0xffff_ffffn) | 0, high: Number(bits >> 32n) | 0, unsigned: false } satisfies Long;
}
