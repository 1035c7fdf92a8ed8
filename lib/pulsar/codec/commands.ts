/** Commands without a payload to and from bytes: `[total u32][length u32][BaseCommand]`. */
import { COMMAND_CODES, type CommandName } from './command-codes.js';
import { type ClientCommand, type MessageIdData, type ServerCommand } from './command-types.js';
import { decodeMessageCommand, decodeSendReceipt } from './hot-commands.js';
import { malformed } from './malformed.js';
import { decodeProto, encodeProto } from './proto/reflection.js';
import { ProtoCursor } from './proto-cursor.js';

/** A whole frame. */
export function encodeCommand(command: ClientCommand): Buffer {
  const { type } = command;
  const body = encodeProto('BaseCommand', { type: COMMAND_CODES[type], [type]: withAckSets(command) });
  const frame = Buffer.allocUnsafe(8 + body.length);
  frame.writeUInt32BE(4 + body.length, 0);
  frame.writeUInt32BE(body.length, 4);
  frame.set(body, 8);
  return frame;
}

/**
 * The `BaseCommand` in `[start, end)`; `[end, frameEnd)` is what follows it (only MESSAGE has something there).
 *
 * @throws RemoteProtocolError if the bytes are not a command
 */
export function decodeCommand(buffer: Buffer, start = 0, end = buffer.length, frameEnd = end): ServerCommand {
  const code = commandCode(buffer, start, end);
  if (code === COMMAND_CODES.sendReceipt) return decodeSendReceipt(buffer, start, end);
  if (code === COMMAND_CODES.message) return decodeMessageCommand(buffer, start, end, frameEnd);
  const type = SERVER_COMMANDS.get(code);
  if (type === undefined) return { type: 'unknown', code };
  const command = decodeProto('BaseCommand', buffer.subarray(start, end)) as Record<string, object | undefined>;
  const fields = command[type];
  if (fields === undefined) throw malformed(`${type} without its fields`);
  return { ...fields, type } as ServerCommand;
}

/** What a broker sends; everything else is answered with `unknown`. */
const SERVER_COMMANDS = new Map<number, CommandName>(
  (
    [
      'connected',
      'authChallenge',
      'ping',
      'pong',
      'success',
      'error',
      'partitionMetadataResponse',
      'lookupTopicResponse',
      'topicMigrated',
      'producerSuccess',
      'sendError',
      'closeProducer',
      'closeConsumer',
      'getOrCreateSchemaResponse',
      'getSchemaResponse',
      'getTopicsOfNamespaceResponse',
      'ackResponse',
      'activeConsumerChange',
      'reachedEndOfTopic',
      'getLastMessageIdResponse',
    ] as const satisfies CommandName[]
  ).map((name) => [COMMAND_CODES[name], name]),
);

function commandCode(buffer: Buffer, start: number, end: number): number {
  const cursor = new ProtoCursor(buffer, start, end);
  for (let tag = cursor.tag(); tag !== 0; tag = cursor.tag()) {
    if (tag === 1 << 3) return cursor.varint();
    cursor.skip(tag);
  }
  throw malformed('command without a type');
}

/** protobufjs takes 64-bit words as two halves; a number would lose bits. */
function withAckSets(command: ClientCommand): object {
  if (command.type !== 'ack' || !command.messageId.some((id) => id.ackSet !== undefined)) return command;
  return { ...command, messageId: command.messageId.map(withAckSet) };
}

function withAckSet(id: MessageIdData): object {
  if (id.ackSet === undefined) return id;
  return {
    ...id,
    ackSet: id.ackSet.map((word) => ({
      low: Number(BigInt.asIntN(32, word)),
      high: Number(BigInt.asIntN(32, word >> 32n)),
      unsigned: false,
    })),
  };
}
