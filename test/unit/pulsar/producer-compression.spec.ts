import { randomBytes } from 'node:crypto';
import { inflateSync } from 'node:zlib';
import { setNativeCrc32c } from '../../../lib/pulsar/codec/crc32c.js';
import { loadCompression } from '../../../lib/pulsar/compression/index.js';
import { loadNativeCrc32c } from '../../../lib/pulsar/native-crc32c.js';
import { batchTexts, storedFrames } from './support/stored.js';
import { PulsarWorld, text } from './support/world.js';

describe('compression of a producer', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each([
    ['lz4', 1],
    ['zlib', 2],
    ['zstd', 3],
    ['snappy', 4],
  ] as const)('%s: of a batch as a whole, and of a message outside one', async (compression, type) => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', compression });
    broker.holdReceipts();
    const first = producer.send(text('alone'));
    await broker.waitFor(() => broker.topic('unit').entries.length === 1);
    const long = 'again and '.repeat(200);
    const rest = [producer.send(text(long)), producer.send(text('b')), producer.send(text(''))];
    const apart = producer.send({ ...text(long), disableBatching: true });
    await broker.waitFor(() => broker.topic('unit').entries.length === 3);
    broker.releaseReceipts();
    await Promise.all([first, ...rest, apart]);

    const codec = await loadCompression(compression);
    const plain = storedFrames(broker, 'unit').map(({ metadata, payload }) => {
      expect(metadata.compression).toBe(type);
      return codec.decompress(payload, metadata.uncompressedSize as number);
    });
    expect(batchTexts(plain[0])).toEqual(['alone']);
    expect(batchTexts(plain[1])).toEqual([long, 'b', '']);
    expect(plain[2].toString()).toBe(long);
    expect(storedFrames(broker, 'unit')[2].payload.length).toBeLessThan(long.length / 4);
    expect(broker.violations).toEqual([]);
  });

  it('says nothing of a compression where there is nothing to compress', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', compression: 'zlib', batching: false });
    await Promise.all([producer.send({ payload: Buffer.alloc(0) }), producer.send({ payload: null })]);
    expect(storedFrames(broker, 'unit').map(({ metadata }) => [metadata.compression, metadata.nullValue])).toEqual([
      [undefined, undefined],
      [undefined, true],
    ]);
  });

  it('compresses a large message before it is cut into chunks', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      compression: 'zlib',
      batching: false,
      chunking: true,
      maxChunkBytes: 2048,
    });
    const payload = Buffer.concat([randomBytes(5000), Buffer.alloc(100_000)]);
    await producer.send({ payload, key: 'large' });
    const frames = storedFrames(broker, 'unit');
    expect(frames.length).toBeGreaterThan(2);
    expect(frames.length).toBeLessThan(6);
    for (const [index, { metadata }] of frames.entries()) {
      expect(metadata).toMatchObject({ compression: 2, uncompressedSize: 105_000, partitionKey: 'large' });
      expect([metadata.chunkId ?? 0, metadata.numChunksFromMsg]).toEqual([index, frames.length]);
    }
    expect(inflateSync(Buffer.concat(frames.map((frame) => frame.payload)))).toEqual(payload);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0 });
  });

  it('keeps the bytes of a frame over a reconnect', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', compression: 'lz4' });
    broker.holdReceipts();
    const send = producer.send(text('once '.repeat(100)));
    await broker.waitFor(() => broker.topic('unit').entries.length === 1);
    broker.connection!.cut();
    await broker.waitFor(() => broker.topic('unit').entries.length === 2);
    broker.releaseReceipts();
    await send;
    const [before, after] = broker.topic('unit').entries;
    expect(after.tail).toEqual(before.tail);
  });
});

describe('loadNativeCrc32c', () => {
  afterEach(() => setNativeCrc32c(undefined));

  it('takes what is installed', async () => {
    await expect(loadNativeCrc32c((name) => import(name))).resolves.toBe(true);
  });

  it('stays with ours without the package, with one that does not load, and with one that computes something else', async () => {
    const missing = (): Promise<unknown> => Promise.reject(new Error("Cannot find package '@node-rs/crc32'"));
    await expect(loadNativeCrc32c(missing)).resolves.toBe(false);
    await expect(loadNativeCrc32c(async () => ({}))).resolves.toBe(false);
    await expect(loadNativeCrc32c(async () => ({ crc32c: () => 1 }))).resolves.toBe(false);
  });

  it('looks once per process', () => {
    expect(loadNativeCrc32c()).toBe(loadNativeCrc32c());
  });
});
