/** SEND_RECEIPT and MESSAGE read in place: one of them comes with every message. */
import { type MessageCommand, type MessageIdData, type SendReceipt } from './command-types.js';
import { malformed } from './malformed.js';
import { ProtoCursor } from './proto-cursor.js';

/** `BaseCommand` bytes of a SEND_RECEIPT. */
export function decodeSendReceipt(buffer: Buffer, start: number, end: number): SendReceipt {
  const cursor = new ProtoCursor(buffer, start, end);
  enter(cursor, TAG_SEND_RECEIPT);
  let producerId = UNSET;
  let sequenceId = UNSET;
  let highestSequenceId = 0;
  let ledgerId = -1;
  let entryId = -1;
  for (let tag = cursor.tag(); tag !== 0; tag = cursor.tag()) {
    if (tag === varintField(1)) producerId = cursor.varint();
    else if (tag === varintField(2)) sequenceId = cursor.varint();
    else if (tag === varintField(4)) highestSequenceId = cursor.varint();
    else if (tag === bytesField(3)) {
      const outer = cursor.end;
      cursor.end = cursor.limit();
      for (let inner = cursor.tag(); inner !== 0; inner = cursor.tag()) {
        if (inner === varintField(1)) ledgerId = cursor.varint();
        else if (inner === varintField(2)) entryId = cursor.varint();
        else cursor.skip(inner);
      }
      cursor.end = outer;
    } else cursor.skip(tag);
  }
  if (producerId === UNSET || sequenceId === UNSET) throw malformed('SEND_RECEIPT without its ids');
  return { type: 'sendReceipt', producerId, sequenceId, highestSequenceId, ledgerId, entryId };
}

/** `BaseCommand` bytes of a MESSAGE; what follows up to `frameEnd` is its entry. */
export function decodeMessageCommand(buffer: Buffer, start: number, end: number, frameEnd: number): MessageCommand {
  const cursor = new ProtoCursor(buffer, start, end);
  enter(cursor, TAG_MESSAGE);
  let consumerId = UNSET;
  let messageId: MessageIdData | undefined;
  let redeliveryCount = 0;
  let consumerEpoch: number | undefined;
  let ackSet: bigint[] | undefined;
  for (let tag = cursor.tag(); tag !== 0; tag = cursor.tag()) {
    if (tag === varintField(1)) consumerId = cursor.varint();
    else if (tag === bytesField(2)) messageId = readMessageId(cursor);
    else if (tag === varintField(3)) redeliveryCount = cursor.varint();
    else if (tag === varintField(4) || tag === bytesField(4)) ackSet = readWords(cursor, tag, ackSet);
    else if (tag === varintField(5)) consumerEpoch = cursor.varint();
    else cursor.skip(tag);
  }
  if (consumerId === UNSET || messageId === undefined) throw malformed('MESSAGE without its ids');
  return {
    type: 'message',
    consumerId,
    messageId,
    redeliveryCount,
    ...(ackSet !== undefined && { ackSet }),
    ...(consumerEpoch !== undefined && { consumerEpoch }),
    headersAndPayload: buffer.subarray(end, frameEnd),
  };
}

/** No number on the wire reads as this one. */
const UNSET = -Infinity;

const varintField = (number: number): number => number << 3;
const bytesField = (number: number): number => (number << 3) | 2;
const TAG_TYPE = varintField(1);
const TAG_SEND_RECEIPT = bytesField(7);
const TAG_MESSAGE = bytesField(9);

/** Narrows the cursor to the command inside its BaseCommand. */
function enter(cursor: ProtoCursor, command: number): void {
  for (let tag = cursor.tag(); tag !== 0; tag = cursor.tag()) {
    if (tag === command) {
      cursor.end = cursor.limit();
      return;
    }
    if (tag === TAG_TYPE) cursor.varint();
    else cursor.skip(tag);
  }
  throw malformed('command without its fields');
}

function readMessageId(cursor: ProtoCursor): MessageIdData {
  const outer = cursor.end;
  cursor.end = cursor.limit();
  let ledgerId = UNSET;
  let entryId = UNSET;
  let partition = -1;
  let batchIndex = -1;
  for (let tag = cursor.tag(); tag !== 0; tag = cursor.tag()) {
    if (tag === varintField(1)) ledgerId = cursor.varint();
    else if (tag === varintField(2)) entryId = cursor.varint();
    else if (tag === varintField(3)) partition = cursor.varint() | 0;
    else if (tag === varintField(4)) batchIndex = cursor.varint() | 0;
    else cursor.skip(tag);
  }
  cursor.end = outer;
  if (ledgerId === UNSET || entryId === UNSET) throw malformed('message id without ledger or entry');
  return { ledgerId, entryId, partition, batchIndex };
}

function readWords(cursor: ProtoCursor, tag: number, words: bigint[] = []): bigint[] {
  if ((tag & 7) === 0) words.push(cursor.varint64());
  else for (const end = cursor.limit(); cursor.at < end;) words.push(cursor.varint64());
  return words;
}
