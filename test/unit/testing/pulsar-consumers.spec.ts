import { InMemoryPulsarBroker } from '../../../lib/testing/index.js';
import { batchOf, type RawCommand, RawPulsarClient, tailOf } from './raw-pulsar-client.js';

const TOPIC = 'persistent://public/default/telemetry';
const ID = { producerName: 'p', publishTime: 1_700_000_000_000 };

describe('consumers at the in-memory Pulsar broker', () => {
  let broker: InMemoryPulsarBroker;
  let producer: RawPulsarClient;
  const clients: RawPulsarClient[] = [];
  let sequenceId = 0;
  const open = async (): Promise<RawPulsarClient> => {
    const client = await RawPulsarClient.open(broker.port);
    clients.push(client);
    return client;
  };
  const store = async (payload: string, metadata: object = {}): Promise<void> => {
    const ids = { producerId: 1, sequenceId: sequenceId++ };
    producer.send('send', ids, tailOf({ ...ID, sequenceId: ids.sequenceId, ...metadata }, Buffer.from(payload)));
    await producer.next('sendReceipt');
  };
  const storeBatch = async (payloads: readonly string[]): Promise<void> => {
    const count = payloads.length;
    const ids = { sequenceId, highestSequenceId: sequenceId + count - 1 };
    sequenceId += count;
    const tail = tailOf(
      { ...ID, ...ids, numMessagesInBatch: count },
      batchOf(payloads.map((payload) => ({ payload }))),
    );
    producer.send('send', { producerId: 1, ...ids, numMessages: count }, tail);
    await producer.next('sendReceipt');
  };
  const subscribe = async (client: RawPulsarClient, subType = 0, options: object = {}): Promise<void> => {
    await client.lookup(TOPIC);
    const command = { topic: TOPIC, subscription: 's', subType, consumerId: 1, requestId: 1, initialPosition: 1 };
    client.send('subscribe', { ...command, ...options });
    await client.next('success');
  };
  const flow = (client: RawPulsarClient, messagePermits: number, consumerId = 1): void =>
    client.send('flow', { consumerId, messagePermits });
  const lastByte = (message: RawCommand): string => message.tail.subarray(-1).toString();
  const received = async (client: RawPulsarClient): Promise<string[]> => {
    client.send('ping', {});
    await client.next('pong');
    return client.received.filter((one) => one.type === 'message').map(lastByte);
  };

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
    sequenceId = 0;
    producer = await open();
    await producer.produce(TOPIC, { producerName: 'p' });
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await broker.close();
  });

  it('sends as many messages as there are permits, and gives un-acknowledged ones to the next consumer', async () => {
    for (const text of ['a', 'b', 'c']) await store(text);
    const first = await open();
    await subscribe(first);
    flow(first, 2);
    expect(await received(first)).toEqual(['a', 'b']);
    const id = first.received[0].body['messageId'];
    first.send('ack', { consumerId: 1, ackType: 0, messageId: [id] });
    await broker.log.waitForReceived('ack');
    const rival = await open();
    await rival.lookup(TOPIC);
    rival.send('subscribe', { topic: TOPIC, subscription: 's', subType: 0, consumerId: 1, requestId: 9 });
    expect(await rival.next('error')).toMatchObject({ requestId: '9', error: 5 });
    first.close();
    await broker.waitFor(() => broker.topic(TOPIC).subscriptions.get('s')?.consumers.length === 0);
    await subscribe(rival);
    flow(rival, 10);
    expect(await received(rival)).toEqual(['b', 'c']);
  });

  it('acknowledges up to a message, and members of a batch alone', async () => {
    await store('a');
    await storeBatch(['b', 'c', 'd']);
    const client = await open();
    await subscribe(client);
    flow(client, 10);
    const [, batch] = [await client.take('message'), await client.take('message')];
    const subscription = broker.topic(TOPIC).subscriptions.get('s')!;
    expect(subscription.backlog).toBe(4);
    // Remaining indexes: 1 alone.
    const messageId = { ...batch.body['messageId'], ackSet: [2], batchSize: 3 };
    client.send('ack', { consumerId: 1, ackType: 1, messageId: [messageId], requestId: 4 });
    await client.next('ackResponse');
    expect(subscription.backlog).toBe(1);
    client.send('redeliverUnacknowledgedMessages', { consumerId: 1 });
    expect((await client.take('message')).body).toMatchObject({ ackSet: ['2'], redeliveryCount: 1 });
    client.send('ack', { consumerId: 1, ackType: 0, messageId: [batch.body['messageId']], requestId: 5 });
    await client.next('ackResponse');
    expect(subscription.backlog).toBe(0);
    client.send('ack', { consumerId: 77, ackType: 0, messageId: [batch.body['messageId']], requestId: 6 });
    expect(await received(client)).toEqual([]);
    expect(client.received).toEqual([]);
  });

  it('shares messages, by turns or by key, and fails over', async () => {
    const [first, second] = [await open(), await open()];
    for (const client of [first, second]) {
      await subscribe(client, 1, { subscription: 'shared' });
      flow(client, 100);
    }
    for (const text of ['a', 'b', 'c', 'd']) await store(text);
    expect([await received(first), await received(second)]).toEqual([
      ['a', 'c'],
      ['b', 'd'],
    ]);
    const [third, fourth] = [await open(), await open()];
    for (const client of [third, fourth]) await subscribe(client, 3, { subscription: 'keyed' });
    for (const client of [third, fourth]) flow(client, 100);
    for (const key of ['1', '2', '3', '4']) {
      await store('x', { partitionKey: key });
      await store('y', { partitionKey: key });
    }
    const counts = [await received(third), await received(fourth)].map((texts) => texts.length);
    expect(counts[0] + counts[1]).toBe(12);
    expect(counts.every((count) => count % 2 === 0)).toBe(true);
    const [active, standby] = [await open(), await open()];
    for (const client of [active, standby]) {
      await subscribe(client, 2, { subscription: 'failover', initialPosition: 0 });
      flow(client, 100);
    }
    expect(await active.next('activeConsumerChange')).toMatchObject({ isActive: true });
    expect(await standby.next('activeConsumerChange')).toMatchObject({ isActive: false });
    await store('z');
    expect([await received(active), await received(standby)]).toEqual([['z'], []]);
    active.close();
    expect(await standby.next('activeConsumerChange')).toMatchObject({ isActive: true });
    expect(await received(standby)).toEqual(['z']);
  });

  it('seeks, closing the consumer before it says success', async () => {
    for (const text of ['a', 'b', 'c']) await store(text);
    const client = await open();
    await subscribe(client);
    flow(client, 1);
    const first = await client.take('message');
    client.send('seek', { consumerId: 1, requestId: 2, messageId: first.body['messageId'] });
    await client.next('success');
    expect(client.received.map((one) => one.type)).toEqual(['closeConsumer']);
    await subscribe(client);
    flow(client, 10);
    expect(await received(client)).toEqual(['a', 'b', 'c']);
    client.send('getLastMessageId', { consumerId: 1, requestId: 3 });
    expect(await client.next('getLastMessageIdResponse')).toMatchObject({ lastMessageId: { entryId: '2' } });
  });

  it('tells the end of a terminated topic after the last acknowledgement', async () => {
    await store('a');
    const client = await open();
    await subscribe(client);
    flow(client, 10);
    const message = await client.take('message');
    broker.terminate(TOPIC);
    expect(await received(client)).toEqual([]);
    expect(client.received).toEqual([]);
    client.send('ack', { consumerId: 1, ackType: 0, messageId: [message.body['messageId']] });
    await client.next('reachedEndOfTopic');
  });

  it('closes consumers at an unload, and forgets a subscription at UNSUBSCRIBE or of a reader', async () => {
    const client = await open();
    await subscribe(client);
    broker.unload(TOPIC);
    await client.next('closeConsumer');
    await subscribe(client);
    client.send('unsubscribe', { consumerId: 1, requestId: 8 });
    await client.next('success');
    expect(broker.topic(TOPIC).subscriptions.size).toBe(0);
    await subscribe(client, 0, { subscription: 'reader', durable: false, startMessageId: { ledgerId: 0, entryId: 0 } });
    client.send('closeConsumer', { consumerId: 1, requestId: 9 });
    await client.next('success');
    expect(broker.topic(TOPIC).subscriptions.size).toBe(0);
  });

  it('delays messages on shared subscriptions', async () => {
    const client = await open();
    await subscribe(client, 1);
    flow(client, 10);
    await store('l', { deliverAtTime: Date.now() + 60 });
    await store('n');
    expect(lastByte(await client.take('message'))).toBe('n');
    expect(lastByte(await client.take('message'))).toBe('l');
  });
});
