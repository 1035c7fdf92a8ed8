import { isUtf8 } from 'node:buffer';
import { LocalProtocolError } from '../../errors.js';
import { malformed } from './malformed.js';

/** Reads a UTF-8 string [MQTT5 1.5.4]: valid UTF-8 (no surrogates), no U+0000; a leading U+FEFF is kept. */
export function decodeString(buffer: Buffer, start: number, end: number, what: string): string {
  let ascii = true;
  for (let at = start; at < end; at += 1) {
    const byte = buffer[at];
    if (byte === 0) throw malformed(`U+0000 in ${what}`);
    if (byte >= 0x80) ascii = false;
  }
  if (ascii) return buffer.toString('latin1', start, end);
  if (!isUtf8(buffer.subarray(start, end))) throw malformed(`${what} is not UTF-8`);
  return buffer.toString('utf8', start, end);
}

// With the u flag a surrogate matches only where it has no partner.
const NOT_ALLOWED = /[\u0000\uD800-\uDFFF]/u;

/** The byte length of a string that may leave: at most 65,535 bytes, no U+0000, no lone surrogate. */
export function encodedStringLength(value: string, what: string): number {
  if (NOT_ALLOWED.test(value))
    throw new LocalProtocolError(`${what} holds U+0000 or half of a surrogate pair [MQTT5 1.5.4]`);
  const length = Buffer.byteLength(value);
  if (length > 0xffff) throw new LocalProtocolError(`${what} has ${length} bytes of UTF-8, the limit is 65,535`);
  return length;
}

/** Writes length and bytes; returns the offset behind them. `length` comes from {@link encodedStringLength}. */
export function writeString(target: Buffer, at: number, value: string, length: number): number {
  target[at] = length >> 8;
  target[at + 1] = length & 0xff;
  if (length === value.length) target.write(value, at + 2, length, 'latin1');
  else target.write(value, at + 2, length, 'utf8');
  return at + 2 + length;
}

/** Bytes of a variable byte integer [MQTT5 1.5.5]. */
export const variableLength = (value: number): 1 | 2 | 3 | 4 =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4;

export const MAX_VARIABLE_INTEGER = 268_435_455;

export function writeVariable(target: Buffer, at: number, value: number): number {
  let rest = value;
  let to = at;
  while (rest >= 0x80) {
    target[to++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[to++] = rest;
  return to;
}
