import { isUtf8 } from 'node:buffer';
import { LocalProtocolError } from '../../errors.js';
import { malformed } from './malformed.js';

/** Reads a UTF-8 string [MQTT5 1.5.4]: valid UTF-8 (no surrogates), no U+0000; a leading U+FEFF is kept. */
export function decodeString(buffer: Buffer, start: number, end: number, what: string): string {
  let seen = 0;
  for (let at = start; at < end; at += 1) {
    const byte = buffer[at];
    if (byte === 0) throw malformed(`U+0000 in ${what}`);
    seen |= byte;
  }
  if (seen < 0x80) return buffer.toString('latin1', start, end);
  if (!isUtf8(buffer.subarray(start, end))) throw malformed(`${what} is not UTF-8`);
  return buffer.toString('utf8', start, end);
}

// With the u flag a surrogate matches only where it has no partner.
const NOT_ALLOWED = /[\u0000\uD800-\uDFFF]/u;
/** Up to this length a loop in JavaScript is faster than the call into native code. */
const SHORT = 64;

/** The byte length of a string that may leave: at most 65,535 bytes, no U+0000, no lone surrogate. */
export function encodedStringLength(value: string, what: string): number {
  if (typeof value !== 'string') throw new LocalProtocolError(`${what} must be a string, received ${typeof value}`);
  if (value.length <= SHORT && isPlain(value)) return value.length;
  if (NOT_ALLOWED.test(value))
    throw new LocalProtocolError(`${what} holds U+0000 or half of a surrogate pair [MQTT5 1.5.4]`);
  const length = Buffer.byteLength(value);
  if (length > 0xffff) throw new LocalProtocolError(`${what} has ${length} bytes of UTF-8, the limit is 65,535`);
  return length;
}

/** ASCII without U+0000. */
function isPlain(value: string): boolean {
  for (let index = 0; index < value.length; index += 1) {
    const code = value.charCodeAt(index);
    if (code === 0 || code >= 0x80) return false;
  }
  return true;
}

/** Writes length and bytes; returns the offset behind them. `length` comes from {@link encodedStringLength}. */
export function writeString(target: Buffer, at: number, value: string, length: number): number {
  target[at] = length >> 8;
  target[at + 1] = length & 0xff;
  const start = at + 2;
  if (length !== value.length) target.write(value, start, length, 'utf8');
  else if (length > SHORT) target.write(value, start, length, 'latin1');
  else for (let index = 0; index < length; index += 1) target[start + index] = value.charCodeAt(index);
  return start + length;
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

/** A variable byte integer at `at`, in its shortest form; `next` is the offset behind it. */
export function readVariable(buffer: Buffer, at: number, end: number, out: { next: number }, what: string): number {
  let value = 0;
  for (let index = 0; index < 4; index += 1) {
    if (at + index >= end) throw malformed(`${what} is cut off`);
    const byte = buffer[at + index];
    value |= (byte & 0x7f) << (7 * index);
    if (byte < 0x80) {
      if (index > 0 && byte === 0) throw malformed(`${what} is not in its shortest form [MQTT-1.5.5-1]`);
      out.next = at + index + 1;
      return value;
    }
  }
  throw malformed(`${what} has more than four bytes`);
}
