import * as zlib from 'node:zlib';
import { CompressionType } from '../codec/constants.js';
import { functionOf, type ImportModule, loadFirst } from '../optional-module.js';
import { type Codec, ofSize } from './codec.js';

type NodeZstd = (input: Buffer, options?: { maxOutputLength?: number }) => Buffer;
type Transform = (input: Uint8Array) => Uint8Array;

/** One Zstandard frame, at the library's default level 3. */
export async function loadZstd(importModule?: ImportModule): Promise<Codec> {
  // In Node from 22.15 and 23.8 on.
  const { zstdCompressSync, zstdDecompressSync } = zlib as {
    zstdCompressSync?: NodeZstd;
    zstdDecompressSync?: NodeZstd;
  };
  if (zstdCompressSync !== undefined && zstdDecompressSync !== undefined && importModule === undefined) {
    return {
      type: CompressionType.ZSTD,
      compress: (input) => zstdCompressSync(input),
      decompress: (input, size) => ofSize(zstdDecompressSync(input, { maxOutputLength: Math.max(1, size) }), size),
    };
  }
  return loadFirst(
    'ZSTD compression before Node 22.15',
    [
      {
        name: '@bokuweb/zstd-wasm',
        use: async (zstd) => {
          await functionOf<() => Promise<void>>(zstd, 'init')();
          const compress = functionOf<Transform>(zstd, 'compress');
          const decompress = functionOf<(input: Uint8Array, options: { defaultHeapSize: number }) => Uint8Array>(
            zstd,
            'decompress',
          );
          return {
            type: CompressionType.ZSTD,
            compress: (input: Buffer) => ofLength(compress(input)),
            decompress(input: Buffer, size: number): Buffer {
              // The library takes as much memory as the frame says, whatever that is.
              const announced = announcedSize(input);
              if (announced !== undefined && announced !== size) throw new RangeError('The frame has another size');
              return ofSize(decompress(input, { defaultHeapSize: Math.max(1, size) }), size);
            },
          };
        },
      },
    ],
    importModule,
  );
}

const ofLength = (output: Uint8Array): Buffer => ofSize(output, output.length);

/** The size in the frame's header, which may have none (RFC 8878, 3.1.1.1). */
function announcedSize(input: Buffer): number | undefined {
  if (input.length < 6 || input.readUInt32LE(0) !== 0xfd2fb528) throw new RangeError('No Zstandard frame');
  const descriptor = input[4];
  const single = (descriptor & 0x20) !== 0;
  const at = 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3];
  const width = [single ? 1 : 0, 2, 4, 8][descriptor >> 6];
  if (width === 0) return undefined;
  if (at + width > input.length) throw new RangeError('A Zstandard frame that ends in its header');
  if (width === 8) return Number(input.readBigUInt64LE(at));
  return input.readUIntLE(at, width) + (width === 2 ? 256 : 0);
}
