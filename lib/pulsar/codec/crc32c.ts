/** CRC-32C (Castagnoli), the checksum of Pulsar frames: slicing-by-8, or a native function for what is worth its call. */

/** Such as `crc32c` of `@node-rs/crc32`. */
export type NativeCrc32c = (bytes: Buffer) => number;

/** The checksum of `buffer[start, end)` as an unsigned 32-bit number; `123456789` gives 0xe3069283. */
export function crc32c(buffer: Buffer, start = 0, end = buffer.length): number {
  if (native !== undefined && end - start >= NATIVE_FROM) return native(buffer.subarray(start, end)) >>> 0;
  let crc = -1;
  let at = start;
  for (const last = end - 8; at <= last; at += 8) {
    crc ^= buffer[at] | (buffer[at + 1] << 8) | (buffer[at + 2] << 16) | (buffer[at + 3] << 24);
    crc =
      TABLE[0x700 | (crc & 0xff)] ^
      TABLE[0x600 | ((crc >>> 8) & 0xff)] ^
      TABLE[0x500 | ((crc >>> 16) & 0xff)] ^
      TABLE[0x400 | (crc >>> 24)] ^
      TABLE[0x300 | buffer[at + 4]] ^
      TABLE[0x200 | buffer[at + 5]] ^
      TABLE[0x100 | buffer[at + 6]] ^
      TABLE[buffer[at + 7]];
  }
  for (; at < end; at += 1) crc = TABLE[(crc ^ buffer[at]) & 0xff] ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** For the whole process; `undefined` goes back to ours. A function that gives another checksum is refused. */
export function setNativeCrc32c(candidate: NativeCrc32c | undefined): void {
  if (candidate !== undefined && candidate(Buffer.from('123456789')) >>> 0 !== 0xe3069283) {
    throw new RangeError('The native function does not compute CRC-32C');
  }
  native = candidate;
}

/** Below, the call costs more than it saves. */
const NATIVE_FROM = 300;
const POLYNOMIAL = 0x82f63b78;

let native: NativeCrc32c | undefined;

/** Eight tables of 256: table `k` is the effect of a byte that `k` further bytes follow. */
const TABLE = new Int32Array(8 * 256);
for (let byte = 0; byte < 256; byte += 1) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  TABLE[byte] = crc;
}
for (let index = 256; index < TABLE.length; index += 1) {
  const before = TABLE[index - 256];
  TABLE[index] = (before >>> 8) ^ TABLE[before & 0xff];
}
