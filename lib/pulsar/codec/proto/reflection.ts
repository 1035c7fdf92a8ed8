/** The only user of protobufjs: encodes and decodes by the descriptor everything that is not hot. */
import protobuf from 'protobufjs/light.js';
import { RemoteProtocolError } from '../../../errors.js';
import { descriptor } from './pulsar-api-descriptor.js';

export type MessageName =
  'BaseCommand' | 'MessageMetadata' | 'SingleMessageMetadata' | 'BrokerEntryMetadata' | 'MessageIdData';

const root = protobuf.Root.fromJSON(descriptor as protobuf.INamespace).resolveAll();
const types: Record<MessageName, protobuf.Type> = {
  BaseCommand: root.lookupType('pulsar.proto.BaseCommand'),
  MessageMetadata: root.lookupType('pulsar.proto.MessageMetadata'),
  SingleMessageMetadata: root.lookupType('pulsar.proto.SingleMessageMetadata'),
  BrokerEntryMetadata: root.lookupType('pulsar.proto.BrokerEntryMetadata'),
  MessageIdData: root.lookupType('pulsar.proto.MessageIdData'),
};

/** Numbers may be negative: -1 is written as 2^64-1. */
export function encodeProto(name: MessageName, value: object): Uint8Array {
  return types[name].encode(value).finish();
}

/**
 * A plain object with the fields that were on the wire as own properties (an absent `error` is not UnknownError), lists
 * always there, 64-bit numbers as numbers with 2^64-1 as -1. Bytes are views of the input.
 *
 * @throws RemoteProtocolError if the bytes are not such a message
 */
export function decodeProto(name: MessageName, bytes: Uint8Array): unknown {
  const type = types[name];
  try {
    return markUnset(type.toObject(type.decode(bytes), { longs: Number, arrays: true }));
  } catch (error) {
    throw new RemoteProtocolError(`Malformed ${name} from the broker`, 0, { cause: error });
  }
}

const UNSET = 2 ** 64;

function markUnset<T>(value: T): T {
  for (const key in value) {
    const field = value[key];
    if (field === UNSET) (value as Record<string, unknown>)[key] = -1;
    else if (typeof field === 'object' && field !== null && !ArrayBuffer.isView(field)) markUnset(field);
  }
  return value;
}
