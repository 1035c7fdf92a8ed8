import { RemoteProtocolError } from '../../../../lib/errors.js';
import { decodeEntry, splitBatch } from '../../../../lib/pulsar/codec/entry.js';
import { protoType, Random, slowCrc32c } from './support.js';

interface Parts {
  readonly metadata?: object;
  readonly brokerEntry?: object;
  readonly payload?: Buffer;
  readonly checksum?: boolean;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** An entry as a broker delivers it, built with protobufjs. */
function entry({ metadata = {}, brokerEntry, payload = Buffer.from('payload'), checksum = true }: Parts): Buffer {
  const encoded = protoType('MessageMetadata')
    .encode({ producerName: 'p', sequenceId: 1, publishTime: 2, ...metadata })
    .finish();
  const body = Buffer.concat([uint32(encoded.length), encoded, payload]);
  const parts: Uint8Array[] = [body];
  if (checksum) parts.unshift(Buffer.of(0x0e, 0x01), uint32(slowCrc32c(body)));
  if (brokerEntry !== undefined) {
    const first = protoType('BrokerEntryMetadata').encode(brokerEntry).finish();
    parts.unshift(Buffer.of(0x0e, 0x02), uint32(first.length), Buffer.from(first));
  }
  return Buffer.concat(parts);
}

function batch(messages: { metadata: object; payload: Buffer }[]): Buffer {
  return Buffer.concat(
    messages.flatMap(({ metadata, payload }) => {
      const encoded = protoType('SingleMessageMetadata')
        .encode({ payloadSize: payload.length, ...metadata })
        .finish();
      return [uint32(encoded.length), encoded, payload];
    }),
  );
}

describe('decodeEntry', () => {
  it('reads metadata and payload, with and without checksum and broker metadata', () => {
    const lists = { properties: [], replicateTo: [], encryptionKeys: [] };
    expect(decodeEntry(entry({}))).toEqual({
      metadata: { producerName: 'p', sequenceId: 1, publishTime: 2, ...lists },
      payload: Buffer.from('payload'),
      checksumOk: true,
      brokerEntry: undefined,
    });
    expect(decodeEntry(entry({ checksum: false, metadata: { eventTime: 5 } })).metadata.eventTime).toBe(5);
    const withBroker = decodeEntry(entry({ brokerEntry: { brokerTimestamp: 3, index: 4 } }));
    expect(withBroker.brokerEntry).toEqual({ brokerTimestamp: 3, index: 4 });
    expect(withBroker.payload.toString()).toBe('payload');
  });

  it('reads every field of the metadata', () => {
    const metadata = {
      properties: [{ key: 'a', value: 'b' }],
      replicatedFrom: 'c',
      partitionKey: 'd',
      replicateTo: ['e'],
      compression: 3,
      uncompressedSize: 4,
      numMessagesInBatch: 1,
      eventTime: 5,
      encryptionKeys: [{ key: 'f', value: Buffer.of(6), metadata: [{ key: 'g', value: 'h' }] }],
      encryptionAlgo: 'i',
      encryptionParam: Buffer.of(7),
      schemaVersion: Buffer.of(8),
      partitionKeyB64Encoded: true,
      orderingKey: Buffer.of(9),
      deliverAtTime: 10,
      highestSequenceId: 11,
      nullValue: true,
      uuid: 'j',
      numChunksFromMsg: 12,
      totalChunkMsgSize: 13,
      chunkId: 14,
    };
    expect(decodeEntry(entry({ metadata })).metadata).toMatchObject(metadata);
  });

  it('reports a wrong checksum and believes nothing of what it covers', () => {
    const bytes = entry({});
    bytes[bytes.length - 1] ^= 1;
    expect(decodeEntry(bytes)).toMatchObject({ checksumOk: false, metadata: { producerName: '' } });
  });

  it('refuses an entry that ends too early, at every place', () => {
    const bytes = entry({ brokerEntry: { index: 1 }, payload: Buffer.alloc(0), checksum: false });
    for (let end = 0; end < bytes.length; end += 1) {
      expect(() => decodeEntry(bytes.subarray(0, end))).toThrow(RemoteProtocolError);
    }
    expect(() => decodeEntry(bytes)).not.toThrow();
  });

  it('meets damaged bytes with an entry or RemoteProtocolError, nothing else', () => {
    const good = entry({
      checksum: false,
      brokerEntry: { index: 1 },
      metadata: { properties: [{ key: 'a', value: 'b' }] },
    });
    for (let seed = 0; seed < 3000; seed += 1) {
      const random = new Random(seed);
      const bytes = Buffer.from(good);
      bytes[random.below(bytes.length)] = random.below(256);
      try {
        decodeEntry(bytes.subarray(0, random.below(bytes.length + 1)));
      } catch (error) {
        expect(error).toBeInstanceOf(RemoteProtocolError);
      }
    }
  });
});

describe('splitBatch', () => {
  const messages = [
    { metadata: { sequenceId: 5, properties: [{ key: 'a', value: 'b' }] }, payload: Buffer.from('one') },
    { metadata: { partitionKey: 'k', nullValue: true, properties: [] }, payload: Buffer.alloc(0) },
    { metadata: { orderingKey: Buffer.of(1), eventTime: 7, properties: [] }, payload: Buffer.from('three') },
  ];

  it('gives the messages in order', () => {
    const found = splitBatch(batch(messages), 3);
    expect(found).toMatchObject(messages);
    expect(found.map(({ metadata }) => metadata.payloadSize)).toEqual([3, 0, 5]);
  });

  it('refuses a batch with fewer messages than it announces, or a message beyond it', () => {
    expect(() => splitBatch(batch(messages), 4)).toThrow(RemoteProtocolError);
    const beyond = batch([{ metadata: { payloadSize: 9 }, payload: Buffer.from('short') }]);
    expect(() => splitBatch(beyond, 1)).toThrow(RemoteProtocolError);
    const negative = batch([{ metadata: { payloadSize: -1 }, payload: Buffer.from('short') }]);
    expect(() => splitBatch(negative, 1)).toThrow(RemoteProtocolError);
  });
});
