import { InMemoryPulsarBroker } from '../../../lib/testing/index.js';
import { batchOf, RawPulsarClient, tailOf } from './raw-pulsar-client.js';

const TOPIC = 'persistent://public/default/telemetry';
const ID = { producerName: 'p', publishTime: 1_700_000_000_000 };
const ServerError = { ChecksumError: 9, TopicNotFound: 11, TopicTerminated: 15, ProducerBusy: 16, ProducerFenced: 25 };

describe('producers at the in-memory Pulsar broker', () => {
  let broker: InMemoryPulsarBroker;
  const clients: RawPulsarClient[] = [];
  const open = async (): Promise<RawPulsarClient> => {
    const client = await RawPulsarClient.open(broker.port);
    clients.push(client);
    return client;
  };
  const sendOne = (client: RawPulsarClient, sequenceId: number, payload = 'x', extra: object = {}): void => {
    client.send('send', { producerId: 1, sequenceId }, tailOf({ ...ID, sequenceId, ...extra }, Buffer.from(payload)));
  };
  /** PRODUCER as it is, without waiting for an answer. */
  const ask = async (client: RawPulsarClient, options: object = {}): Promise<void> => {
    await client.lookup(TOPIC);
    client.send('producer', { topic: TOPIC, producerId: 1, requestId: 100, ...options });
  };

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await broker.close();
  });

  describe('names and epochs', () => {
    it('makes up a name, and gives the last sequence id only with deduplication', async () => {
      const client = await open();
      expect(await client.produce(TOPIC)).toMatchObject({ producerName: 'in-memory-0', lastSequenceId: '-1' });
      broker.topic(TOPIC).deduplication = true;
      client.send('producer', { topic: TOPIC, producerId: 2, requestId: 101, producerName: 'p' });
      expect(await client.next('producerSuccess')).toMatchObject({ lastSequenceId: '-1' });
      const tail = tailOf(
        { ...ID, sequenceId: 11, highestSequenceId: 12, numMessagesInBatch: 2 },
        batchOf([{ payload: 'a' }, { payload: 'b' }]),
      );
      client.send('send', { producerId: 2, sequenceId: 11, numMessages: 2, highestSequenceId: 12 }, tail);
      await client.next('sendReceipt');
      const other = await open();
      client.close();
      await broker.waitFor(() => broker.connections.length === 1);
      expect(await other.produce(TOPIC, { producerName: 'p' })).toMatchObject({ lastSequenceId: '12' });
    });

    it('confirms a producer id twice, and lets a higher epoch of it replace the older', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p', epoch: 0 });
      client.send('producer', { topic: TOPIC, producerId: 1, requestId: 101, producerName: 'p', epoch: 1 });
      expect(await client.next('producerSuccess')).toMatchObject({ requestId: '101', producerName: 'p' });
      expect(broker.topic(TOPIC).producers.size).toBe(1);
    });

    it('refuses a name that is in use on a living connection, and takes it from a dead one', async () => {
      broker.options.livenessTimeout = 50;
      const older = await open();
      await older.produce(TOPIC, { producerName: 'p' });
      const newer = await open();
      await ask(newer, { producerName: 'p' });
      await older.next('ping');
      older.send('pong', {});
      expect(await newer.next('error')).toMatchObject({ error: ServerError.ProducerBusy });
      newer.send('producer', { topic: TOPIC, producerId: 1, requestId: 102, producerName: 'p' });
      // This time the older one stays silent.
      expect(await newer.next('producerSuccess')).toMatchObject({ requestId: '102' });
      await older.whenClosed();
    });
  });

  describe('access modes', () => {
    it('Exclusive excludes and is excluded', async () => {
      const first = await open();
      expect(await first.produce(TOPIC, { producerAccessMode: 1 })).toMatchObject({ topicEpoch: '0' });
      const second = await open();
      await ask(second);
      expect(await second.next('error')).toMatchObject({ error: ServerError.ProducerBusy });
      await ask(second, { producerAccessMode: 1 });
      expect(await second.next('error')).toMatchObject({ error: ServerError.ProducerFenced });
    });

    it('WaitForExclusive is told to wait, then gets access under the same request', async () => {
      const first = await open();
      await first.produce(TOPIC);
      const second = await open();
      await ask(second, { producerAccessMode: 2 });
      expect(await second.next('producerSuccess')).toMatchObject({ requestId: '100', producerReady: false });
      first.send('closeProducer', { producerId: 1, requestId: 5 });
      await first.next('success');
      expect(await second.next('producerSuccess')).toMatchObject({ requestId: '100', producerReady: true });
    });

    it('ExclusiveWithFencing takes over; the fenced one learns it with its next SEND', async () => {
      const first = await open();
      await first.produce(TOPIC, { producerName: 'p' });
      const second = await open();
      expect(await second.produce(TOPIC, { producerAccessMode: 3 })).toMatchObject({ topicEpoch: '0' });
      expect(first.received).toEqual([]);
      sendOne(first, 0);
      await first.whenClosed();
      expect(broker.topic(TOPIC).messages).toEqual([]);
      await ask(second, { producerId: 2, requestId: 3, producerAccessMode: 1, topicEpoch: 0 });
      expect(await second.next('error')).toMatchObject({ error: ServerError.ProducerFenced });
    });
  });

  describe('refusals', () => {
    it('by terminated topics, quotas, maxProducers, missing topics, permissions and schemas', async () => {
      const client = await open();
      const refused = async (options?: object): Promise<number> => {
        await ask(client, options);
        return (await client.next('error'))['error'] as number;
      };
      broker.exceedQuota(TOPIC, 'hold');
      expect(await refused()).toBe(7);
      broker.exceedQuota(TOPIC, 'exception');
      expect(await refused()).toBe(8);
      broker.exceedQuota(TOPIC, undefined);
      broker.topic(TOPIC).maxProducers = 0;
      expect(await refused()).toBe(ServerError.ProducerBusy);
      broker.topic(TOPIC).maxProducers = 1;
      broker.options.schemaCompatible = (_topic, existing) => existing.length === 0;
      const schema = { name: 's', type: 2, schemaData: Buffer.from('{}') };
      expect((await client.produce(TOPIC, { producerId: 9, schema }))['schemaVersion']).toEqual(Buffer.alloc(8));
      client.send('closeProducer', { producerId: 9, requestId: 1 });
      await client.next('success');
      expect(await refused({ schema: { ...schema, schemaData: Buffer.from('{"a":1}') } })).toBe(18);
      broker.options.authorize = (_topic, action) => (action === 'produce' ? 'no permission' : undefined);
      expect(await refused()).toBe(4);
      delete broker.options.authorize;
      broker.terminate(TOPIC);
      expect(await refused()).toBe(ServerError.TopicTerminated);
      broker.cluster.deleteTopic(TOPIC);
      broker.cluster.autoTopicCreation = false;
      expect(await refused()).toBe(ServerError.TopicNotFound);
      client.send('partitionMetadata', { topic: TOPIC, requestId: 4 });
      expect(await client.next('partitionMetadataResponse')).toMatchObject({
        response: 1,
        error: ServerError.TopicNotFound,
      });
    });

    it('by script, in the form that belongs to the command', async () => {
      const client = await open();
      broker.failNext('lookupTopic', 'ServiceNotReady', 'not yet');
      expect(await client.lookup(TOPIC)).toMatchObject({ response: 2, error: 6, message: 'not yet' });
      broker.failNext('producer', 'PersistenceError');
      await ask(client);
      expect(await client.next('error')).toMatchObject({ requestId: '100', error: 2 });
      await client.produce(TOPIC, { producerName: 'p' });
      broker.failNext('send', 'NotAllowedError', 'scripted', 2);
      sendOne(client, 0);
      sendOne(client, 1);
      sendOne(client, 2);
      expect(await client.next('sendError')).toMatchObject({ sequenceId: '0', error: 22, message: 'scripted' });
      expect(await client.next('sendError')).toMatchObject({ sequenceId: '1' });
      expect(await client.next('sendReceipt')).toMatchObject({ sequenceId: '2' });
      expect(broker.figures).toMatchObject({ sends: 3, stored: 1, sendErrors: 2 });
    });
  });

  describe('SEND', () => {
    it('answers a wrong checksum with SEND_ERROR and goes on with the next', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      const broken = tailOf({ ...ID, sequenceId: 0 }, Buffer.from('x'));
      broken[2] = broken[2] ^ 1;
      client.send('send', { producerId: 1, sequenceId: 0 }, broken);
      sendOne(client, 1);
      expect(await client.next('sendError')).toMatchObject({ sequenceId: '0', error: ServerError.ChecksumError });
      expect(await client.next('sendReceipt')).toMatchObject({ sequenceId: '1' });
      expect(broker.violations).toEqual([]);
    });

    it.each<[string, object, object, Buffer, RegExp]>([
      ['an id that differs from SEND', {}, { sequenceId: 1 }, Buffer.from('x'), /sequence id 1 in the metadata/],
      ['another producer name', {}, { producerName: 'q' }, Buffer.from('x'), /producer name differs/],
      ['a count that differs', { numMessages: 2 }, {}, Buffer.from('x'), /1 messages in the metadata, 2 in SEND/],
      [
        'a batch without a highest id',
        { numMessages: 2 },
        { numMessagesInBatch: 2, sequenceId: 0 },
        batchOf([{ payload: 'a' }, { payload: 'b' }]),
        /highest sequence id/,
      ],
      [
        'a batch that ends early',
        { numMessages: 2, highestSequenceId: 1 },
        { numMessagesInBatch: 2, highestSequenceId: 1 },
        batchOf([{ payload: 'a' }]),
        /ends at message 1/,
      ],
      [
        'bytes behind a batch',
        { numMessages: 1 },
        { numMessagesInBatch: 1 },
        Buffer.concat([batchOf([{ payload: 'a' }]), Buffer.from('zz')]),
        /2 bytes left/,
      ],
      [
        'a wrong uncompressed size',
        {},
        { compression: 2, uncompressedSize: 3 },
        Buffer.from('789c030000000001', 'hex'),
        /uncompressed size/,
      ],
    ])('closes at %s, and says why', async (_name, send, metadata, payload, why) => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      client.send(
        'send',
        { producerId: 1, sequenceId: 0, ...send },
        tailOf({ ...ID, sequenceId: 0, ...metadata }, payload),
      );
      await client.whenClosed();
      expect(broker.violations[0]).toMatch(why);
    });

    it('closes at a payload without checksum and at frames that are none', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      client.send('send', { producerId: 1, sequenceId: 0 }, Buffer.from('xx'));
      await client.whenClosed();
      const second = await open();
      second.sendRaw(Buffer.from('00000008000000ff00000000', 'hex'));
      await second.whenClosed();
      const third = await open();
      third.sendRaw(Buffer.from('7fffffff', 'hex'));
      await third.whenClosed();
      expect(broker.violations.map((text) => text.replace(/^connection \d: /, ''))).toEqual([
        'SEND 0: payload without a checksum (0x0e01)',
        'command is longer than its frame',
        'frame of 2147483647 bytes, allowed are 5253120',
      ]);
    });

    it('answers -1:-1 for what deduplication has seen, whole batches included', async () => {
      broker.topic(TOPIC).deduplication = true;
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      const batch = (first: number, last: number): void => {
        const count = last - first + 1;
        const payload = batchOf(Array.from({ length: count }, (_, index) => ({ payload: String(first + index) })));
        const ids = { sequenceId: first, highestSequenceId: last };
        const tail = tailOf({ ...ID, ...ids, numMessagesInBatch: count }, payload);
        client.send('send', { producerId: 1, ...ids, numMessages: count }, tail);
      };
      batch(6, 8);
      batch(8, 10);
      const minusOne = '18446744073709551615';
      expect((await client.next('sendReceipt'))['messageId']).toMatchObject({ entryId: '0' });
      expect((await client.next('sendReceipt'))['messageId']).toMatchObject({ ledgerId: minusOne, entryId: minusOne });
      expect(broker.topic(TOPIC).texts).toEqual(['6', '7', '8']);
      expect(broker.topic(TOPIC).deduplicated).toBe(1);
    });

    it('stores repetitions without deduplication and counts them', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      sendOne(client, 0, 'a');
      sendOne(client, 0, 'a');
      await client.next('sendReceipt');
      await client.next('sendReceipt');
      expect(broker.topic(TOPIC).texts).toEqual(['a', 'a']);
      expect(broker.topic(TOPIC).repeated).toBe(1);
    });

    it('says nothing any more after a message that is too large but fits a frame', async () => {
      broker.options.maxMessageSize = 100;
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      sendOne(client, 0, 'x'.repeat(200));
      sendOne(client, 1, 'small');
      client.send('ping', {});
      await client.next('pong');
      expect(client.received).toEqual([]);
      expect(broker.topic(TOPIC).messages).toEqual([]);
    });

    it('ignores SENDs of a closed producer silently', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      broker.unload(TOPIC);
      expect(await client.next('closeProducer')).toMatchObject({ producerId: '1', requestId: '18446744073709551615' });
      sendOne(client, 0);
      client.send('ping', {});
      await client.next('pong');
      expect(client.received).toEqual([]);
      expect(broker.figures.ignored).toBe(1);
      client.send('producer', { topic: TOPIC, producerId: 1, requestId: 5 });
      expect(await client.next('error')).toMatchObject({ error: 6 });
    });

    it('keeps chunks alone and can put them together', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      const chunk = (id: number): object => ({ uuid: 'u', chunkId: id, numChunksFromMsg: 2, totalChunkMsgSize: 4 });
      sendOne(client, 0, 'ab', chunk(0));
      sendOne(client, 1, 'alone');
      sendOne(client, 0, 'cd', chunk(1));
      for (let count = 0; count < 3; count++) await client.next('sendReceipt');
      expect(broker.topic(TOPIC).texts).toEqual(['ab', 'alone', 'cd']);
      expect(broker.topic(TOPIC).assembled.map((one) => one.payload?.toString())).toEqual(['alone', 'abcd']);
    });
  });
});
