/** Writes protobuf fields into a buffer that grows: the hot messages, without an object for each field. */

export class ProtoWriter {
  buffer: Buffer;
  /** Where the next byte goes. */
  at: number;

  /** @param start bytes to leave free at the front */
  constructor(capacity: number, start = 0) {
    this.buffer = Buffer.allocUnsafeSlow(Math.max(capacity, start + 64));
    this.at = start;
  }

  /** Makes room for `bytes` more. */
  reserve(bytes: number): void {
    if (this.at + bytes > this.buffer.length) this.#grow(bytes);
  }

  /** A varint field; the number may be up to 2^53 or negative (written as 64 bits in two's complement). */
  number(tag: number, value: number): void {
    this.reserve(20);
    let at = writeVarint(this.buffer, this.at, tag);
    at = writeVarint(this.buffer, at, value);
    this.at = at;
  }

  flag(tag: number): void {
    this.number(tag, 1);
  }

  bytes(tag: number, value: Uint8Array): void {
    this.reserve(20 + value.length);
    let at = writeVarint(this.buffer, this.at, tag);
    at = writeVarint(this.buffer, at, value.length);
    this.buffer.set(value, at);
    this.at = at + value.length;
  }

  string(tag: number, value: string): void {
    this.reserve(20 + value.length * 3);
    const at = writeVarint(this.buffer, this.at, tag);
    this.at = writeString(this.buffer, at, value);
  }

  /** A `KeyValue` submessage. */
  keyValue(tag: number, key: string, value: string): void {
    this.reserve(40 + (key.length + value.length) * 3);
    const { buffer } = this;
    const start = writeVarint(buffer, this.at, tag);
    // Its length takes one byte unless it is long: written there, and moved in the rare case.
    let at = start + 1;
    buffer[at] = 0x0a;
    at = writeString(buffer, at + 1, key);
    buffer[at] = 0x12;
    at = writeString(buffer, at + 1, value);
    const length = at - start - 1;
    if (length < 0x80) {
      buffer[start] = length;
      this.at = at;
    } else {
      const shift = varintSize(length) - 1;
      buffer.copyWithin(start + 1 + shift, start + 1, at);
      writeVarint(buffer, start, length);
      this.at = at + shift;
    }
  }

  #grow(bytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(this.buffer.length * 2, this.at + bytes));
    this.buffer.copy(grown, 0, 0, this.at);
    this.buffer = grown;
  }
}

export function varintSize(value: number): number {
  if (value < 0) return 10;
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1;
  return size;
}

/** Gives the place after the number. */
export function writeVarint(buffer: Uint8Array, at: number, value: number): number {
  if (value < 0) return writeNegative(buffer, at, value);
  let rest = value;
  while (rest > 0x7fffffff) {
    buffer[at++] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
  }
  while (rest > 0x7f) {
    buffer[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  buffer[at] = rest;
  return at + 1;
}

function writeNegative(buffer: Uint8Array, at: number, value: number): number {
  let rest = BigInt.asUintN(64, BigInt(value));
  for (let index = 0; index < 9; index += 1) {
    buffer[at + index] = Number(rest & 0x7fn) | 0x80;
    rest >>= 7n;
  }
  buffer[at + 9] = Number(rest);
  return at + 10;
}

/** Length and UTF-8 bytes; the buffer has room for three bytes a character. */
function writeString(buffer: Buffer, at: number, value: string): number {
  const { length } = value;
  if (length < SHORT) {
    // Most keys and names are short and ASCII: a loop beats the call into the runtime.
    let index = 0;
    for (; index < length; index += 1) {
      const code = value.charCodeAt(index);
      if (code > 0x7f) break;
      buffer[at + 1 + index] = code;
    }
    if (index === length) {
      buffer[at] = length;
      return at + 1 + length;
    }
    buffer[at] = buffer.write(value, at + 1, 'utf8');
    return at + 1 + buffer[at];
  }
  const bytes = Buffer.byteLength(value, 'utf8');
  const start = writeVarint(buffer, at, bytes);
  buffer.write(value, start, 'utf8');
  return start + bytes;
}

/** Characters whose UTF-8 length is below 128 in any case. */
const SHORT = 42;
