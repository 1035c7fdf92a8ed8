import { TransportError } from '../errors.js';

/**
 * Where the broker stored a message: ledger and entry, the partition (-1 without partitions) and, for one of a batch, its
 * index. Wire form: protobuf `MessageIdData`, as the Java and Go clients write it with `toByteArray()` / `Serialize()`.
 */
export class MessageId {
  constructor(
    readonly ledgerId: number,
    readonly entryId: number,
    /** -1: the topic has no partitions. */
    readonly partition: number = -1,
    /** -1: not part of a batch. */
    readonly batchIndex: number = -1,
    /** 0: not part of a batch. */
    readonly batchSize: number = 0,
    /** Of a message sent in chunks: where its first chunk is; this id is that of the last one. */
    readonly firstChunk: MessageId | undefined = undefined,
  ) {}

  /** `ledger:entry:partition`, and `:batchIndex` for one of a batch: the form of Pulsar's own tools. */
  toString(): string {
    const id = `${this.ledgerId}:${this.entryId}:${this.partition}`;
    return this.batchIndex < 0 ? id : `${id}:${this.batchIndex}`;
  }

  equals(other: MessageId): boolean {
    return (
      this.ledgerId === other.ledgerId &&
      this.entryId === other.entryId &&
      this.partition === other.partition &&
      this.batchIndex === other.batchIndex
    );
  }

  toBytes(): Buffer {
    return Buffer.from(encode(this));
  }

  /** @throws TransportError ERR_SERIALIZATION if the bytes are no `MessageIdData` */
  static fromBytes(bytes: Uint8Array): MessageId {
    return decode(bytes);
  }
}

/** Field numbers of `MessageIdData` in PulsarApi.proto. */
const LEDGER = 1;
const ENTRY = 2;
const PARTITION = 3;
const BATCH_INDEX = 4;
const BATCH_SIZE = 6;
const FIRST_CHUNK = 7;

function encode(id: MessageId): number[] {
  const out: number[] = [];
  varintField(out, LEDGER, id.ledgerId);
  varintField(out, ENTRY, id.entryId);
  if (id.partition >= 0) varintField(out, PARTITION, id.partition);
  if (id.batchIndex >= 0) varintField(out, BATCH_INDEX, id.batchIndex);
  if (id.batchSize > 0) varintField(out, BATCH_SIZE, id.batchSize);
  if (id.firstChunk !== undefined) {
    const inner = encode(id.firstChunk);
    varint(out, BigInt((FIRST_CHUNK << 3) | 2));
    varint(out, BigInt(inner.length));
    out.push(...inner);
  }
  return out;
}

function varintField(out: number[], field: number, value: number): void {
  varint(out, BigInt(field << 3));
  varint(out, BigInt.asUintN(64, BigInt(value)));
}

function varint(out: number[], value: bigint): void {
  let rest = value;
  while (rest > 0x7fn) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  out.push(Number(rest));
}

function decode(bytes: Uint8Array): MessageId {
  const reader = new VarintReader(bytes);
  const fields = new Map<number, number>();
  let firstChunk: MessageId | undefined;
  while (!reader.done) {
    const tag = reader.number();
    const field = tag >>> 3;
    switch (tag & 7) {
      case 0:
        fields.set(field, reader.number());
        break;
      case 2: {
        const inner = reader.bytes(reader.number());
        if (field === FIRST_CHUNK) firstChunk = decode(inner);
        break;
      }
      default:
        throw malformed(`wire type ${tag & 7}`);
    }
  }
  const ledgerId = fields.get(LEDGER);
  const entryId = fields.get(ENTRY);
  if (ledgerId === undefined || entryId === undefined) throw malformed('ledger or entry is missing');
  return new MessageId(
    ledgerId,
    entryId,
    fields.get(PARTITION) ?? -1,
    fields.get(BATCH_INDEX) ?? -1,
    fields.get(BATCH_SIZE) ?? 0,
    firstChunk,
  );
}

class VarintReader {
  private position = 0;
  constructor(private readonly source: Uint8Array) {}

  get done(): boolean {
    return this.position >= this.source.length;
  }

  /** A varint as a signed 64-bit number (Pulsar's "none" is -1). */
  number(): number {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.source[this.position++];
      if (byte === undefined) throw malformed('it ends within a number');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(BigInt.asIntN(64, value));
    }
    throw malformed('a number of more than ten bytes');
  }

  bytes(length: number): Uint8Array {
    const end = this.position + length;
    if (length < 0 || end > this.source.length) throw malformed('it ends within a field');
    const part = this.source.subarray(this.position, end);
    this.position = end;
    return part;
  }
}

function malformed(detail: string): TransportError {
  return new TransportError('ERR_SERIALIZATION', `Not the bytes of a Pulsar message id: ${detail}`);
}
