import { type Compression } from '../codec/send-types.js';

/** A compression both ways, synchronous. What it gives is a buffer that nobody else holds. */
export interface Codec extends Compression {
  /**
   * @param uncompressedSize as the metadata says; the result has exactly this many bytes
   * @throws if the input is damaged or would give another size
   */
  decompress(input: Buffer, uncompressedSize: number): Buffer;
}

/** @throws RangeError if the size is another one than announced */
export function ofSize(output: Uint8Array, expected: number): Buffer {
  if (output.length !== expected) throw new RangeError(`${output.length} bytes after decompression, not ${expected}`);
  return Buffer.from(output.buffer, output.byteOffset, output.length);
}
