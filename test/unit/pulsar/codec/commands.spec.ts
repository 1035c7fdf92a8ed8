import { RemoteProtocolError } from '../../../../lib/errors.js';
import { COMMAND_CODES } from '../../../../lib/pulsar/codec/command-codes.js';
import { type ClientCommand, type ServerCommand } from '../../../../lib/pulsar/codec/command-types.js';
import { decodeCommand, encodeCommand } from '../../../../lib/pulsar/codec/commands.js';
import { decodeWith, protoType, Random } from './support.js';

const encode = (type: number, fields: Record<string, object>): Buffer =>
  Buffer.from(
    protoType('BaseCommand')
      .encode({ type, ...fields })
      .finish(),
  );

describe('encodeCommand', () => {
  const schema = { name: 's', schemaData: Buffer.from('{}'), type: 2, properties: [{ key: 'k', value: 'v' }] };
  const commands: ClientCommand[] = [
    {
      type: 'connect',
      clientVersion: 'c',
      protocolVersion: 21,
      authMethodName: 'token',
      authData: Buffer.from('t'),
      proxyToBrokerUrl: 'broker:6650',
      featureFlags: { supportsAuthRefresh: true },
    },
    { type: 'authResponse', clientVersion: 'c', protocolVersion: 21, response: { authMethodName: 'token' } },
    { type: 'ping' },
    { type: 'pong' },
    { type: 'partitionMetadata', topic: 't', requestId: 1, metadataAutoCreationEnabled: false },
    { type: 'lookupTopic', topic: 't', requestId: 2, authoritative: true, advertisedListenerName: 'l' },
    {
      type: 'producer',
      topic: 't',
      producerId: 3,
      requestId: 2 ** 40,
      producerName: 'n',
      encrypted: true,
      metadata: [{ key: 'k', value: 'v' }],
      schema,
      epoch: 1,
      userProvidedProducerName: false,
      producerAccessMode: 2,
      topicEpoch: 5,
    },
    { type: 'closeProducer', producerId: 3, requestId: 4 },
    { type: 'getOrCreateSchema', topic: 't', requestId: 5, schema },
    { type: 'getSchema', topic: 't', requestId: 5, schemaVersion: Buffer.of(0, 1) },
    { type: 'getTopicsOfNamespace', namespace: 'public/default', requestId: 6, mode: 2 },
    {
      type: 'subscribe',
      topic: 't',
      subscription: 's',
      subType: 3,
      consumerId: 7,
      requestId: 8,
      durable: false,
      startMessageId: { ledgerId: 9, entryId: 10, partition: -1 },
      initialPosition: 1,
      keySharedMeta: { keySharedMode: 1, hashRanges: [{ start: 0, end: 65535 }] },
    },
    { type: 'flow', consumerId: 7, messagePermits: 1000 },
    { type: 'ack', consumerId: 7, ackType: 0, messageId: [{ ledgerId: 1, entryId: 2 }], requestId: 9 },
    { type: 'redeliverUnacknowledgedMessages', consumerId: 7, messageIds: [{ ledgerId: 1, entryId: 2 }] },
    { type: 'unsubscribe', consumerId: 7, requestId: 10 },
    { type: 'seek', consumerId: 7, requestId: 11, messagePublishTime: 1_700_000_000_000 },
    { type: 'getLastMessageId', consumerId: 7, requestId: 12 },
    { type: 'closeConsumer', consumerId: 7, requestId: 13 },
  ];

  it.each(commands.map((command) => [command.type, command] as const))('writes %s', (type, command) => {
    const frame = encodeCommand(command);
    expect(frame.readUInt32BE(0)).toBe(frame.length - 4);
    expect(frame.readUInt32BE(4)).toBe(frame.length - 8);
    const base = protoType('BaseCommand');
    const decoded = base.toObject(base.decode(frame.subarray(8)), { longs: Number });
    const { type: _type, ...fields } = command;
    expect(decoded).toEqual({ type: COMMAND_CODES[type], [type]: fields });
  });

  it('writes -1 as 2^64-1', () => {
    const frame = encodeCommand({
      type: 'seek',
      consumerId: 1,
      requestId: 2,
      messageId: { ledgerId: -1, entryId: -1 },
    });
    expect(decodeWith('BaseCommand', frame.subarray(8)).seek.messageId).toEqual({
      ledgerId: '18446744073709551615',
      entryId: '18446744073709551615',
    });
  });

  it('keeps all 64 bits of an ack set', () => {
    const words = [0n, -1n, 1n << 62n, -(1n << 63n), 0x123456789abcdefn];
    const messageId = [{ ledgerId: 1, entryId: 2, ackSet: words, batchSize: 300 }];
    const frame = encodeCommand({ type: 'ack', consumerId: 1, ackType: 0, messageId });
    expect(decodeWith('BaseCommand', frame.subarray(8)).ack.messageId[0].ackSet.map(BigInt)).toEqual(words);
  });
});

describe('decodeCommand', () => {
  const server: [keyof typeof COMMAND_CODES, Record<string, unknown>][] = [
    ['connected', { serverVersion: 'Pulsar', protocolVersion: 21, maxMessageSize: 5_242_880 }],
    ['authChallenge', { serverVersion: 'x', challenge: { authMethodName: 'token', authData: Buffer.from('refresh') } }],
    ['ping', {}],
    ['pong', {}],
    ['success', { requestId: 1 }],
    ['error', { requestId: 1, error: 6, message: 'later' }],
    ['partitionMetadataResponse', { requestId: 1, partitions: 3, response: 0 }],
    ['lookupTopicResponse', { requestId: 1, brokerServiceUrl: 'pulsar://b:6650', response: 1, authoritative: true }],
    ['topicMigrated', { resourceId: 3, resourceType: 0, brokerServiceUrl: 'pulsar://c:6650' }],
    ['producerSuccess', { requestId: 1, producerName: 'p', lastSequenceId: -1, producerReady: true }],
    ['sendError', { producerId: 1, sequenceId: 2, error: 9, message: 'crc' }],
    ['closeProducer', { producerId: 1, requestId: 2, assignedBrokerServiceUrl: 'pulsar://d:6650' }],
    ['closeConsumer', { consumerId: 1, requestId: 2 }],
    ['getOrCreateSchemaResponse', { requestId: 1, schemaVersion: Buffer.of(0, 0, 0, 1) }],
    ['getSchemaResponse', { requestId: 1, errorCode: 11, errorMessage: 'none' }],
    ['getTopicsOfNamespaceResponse', { requestId: 1, topics: ['a', 'b'] }],
    ['ackResponse', { consumerId: 1, requestId: 2 }],
    ['activeConsumerChange', { consumerId: 1, isActive: true }],
    ['reachedEndOfTopic', { consumerId: 1 }],
    [
      'getLastMessageIdResponse',
      { requestId: 1, lastMessageId: { ledgerId: 1, entryId: 2, partition: 0, ackSet: [] } },
    ],
  ];

  it.each(server)('reads %s', (type, fields) => {
    expect(decodeCommand(encode(COMMAND_CODES[type], { [type]: fields }))).toEqual({ type, ...fields });
  });

  it('reads 2^64-1 as -1, so that it matches no request', () => {
    const closing = decodeCommand(encode(15, { closeProducer: { producerId: 1, requestId: -1 } }));
    expect(closing).toEqual({ type: 'closeProducer', producerId: 1, requestId: -1 });
  });

  it('leaves out an error that was not sent, and keeps one that it does not know', () => {
    const fine = decodeCommand(encode(38, { ackResponse: { consumerId: 1 } }));
    expect('error' in fine).toBe(false);
    // error { request_id 1, error 250, message "" }: the enum ends at 25
    const strange = decodeCommand(Buffer.from('080e7207' + '0801' + '10fa01' + '1a00', 'hex'));
    expect(strange).toEqual({ type: 'error', requestId: 1, error: 250, message: '' });
  });

  it('names a command that it does not know, whatever follows it', () => {
    expect(decodeCommand(Buffer.from([0x08, 99, 0x9a, 0x06, 1, 0]))).toEqual({ type: 'unknown', code: 99 });
    expect(decodeCommand(encode(65, {}))).toEqual({ type: 'unknown', code: 65 });
    // what only brokers receive
    expect(decodeCommand(encode(18, { ping: {} })).type).toBe('ping');
    expect(decodeCommand(encode(5, { producer: { topic: 't', producerId: 1, requestId: 1 } }))).toEqual({
      type: 'unknown',
      code: 5,
    });
  });

  it.each([
    ['no type', Buffer.alloc(0)],
    ['a type without its fields', Buffer.from([0x08, 13])],
    ['a missing required field', Buffer.from([0x08, 14, 0x72, 2, 0x08, 1])],
    ['a receipt without ids', Buffer.from([0x08, 7, 0x3a, 0])],
    ['a receipt without body', Buffer.from([0x08, 7])],
    ['a message without ids', Buffer.from([0x08, 9, 0x4a, 2, 0x08, 1])],
    ['a length beyond the end', Buffer.from([0x08, 7, 0x3a, 9, 0x08, 1])],
    ['a number of more than 64 bits', Buffer.from('0807' + '3a0e08' + 'ffffffffffffffffff7f' + '1001', 'hex')],
    ['a group', Buffer.from([0x08, 7, 0x3b, 0x08, 1])],
  ])('refuses %s', (_what, bytes) => {
    expect(() => decodeCommand(bytes)).toThrow(RemoteProtocolError);
  });

  it('reads receipts as protobufjs does', () => {
    const random = new Random(3);
    for (let round = 0; round < 3000; round += 1) {
      const id = (): number => (random.next() < 0.2 ? -1 : random.number());
      const receipt = {
        producerId: random.number(),
        sequenceId: id(),
        messageId: random.maybe(() => ({ ledgerId: id(), entryId: id(), partition: random.pick([-1, 0, 3]) })),
        highestSequenceId: random.maybe(id),
      };
      const { messageId, highestSequenceId, ...ids } = receipt;
      const sendReceipt = {
        ...ids,
        ...(messageId && { messageId }),
        ...(highestSequenceId !== undefined && { highestSequenceId }),
      };
      expect(decodeCommand(encode(7, { sendReceipt }))).toEqual({
        type: 'sendReceipt',
        ...ids,
        highestSequenceId: highestSequenceId ?? 0,
        ledgerId: messageId?.ledgerId ?? -1,
        entryId: messageId?.entryId ?? -1,
      });
    }
  });

  it('reads every 64-bit number as signed', () => {
    for (const value of [2n ** 53n - 1n, 2n ** 56n, 2n ** 62n, 2n ** 63n, 2n ** 64n - 2n, 2n ** 64n - 2n ** 40n]) {
      const sequenceId = { low: Number(BigInt.asIntN(32, value)), high: Number(BigInt.asIntN(32, value >> 32n)) };
      const receipt = decodeCommand(encode(7, { sendReceipt: { producerId: 1, sequenceId } }));
      expect(receipt).toMatchObject({ sequenceId: Number(BigInt.asIntN(64, value)) });
    }
  });

  it('reads MESSAGE with what follows it', () => {
    const body = Buffer.from('entry');
    const long = (value: bigint): object => ({
      low: Number(BigInt.asIntN(32, value)),
      high: Number(BigInt.asIntN(32, value >> 32n)),
      unsigned: false,
    });
    const command = encode(9, {
      message: {
        consumerId: 4,
        messageId: { ledgerId: 5, entryId: 6, partition: -1, batchIndex: 2, batchSize: 3 },
        redeliveryCount: 7,
        ackSet: [long(-1n), long(20n)],
        consumerEpoch: 8,
      },
    });
    const frame = Buffer.concat([command, body]);
    const expected: ServerCommand = {
      type: 'message',
      consumerId: 4,
      messageId: { ledgerId: 5, entryId: 6, partition: -1, batchIndex: 2 },
      redeliveryCount: 7,
      ackSet: [-1n, 20n],
      consumerEpoch: 8,
      headersAndPayload: body,
    };
    expect(decodeCommand(frame, 0, command.length, frame.length)).toEqual(expected);
  });
});
