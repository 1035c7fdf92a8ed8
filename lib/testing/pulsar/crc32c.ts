/**
 * CRC-32C (Castagnoli), one table, one byte at a time: slow, plain, and on purpose not the product's.
 *
 * @returns an unsigned 32-bit number; of "123456789" it is 0xe3069283
 */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffff_ffff) >>> 0;
}

const POLYNOMIAL = 0x82f6_3b78;
const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1;
  return value;
});
