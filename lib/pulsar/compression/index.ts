export { type Codec, type CompressionCodecName, loadCompression } from './load.js';
