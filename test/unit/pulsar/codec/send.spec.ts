import { MessageTooLargeError } from '../../../../lib/errors.js';
import { BatchEncoder } from '../../../../lib/pulsar/codec/batch-encoder.js';
import { planChunks } from '../../../../lib/pulsar/codec/chunk-encoder.js';
import { CompressionType } from '../../../../lib/pulsar/codec/constants.js';
import { type EncodableMessage, type Encryption, type FrameSource } from '../../../../lib/pulsar/codec/send-types.js';
import { encodeSingle } from '../../../../lib/pulsar/codec/single-encoder.js';
import { openBatch, openSendFrame, Random } from './support.js';

const source: FrameSource = { producerId: 3, producerName: 'standalone-1-2', publishTime: 1_700_000_000_123 };

/** Undone by itself, so that a test sees what was done. */
const inverted = (input: Uint8Array): Buffer => Buffer.from(input.map((byte) => byte ^ 0xff));
const compression = { type: CompressionType.LZ4, compress: inverted };
const encryption: Encryption = {
  overhead: 200,
  encrypt: (payload) => ({
    payload: Buffer.concat([Buffer.from('sealed:'), payload]),
    keys: [
      { name: 'first', value: Buffer.alloc(130, 1), metadata: [{ key: 'version', value: '1' }] },
      { name: 'second', value: Buffer.of(2) },
    ],
    algorithm: 'A',
    parameter: Buffer.from('initialize!!'),
  }),
};

function randomMessage(random: Random): EncodableMessage {
  const length = random.pick([3, 40, 44, 150, 150, 6000]);
  return {
    payload: random.next() < 0.1 ? null : random.bytes(300),
    key: random.maybe(() => random.text(60)),
    keyBytes: random.next() < 0.2 ? random.bytes(50) : undefined,
    orderingKey: random.maybe(() => random.bytes(40)),
    properties: random.maybe(() =>
      Object.fromEntries(
        Array.from({ length: random.below(4) }, (_, index) => [`${index}x${random.text(20)}`, random.text(length)]),
      ),
    ),
    eventTime: random.maybe(() => random.number()),
  };
}

const pairs = (properties: Readonly<Record<string, string>> = {}): object[] =>
  Object.entries(properties).map(([key, value]) => ({ key, value }));

/** The key as it is on the wire. */
function wireKey({ key, keyBytes, orderingKey }: EncodableMessage): Record<string, unknown> {
  return {
    partitionKey: keyBytes === undefined ? key : Buffer.from(keyBytes).toString('base64'),
    partitionKeyB64Encoded: keyBytes === undefined ? undefined : true,
    orderingKey,
  };
}

/** Without fields that are undefined or empty lists, as protobufjs leaves them out. */
function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0)),
  );
}

describe('encodeSingle', () => {
  it('writes what protobufjs reads back, for random messages', () => {
    for (let seed = 0; seed < 500; seed += 1) {
      const random = new Random(seed);
      const message: EncodableMessage = {
        ...randomMessage(random),
        deliverAt: random.maybe(() => random.number()),
        replicationClusters: random.maybe(() => ['us-west', 'eu']),
      };
      const from: FrameSource = {
        producerId: random.number(),
        producerName: random.text(50),
        publishTime: random.number(),
        schemaVersion: random.maybe(() => random.bytes(8)),
      };
      const sequenceId = random.number();
      const { command, metadata, payload } = openSendFrame(encodeSingle(from, message, sequenceId));
      expect(command).toEqual({ producerId: String(from.producerId), sequenceId: String(sequenceId) });
      expect(metadata).toEqual(
        present({
          producerName: from.producerName,
          sequenceId: String(sequenceId),
          publishTime: String(from.publishTime),
          properties: pairs(message.properties),
          ...wireKey(message),
          replicateTo: message.replicationClusters,
          eventTime: message.eventTime?.toString(),
          deliverAtTime: message.deliverAt?.toString(),
          schemaVersion: from.schemaVersion,
          nullValue: message.payload === null ? true : undefined,
        }),
      );
      expect(payload).toEqual(Buffer.from(message.payload ?? []));
    }
  });

  it('has no num_messages_in_batch and no highest_sequence_id: consumers would look for a batch', () => {
    const { command, metadata } = openSendFrame(encodeSingle(source, { payload: Buffer.of(1) }, 0));
    expect(metadata).toEqual({ producerName: 'standalone-1-2', sequenceId: '0', publishTime: '1700000000123' });
    expect(command).toEqual({ producerId: '3', sequenceId: '0' });
  });

  it('names only itself where a message is not to be replicated', () => {
    const { metadata } = openSendFrame(encodeSingle(source, { payload: null, replicationClusters: [] }, 0));
    expect(metadata.replicateTo).toEqual(['__local__']);
  });

  it('tells a tombstone from an empty payload', () => {
    expect(openSendFrame(encodeSingle(source, { payload: null }, 0)).metadata.nullValue).toBe(true);
    expect(openSendFrame(encodeSingle(source, { payload: Buffer.alloc(0) }, 0)).metadata.nullValue).toBeUndefined();
  });

  it('compresses, then encrypts, then computes the checksum', () => {
    const message = { payload: Buffer.from('plain') };
    const { metadata, payload } = openSendFrame(encodeSingle({ ...source, compression, encryption }, message, 1));
    expect(metadata).toMatchObject({
      compression: CompressionType.LZ4,
      uncompressedSize: 5,
      encryptionKeys: [
        { key: 'first', value: Buffer.alloc(130, 1), metadata: [{ key: 'version', value: '1' }] },
        { key: 'second', value: Buffer.of(2) },
      ],
      encryptionAlgo: 'A',
      encryptionParam: Buffer.from('initialize!!'),
    });
    expect(payload).toEqual(Buffer.concat([Buffer.from('sealed:'), inverted(message.payload)]));
  });

  it('tells the size of what is encrypted too: the Go client hands out ciphertext without it', () => {
    const message = { payload: Buffer.from('plain') };
    const { metadata } = openSendFrame(encodeSingle({ ...source, encryption }, message, 1));
    expect([metadata.compression, metadata.uncompressedSize]).toEqual([undefined, 5]);
    const encoder = new BatchEncoder();
    encoder.add(message, 1);
    const { size } = encoder;
    const batch = openSendFrame(encoder.seal({ ...source, encryption }));
    expect([batch.metadata.compression, batch.metadata.uncompressedSize]).toEqual([undefined, size]);
  });

  it('counts metadata and payload against the limit of the broker', () => {
    const message = { payload: Buffer.alloc(100), properties: { a: 'b' } };
    const size = bodySize(encodeSingle(source, message, 5));
    expect(encodeSingle({ ...source, maxMessageSize: size }, message, 5)).toBeInstanceOf(Buffer);
    const tooLarge = (): Buffer => encodeSingle({ ...source, maxMessageSize: size - 1 }, message, 5);
    expect(tooLarge).toThrow(MessageTooLargeError);
    expect(tooLarge).toThrow(expect.objectContaining({ size, limit: size - 1 }) as Error);
  });
});

describe('BatchEncoder', () => {
  it('writes what protobufjs reads back, for random batches', () => {
    const encoder = new BatchEncoder();
    for (let seed = 0; seed < 120; seed += 1) {
      const random = new Random(seed);
      const messages = Array.from({ length: random.below(random.pick([2, 5, 40])) + 1 }, () => randomMessage(random));
      const ids: number[] = [];
      let id = random.number() % 2 ** 52;
      for (const message of messages) {
        ids.push(id);
        encoder.add(message, id);
        id += 1 + random.below(3);
      }
      expect(encoder.count).toBe(messages.length);
      const size = encoder.size;
      const { command, metadata, payload } = openSendFrame(encoder.seal({ ...source, schemaVersion: Buffer.of(7) }));
      const ends = { sequenceId: String(ids[0]), highestSequenceId: String(ids.at(-1)) };
      expect(command).toEqual({ producerId: '3', ...ends, numMessages: messages.length });
      expect(metadata).toEqual(
        present({
          producerName: source.producerName,
          publishTime: String(source.publishTime),
          ...ends,
          ...wireKey(messages[0]),
          numMessagesInBatch: messages.length,
          schemaVersion: Buffer.of(7),
        }),
      );
      expect(payload.length).toBe(size);
      expect(openBatch(payload)).toEqual(
        messages.map((message, index) => ({
          metadata: present({
            properties: pairs(message.properties),
            ...wireKey(message),
            payloadSize: message.payload?.length ?? 0,
            eventTime: message.eventTime?.toString(),
            sequenceId: String(ids[index]),
            nullValue: message.payload === null ? true : undefined,
          }),
          payload: Buffer.from(message.payload ?? []),
        })),
      );
    }
  });

  it('never writes to a frame again', () => {
    const encoder = new BatchEncoder();
    const frames: { frame: Buffer; copy: Buffer }[] = [];
    const random = new Random(5);
    for (let round = 0; round < 200; round += 1) {
      for (let index = random.below(60) + 1; index > 0; index -= 1) encoder.add({ payload: random.bytes(400) }, round);
      const frame = round % 3 === 0 ? encoder.seal({ ...source, compression }) : encoder.seal(source);
      frames.push({ frame, copy: Buffer.from(frame) });
      const single = encodeSingle(source, { payload: random.bytes(400) }, round);
      frames.push({ frame: single, copy: Buffer.from(single) });
    }
    for (const { frame, copy } of frames) expect(frame.equals(copy)).toBe(true);
  });

  it('does not keep a large buffer alive for a small frame', () => {
    const encoder = new BatchEncoder();
    for (let index = 0; index < 100; index += 1) encoder.add({ payload: Buffer.alloc(1000) }, index);
    encoder.seal(source);
    encoder.add({ payload: Buffer.alloc(10) }, 100);
    const small = encoder.seal(source);
    expect(small.buffer.byteLength).toBeLessThanOrEqual(8192);
  });

  it('makes room for a header that is longer than usual', () => {
    const encoder = new BatchEncoder();
    const orderingKey = Buffer.alloc(5000, 1);
    encoder.add({ payload: Buffer.alloc(20_000, 2), orderingKey }, 1);
    const { metadata, payload } = openSendFrame(encoder.seal(source));
    expect(metadata.orderingKey).toEqual(orderingKey);
    expect(openBatch(payload)[0].payload).toEqual(Buffer.alloc(20_000, 2));
  });

  it('compresses, then encrypts the entries as a whole', () => {
    const encoder = new BatchEncoder();
    encoder.add({ payload: Buffer.from('one') }, 1);
    encoder.add({ payload: Buffer.from('two') }, 2);
    const size = encoder.size;
    const { metadata, payload } = openSendFrame(encoder.seal({ ...source, compression, encryption }));
    expect(metadata).toMatchObject({ compression: CompressionType.LZ4, uncompressedSize: size, encryptionAlgo: 'A' });
    const entries = openBatch(inverted(payload.subarray('sealed:'.length)));
    expect(entries.map((entry) => entry.payload.toString())).toEqual(['one', 'two']);
  });

  it('starts anew after clear, after an error and after a seal', () => {
    const encoder = new BatchEncoder();
    const add = (text: string): void => encoder.add({ payload: Buffer.from(text) }, 9);
    const texts = (): string[] => openBatch(openSendFrame(encoder.seal(source)).payload).map((e) => String(e.payload));
    add('dropped');
    encoder.clear();
    expect([encoder.count, encoder.size]).toEqual([0, 0]);
    add('first');
    expect(texts()).toEqual(['first']);
    add('too large');
    expect(() => encoder.seal({ ...source, maxMessageSize: 10 })).toThrow(MessageTooLargeError);
    add('lost');
    const broken = { type: CompressionType.ZSTD, compress: (): never => fail('no memory') };
    expect(() => encoder.seal({ ...source, compression: broken })).toThrow('no memory');
    add('second');
    expect(texts()).toEqual(['second']);
    expect(() => encoder.seal(source)).toThrow(RangeError);
  });
});

describe('planChunks', () => {
  const payload = Buffer.from(Array.from({ length: 10_000 }, (_, index) => index % 251));
  const message = { payload, key: 'k', properties: { a: 'b' } };

  it.each([
    ['plain', source],
    ['compressed and encrypted', { ...source, compression, encryption }],
  ])('cuts a %s message into frames that fit and add up', (_what, from) => {
    const plan = planChunks(from, message, { maxMessageSize: 1000 });
    expect(plan).toBeDefined();
    const parts: Buffer[] = [];
    for (let index = 0; index < plan!.count; index += 1) {
      const frame = plan!.encode(index, { ...from, maxMessageSize: 1000 }, 77);
      expect(bodySize(frame)).toBeLessThanOrEqual(1000);
      const { command, metadata, payload: part } = openSendFrame(frame);
      expect(command).toEqual({ producerId: '3', sequenceId: '77', isChunk: true });
      expect(metadata).toMatchObject({
        uuid: 'standalone-1-2-77',
        numChunksFromMsg: plan!.count,
        totalChunkMsgSize: 10_000,
        partitionKey: 'k',
        properties: [{ key: 'a', value: 'b' }],
        uncompressedSize: 10_000,
      });
      expect(metadata.chunkId ?? 0).toBe(index);
      parts.push(from.encryption === undefined ? part : part.subarray('sealed:'.length));
    }
    const whole = Buffer.concat(parts);
    expect(from.compression === undefined ? whole : inverted(whole)).toEqual(payload);
  });

  it('leaves a message whole that fits, also one that fits only compressed', () => {
    const size = bodySize(encodeSingle(source, message, Number.MAX_SAFE_INTEGER));
    expect(planChunks(source, message, { maxMessageSize: size + 20 })).toBeUndefined();
    const halving = { type: CompressionType.ZSTD, compress: (input: Buffer): Buffer => input.subarray(0, 500) };
    expect(planChunks({ ...source, compression: halving }, message, { maxMessageSize: 1000 })).toBeUndefined();
  });

  it('honours a smaller chunk size and the bound on chunks', () => {
    const plan = planChunks(source, message, { maxMessageSize: 5000, maxChunkSize: 500 });
    expect(bodySize(plan!.encode(0, source, 1))).toBeLessThanOrEqual(500);
    const limits = { maxMessageSize: 1000, maxChunks: 3 };
    expect(() => planChunks(source, message, limits)).toThrow(/chunks, at most 3/);
    expect(() => planChunks(source, message, { maxMessageSize: 50 })).toThrow(MessageTooLargeError);
  });
});

/** Metadata and payload of a SEND frame. */
function bodySize(frame: Buffer): number {
  return frame.length - 8 - frame.readUInt32BE(4) - 10;
}

function fail(message: string): never {
  throw new Error(message);
}
