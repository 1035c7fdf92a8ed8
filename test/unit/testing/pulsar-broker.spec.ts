import { deflateSync } from 'node:zlib';
import { InMemoryPulsarBroker } from '../../../lib/testing/index.js';
import { batchOf, RawPulsarClient, tailOf } from './raw-pulsar-client.js';

const TOPIC = 'persistent://public/default/telemetry';
const ID = { producerName: 'p', publishTime: 1_700_000_000_000 };

describe('the in-memory Pulsar broker', () => {
  let broker: InMemoryPulsarBroker;
  const clients: RawPulsarClient[] = [];
  const open = async (options?: Parameters<typeof RawPulsarClient.open>[1]): Promise<RawPulsarClient> => {
    const client = await RawPulsarClient.open(broker.port, options);
    clients.push(client);
    return client;
  };
  const sendOne = (client: RawPulsarClient, sequenceId: number, payload: string, extra: object = {}): void => {
    client.send('send', { producerId: 1, sequenceId }, tailOf({ ...ID, sequenceId, ...extra }, Buffer.from(payload)));
  };

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await broker.close();
  });

  it('stores what a producer sends and answers with its place', async () => {
    const client = await open();
    await client.produce(TOPIC, { producerName: 'p' });
    const metadata = {
      ...ID,
      sequenceId: 0,
      partitionKey: 'device-7',
      eventTime: 5,
      properties: [{ key: 'unit', value: 'C' }],
    };
    client.send('send', { producerId: 1, sequenceId: 0 }, tailOf(metadata, Buffer.from('21.5')));
    const receipt = await client.next('sendReceipt');
    expect(receipt).toMatchObject({ producerId: '1', sequenceId: '0', messageId: { entryId: '0' } });
    expect(broker.topic('telemetry').messages).toMatchObject([
      {
        payload: Buffer.from('21.5'),
        key: 'device-7',
        eventTime: 5,
        properties: { unit: 'C' },
        sequenceId: 0,
        producerName: 'p',
        batchIndex: -1,
      },
    ]);
    expect(broker.violations).toEqual([]);
  });

  it.each([
    ['NONE', 0, (bytes: Buffer) => bytes],
    ['ZLIB', 2, (bytes: Buffer) => deflateSync(bytes)],
  ] as const)('splits a batch under compression %s', async (name, compression, compress) => {
    const client = await open();
    await client.produce(TOPIC, { producerName: 'p' });
    const payload = batchOf([
      { payload: 'one', metadata: { sequenceId: 4 } },
      { payload: '', metadata: { nullValue: true, partitionKey: 'k' } },
      { payload: 'three' },
    ]);
    const tail = tailOf(
      {
        ...ID,
        sequenceId: 4,
        highestSequenceId: 6,
        numMessagesInBatch: 3,
        compression,
        uncompressedSize: payload.length,
      },
      compress(payload),
    );
    client.send('send', { producerId: 1, sequenceId: 4, numMessages: 3, highestSequenceId: 6 }, tail);
    await client.next('sendReceipt');
    const stored = broker.topic(TOPIC).messages;
    expect(stored.map((one) => [one.payload?.toString(), one.sequenceId, one.batchIndex, one.batchSize])).toEqual([
      ['one', 4, 0, 3],
      [undefined, 5, 1, 3],
      ['three', 6, 2, 3],
    ]);
    expect(stored[1]).toMatchObject({ key: 'k', payload: null, compression: name });
  });

  it('lets a consumer read back what was sent, with a checksum that fits', async () => {
    const producer = await open();
    await producer.produce(TOPIC, { producerName: 'p' });
    sendOne(producer, 0, 'a');
    sendOne(producer, 1, 'b');
    await producer.next('sendReceipt', (body) => body['sequenceId'] === '1');
    const consumer = await open();
    await consumer.lookup(TOPIC);
    consumer.send('subscribe', {
      topic: TOPIC,
      subscription: 's',
      subType: 0,
      consumerId: 3,
      requestId: 1,
      initialPosition: 1,
    });
    await consumer.next('success');
    consumer.send('flow', { consumerId: 3, messagePermits: 10 });
    const first = await consumer.take('message');
    const second = await consumer.take('message');
    expect([first.tail, second.tail].map((tail) => tail.subarray(-1).toString())).toEqual(['a', 'b']);
    expect(first.tail).toEqual(tailOf({ ...ID, sequenceId: 0 }, Buffer.from('a')));
    consumer.send('ack', { consumerId: 3, ackType: 0, messageId: [first.body['messageId']], requestId: 9 });
    await consumer.next('ackResponse');
    expect(broker.topic(TOPIC).subscriptions.get('s')?.backlog).toBe(1);
  });

  it('asks for a lookup before PRODUCER', async () => {
    const client = await open();
    client.send('producer', { topic: TOPIC, producerId: 1, requestId: 7 });
    expect(await client.next('error')).toMatchObject({ requestId: '7', error: 6 });
  });
});
