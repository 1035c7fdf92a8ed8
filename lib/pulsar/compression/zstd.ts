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
          const compress = functionOf<Transform>(zstd, 'compress');
          await startOnce(zstd, compress);
          const decompress = functionOf<(input: Uint8Array, options: { defaultHeapSize: number }) => Uint8Array>(
            zstd,
            'decompress',
          );
          return {
            type: CompressionType.ZSTD,
            compress: (input: Buffer) => checkedFrame(compress(input)),
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

/** Starts under way or done, by the package's exports. */
const starts = new WeakMap<object, Promise<void>>();

/**
 * A second start of the WebAssembly module replaces the memory under those who use it, and from then on zeros come out
 * instead of frames: one start for the whole process, and none if somebody else did it.
 */
function startOnce(zstd: Record<string, unknown>, compress: Transform): Promise<void> {
  let start = starts.get(zstd);
  if (start === undefined) {
    start = works(compress) ? Promise.resolve() : functionOf<() => Promise<void>>(zstd, 'init')();
    starts.set(zstd, start);
  }
  return start;
}

function works(compress: Transform): boolean {
  try {
    checkedFrame(compress(Buffer.of(1)));
    return true;
  } catch {
    return false;
  }
}

/** What is no frame must not be stored: no consumer could read it. */
function checkedFrame(output: Uint8Array): Buffer {
  const frame = ofSize(output, output.length);
  if (frame.length < 4 || frame.readUInt32LE(0) !== MAGIC) throw new Error('The ZSTD library gave no frame');
  return frame;
}

const MAGIC = 0xfd2fb528;

/** The size in the frame's header, which may have none (RFC 8878, 3.1.1.1). */
function announcedSize(input: Buffer): number | undefined {
  if (input.length < 6 || input.readUInt32LE(0) !== MAGIC) throw new RangeError('No Zstandard frame');
  const descriptor = input[4];
  const single = (descriptor & 0x20) !== 0;
  const at = 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3];
  const width = [single ? 1 : 0, 2, 4, 8][descriptor >> 6];
  if (width === 0) return undefined;
  if (at + width > input.length) throw new RangeError('A Zstandard frame that ends in its header');
  if (width === 8) return Number(input.readBigUInt64LE(at));
  return input.readUIntLE(at, width) + (width === 2 ? 256 : 0);
}
