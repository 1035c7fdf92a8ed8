import { createRequire } from 'node:module';
import { type Codec, type CompressionCodecName, loadCompression } from '../../../../lib/pulsar/compression/index.js';
import { encodeSingle } from '../../../../lib/pulsar/codec/single-encoder.js';
import { openSendFrame, Random } from '../codec/support.js';

const require = createRequire(import.meta.url);

/** Loads only the packages named: the others are "not installed". */
const only =
  (...names: string[]) =>
  async (name: string): Promise<unknown> => {
    if (!names.includes(name)) throw new Error(`Cannot find package '${name}'`);
    return require(name) as unknown;
  };

const codecs: [CompressionCodecName, string, number][] = [
  ['zlib', 'node:zlib', 2],
  ['lz4', 'lz4-napi', 1],
  ['lz4', 'lz4-wasm-nodejs', 1],
  ['snappy', 'snappy', 4],
  ['snappy', 'snappyjs', 4],
  ['zstd', '@bokuweb/zstd-wasm', 3],
];

const inputs = (): Buffer[] => {
  const random = new Random(1);
  const json = JSON.stringify(Array.from({ length: 500 }, (_, id) => ({ id, temperature: random.below(40) })));
  return [Buffer.of(1), Buffer.from(json), random.bytes(5000), Buffer.alloc(300_000, 7)];
};

describe.each(codecs)('%s by %s', (name, packageName, type) => {
  let codec: Codec;

  beforeAll(async () => {
    codec = await loadCompression(name, only(packageName));
  });

  it('has the type that consumers expect', () => {
    expect(codec.type).toBe(type);
  });

  it('gives back what went in, and leaves the input alone', () => {
    for (const input of inputs()) {
      const copy = Buffer.from(input);
      const output = codec.compress(input);
      expect(codec.decompress(output, input.length).equals(copy)).toBe(true);
      expect(input.equals(copy)).toBe(true);
    }
  });

  it('makes repetitive input smaller', () => {
    expect(codec.compress(Buffer.alloc(100_000, 7)).length).toBeLessThan(6000);
  });

  it('does not share memory between results', () => {
    const first = codec.compress(Buffer.alloc(2000, 1));
    const copy = Buffer.from(first);
    for (let round = 0; round < 50; round += 1) codec.compress(Buffer.alloc(2000, round));
    expect(first.equals(copy)).toBe(true);
  });

  it('refuses damaged input and a size that is not the announced one', () => {
    const input = Buffer.from('what goes in '.repeat(50));
    const output = codec.compress(input);
    expect(() => codec.decompress(output, input.length - 1)).toThrow();
    expect(() => codec.decompress(output, input.length + 1)).toThrow();
    expect(() => codec.decompress(output.subarray(0, output.length >> 1), input.length)).toThrow();
  });

  it('puts the size before compression into the metadata', () => {
    const payload = Buffer.from('payload '.repeat(100));
    const source = { producerId: 1, producerName: 'p', publishTime: 1, compression: codec };
    const sent = openSendFrame(encodeSingle(source, { payload }, 1));
    expect(sent.metadata).toMatchObject({ compression: type, uncompressedSize: payload.length });
    expect(codec.decompress(Buffer.from(sent.payload), payload.length)).toEqual(payload);
    expect(openSendFrame(encodeSingle(source, { payload: null }, 1)).metadata.compression).toBeUndefined();
  });
});

describe('loadCompression', () => {
  // The bare formats, without the size or the frame that some libraries put around them.
  it.each([
    ['lz4', 'lz4-napi', '506162636465'],
    ['lz4', 'lz4-wasm-nodejs', '506162636465'],
    ['snappy', 'snappy', '05106162636465'],
    ['snappy', 'snappyjs', '05106162636465'],
    ['zlib', 'node:zlib', '789c4b4c4a4e49050005c801f0'],
  ] as const)('writes %s by %s as a block alone', async (name, packageName, hex) => {
    const codec = await loadCompression(name, only(packageName));
    const block = codec.compress(Buffer.from('abcde'));
    expect(block.toString('hex')).toBe(hex);
    expect(codec.decompress(Buffer.from(hex, 'hex'), 5).toString()).toBe('abcde');
  });

  it.each([
    ['lz4', 'lz4-napi', 'lz4-wasm-nodejs'],
    ['snappy', 'snappy', 'snappyjs'],
  ] as const)('gives the same format of %s with %s as with %s', async (name, native, portable) => {
    const [one, other] = await Promise.all([native, portable].map((pack) => loadCompression(name, only(pack))));
    for (const input of inputs()) {
      expect(one.decompress(other.compress(input), input.length).equals(input)).toBe(true);
      expect(other.decompress(one.compress(input), input.length).equals(input)).toBe(true);
    }
  });

  it('goes on to the next package where the first one does not load', async () => {
    const tried: string[] = [];
    const codec = await loadCompression('snappy', async (name) => {
      tried.push(name);
      return only('snappyjs')(name);
    });
    expect(tried).toEqual(['snappy', 'snappyjs']);
    expect(codec.type).toBe(4);
  });

  it.each([
    ['lz4', /LZ4.*npm install 'lz4-napi' or 'lz4-wasm-nodejs'/],
    ['snappy', /SNAPPY.*npm install 'snappy' or 'snappyjs'/],
    ['zstd', /ZSTD.*npm install '@bokuweb\/zstd-wasm'/],
  ] as const)('names the packages for %s if none is installed', async (name, message) => {
    const loading = loadCompression(name, only());
    await expect(loading).rejects.toMatchObject({ code: 'ERR_DEPENDENCY', message: expect.stringMatching(message) });
  });

  it('refuses a package that is not what its name promises', async () => {
    const loading = loadCompression('lz4', async () => ({ somethingElse: true }));
    await expect(loading).rejects.toMatchObject({ code: 'ERR_DEPENDENCY' });
  });

  it('keeps a ZSTD compressor working while and after others are loaded', async () => {
    const load = only('@bokuweb/zstd-wasm');
    const input = Buffer.from('frame '.repeat(100));
    const first = await loadCompression('zstd', load);
    for (let round = 0; round < 3; round += 1) {
      const loading = Promise.all([loadCompression('zstd', load), loadCompression('zstd', load)]);
      expect(first.decompress(first.compress(input), input.length)).toEqual(input);
      const [second] = await loading;
      expect(first.decompress(first.compress(input), input.length)).toEqual(input);
      expect(second.decompress(second.compress(input), input.length)).toEqual(input);
    }
  });

  it('fails rather than give what no consumer can read, if the ZSTD library is broken by somebody else', async () => {
    let broken = false;
    const zstd = require('@bokuweb/zstd-wasm') as { compress: (input: Buffer) => Uint8Array };
    const codec = await loadCompression('zstd', async () => ({
      ...zstd,
      compress: (input: Buffer) => (broken ? Buffer.alloc(20) : zstd.compress(input)),
    }));
    expect(codec.compress(Buffer.of(1)).length).toBeGreaterThan(4);
    broken = true;
    expect(() => codec.compress(Buffer.of(1))).toThrow('no frame');
  });

  it('finds what is installed by itself', async () => {
    for (const name of ['lz4', 'zlib', 'zstd', 'snappy'] as const) {
      const codec = await loadCompression(name);
      const input = Buffer.from(name.repeat(100));
      expect(codec.decompress(codec.compress(input), input.length)).toEqual(input);
    }
  });
});
