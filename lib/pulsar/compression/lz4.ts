import { CompressionType } from '../codec/constants.js';
import { functionOf, type ImportModule, loadFirst } from '../optional-module.js';
import { type Codec, ofSize } from './codec.js';

type Transform = (input: Uint8Array) => Uint8Array;

/**
 * Pulsar takes the bare LZ4 block, its size is in the metadata. Both packages are lz4_flex, which puts the size before the
 * block as four bytes, least significant first.
 */
export function loadLz4(importModule?: ImportModule): Promise<Codec> {
  return loadFirst(
    'LZ4 compression',
    [
      {
        name: 'lz4-napi',
        use: (lz4) =>
          sizedBlocks(functionOf<Transform>(lz4, 'compressSync'), functionOf<Transform>(lz4, 'uncompressSync')),
      },
      {
        name: 'lz4-wasm-nodejs',
        use: (lz4) => sizedBlocks(functionOf<Transform>(lz4, 'compress'), functionOf<Transform>(lz4, 'decompress')),
      },
    ],
    importModule,
  );
}

const SIZE_BYTES = 4;

function sizedBlocks(compress: Transform, decompress: Transform): Codec {
  return {
    type: CompressionType.LZ4,
    compress(input) {
      const output = compress(input);
      return Buffer.from(output.buffer, output.byteOffset + SIZE_BYTES, output.length - SIZE_BYTES);
    },
    decompress(input, uncompressedSize) {
      const sized = Buffer.allocUnsafe(SIZE_BYTES + input.length);
      sized.writeUInt32LE(uncompressedSize, 0);
      input.copy(sized, SIZE_BYTES);
      return ofSize(decompress(sized), uncompressedSize);
    },
  };
}
