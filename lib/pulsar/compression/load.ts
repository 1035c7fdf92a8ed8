import { type ImportModule } from '../optional-module.js';
import { type Codec } from './codec.js';
import { loadLz4 } from './lz4.js';
import { loadSnappy } from './snappy.js';
import { zlibCodec } from './zlib.js';
import { loadZstd } from './zstd.js';

export { type Codec } from './codec.js';

export type CompressionCodecName = 'lz4' | 'zlib' | 'zstd' | 'snappy';

/**
 * What compresses for a producer, ready for use. ZLIB is a part of Node, and so is ZSTD from 22.15 on; the others are
 * optional peer dependencies, of which a native one goes before one that runs anywhere:
 *
 * | | |
 * |---|---|
 * | `lz4` | `lz4-napi`, `lz4-wasm-nodejs` |
 * | `snappy` | `snappy`, `snappyjs` |
 * | `zstd` | Node, `@bokuweb/zstd-wasm` |
 *
 * @throws TransportError ERR_DEPENDENCY that names what to install
 */
export async function loadCompression(name: CompressionCodecName, importModule?: ImportModule): Promise<Codec> {
  switch (name) {
    case 'lz4':
      return loadLz4(importModule);
    case 'zlib':
      return zlibCodec;
    case 'zstd':
      return loadZstd(importModule);
    case 'snappy':
      return loadSnappy(importModule);
  }
}
