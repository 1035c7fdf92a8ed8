import { deflateSync, inflateSync } from 'node:zlib';
import { CompressionType } from '../codec/constants.js';
import { type Codec, ofSize } from './codec.js';

/** The zlib format, as Java's Deflater writes it. */
export const zlibCodec: Codec = {
  type: CompressionType.ZLIB,
  compress: (input) => deflateSync(input),
  decompress: (input, uncompressedSize) =>
    ofSize(inflateSync(input, { maxOutputLength: Math.max(1, uncompressedSize) }), uncompressedSize),
};
