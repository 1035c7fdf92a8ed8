import { CompressionType } from '../codec/constants.js';
import { functionOf, type ImportModule, loadFirst } from '../optional-module.js';
import { type Codec, ofSize } from './codec.js';

/** The raw Snappy format, without frames. */
export function loadSnappy(importModule?: ImportModule): Promise<Codec> {
  return loadFirst(
    'SNAPPY compression',
    [
      {
        name: 'snappy',
        use: (snappy) => {
          const compress = functionOf<(input: Buffer) => Buffer>(snappy, 'compressSync');
          const decompress = functionOf<(input: Buffer, options: { asBuffer: true }) => Buffer>(
            snappy,
            'uncompressSync',
          );
          return rawFormat(compress, (input) => decompress(input, { asBuffer: true }));
        },
      },
      {
        name: 'snappyjs',
        use: (snappy) => {
          const compress = functionOf<(input: Buffer) => Buffer>(snappy, 'compress');
          const decompress = functionOf<(input: Buffer, maxLength: number) => Buffer>(snappy, 'uncompress');
          return rawFormat(compress, decompress);
        },
      },
    ],
    importModule,
  );
}

function rawFormat(
  compress: (input: Buffer) => Buffer,
  decompress: (input: Buffer, maxLength: number) => Buffer,
): Codec {
  return {
    type: CompressionType.SNAPPY,
    compress,
    decompress(input, uncompressedSize) {
      // The size stands at the beginning: memory is not taken for another one than the metadata announces.
      if (announcedSize(input) !== uncompressedSize) throw new RangeError('The Snappy block has another size');
      return ofSize(decompress(input, uncompressedSize), uncompressedSize);
    },
  };
}

function announcedSize(input: Buffer): number {
  let size = 0;
  for (let index = 0; index < Math.min(5, input.length); index += 1) {
    size += (input[index] & 0x7f) * 2 ** (7 * index);
    if (input[index] < 0x80) return size;
  }
  return -1;
}
