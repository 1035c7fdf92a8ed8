import { InMemoryPulsarBroker, InMemoryPulsarCluster } from '../../../lib/testing/index.js';
import { RawPulsarClient, tailOf } from './raw-pulsar-client.js';

const TOPIC = 'persistent://public/default/telemetry';
const ID = { producerName: 'p', publishTime: 1_700_000_000_000 };

describe('faults and lookups of the in-memory Pulsar broker', () => {
  let broker: InMemoryPulsarBroker;
  const others: InMemoryPulsarBroker[] = [];
  const clients: RawPulsarClient[] = [];
  const open = async (at = broker, options?: Parameters<typeof RawPulsarClient.open>[1]): Promise<RawPulsarClient> => {
    const client = await RawPulsarClient.open(at.port, options);
    clients.push(client);
    return client;
  };
  const sendOne = (client: RawPulsarClient, sequenceId: number, payload = 'x'): void => {
    client.send('send', { producerId: 1, sequenceId }, tailOf({ ...ID, sequenceId }, Buffer.from(payload)));
  };
  const pinged = async (client: RawPulsarClient): Promise<void> => {
    client.send('ping', {});
    await client.next('pong');
  };

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    for (const one of [broker, ...others.splice(0)]) await one.close();
  });

  it('holds receipts, releases some, in another order, or never', async () => {
    const client = await open();
    await client.produce(TOPIC, { producerName: 'p' });
    broker.holdReceipts();
    for (let id = 0; id < 5; id++) sendOne(client, id);
    await pinged(client);
    expect(client.received).toEqual([]);
    expect(broker.topic(TOPIC).messages).toHaveLength(5);
    broker.releaseReceipts({ count: 1 });
    expect(await client.next('sendReceipt')).toMatchObject({ sequenceId: '0' });
    broker.faults.dropReceipts(1);
    broker.releaseReceipts({ order: 'reversed' });
    await pinged(client);
    expect(client.received.map((one) => one.body['sequenceId'])).toEqual(['4', '3', '2']);
    sendOne(client, 5);
    await client.next('sendReceipt', (body) => body['sequenceId'] === '5');
  });

  it('loses held receipts with their connection', async () => {
    const client = await open();
    await client.produce(TOPIC, { producerName: 'p' });
    broker.holdReceipts(TOPIC);
    sendOne(client, 0);
    await broker.waitFor(() => broker.faults.heldReceipts === 1);
    broker.cut();
    await client.whenClosed();
    expect(broker.faults.heldReceipts).toBe(0);
    expect(broker.topic(TOPIC).producers.size).toBe(0);
  });

  it('lets a test send any receipt, unknown commands and bytes', async () => {
    const client = await open();
    const connection = broker.connection!;
    connection.send('sendReceipt', { producerId: 1, sequenceId: 77, messageId: { ledgerId: -1, entryId: -1 } });
    expect(await client.next('sendReceipt')).toMatchObject({
      sequenceId: '77',
      messageId: { ledgerId: '18446744073709551615' },
    });
    connection.sendUnknownCommand();
    expect(broker.log.sent('raw')[0]?.toString('hex')).toBe('000000070000000308e807');
    const expected = connection.expect('ping');
    client.send('ping', {});
    await expected;
  });

  it('is silent, withholds, delays and replaces', async () => {
    const client = await open();
    broker.silenceNext('lookupTopic');
    client.send('lookupTopic', { topic: TOPIC, requestId: 1 });
    const restore = broker.withhold('lookupTopicResponse');
    client.send('lookupTopic', { topic: TOPIC, requestId: 2 });
    await pinged(client);
    restore();
    const undo = broker.onSend((command) =>
      command.type === 'lookupTopicResponse'
        ? { type: 'lookupTopicResponse', body: { ...command.body, brokerServiceUrl: 'pulsar://elsewhere:1' } }
        : undefined,
    );
    expect(await client.lookup(TOPIC)).toMatchObject({ brokerServiceUrl: 'pulsar://elsewhere:1' });
    undo();
    broker.onReceive((type) => (type === 'partitionMetadata' ? 'ignore' : undefined));
    broker.delay('pong', 20);
    client.send('partitionMetadata', { topic: TOPIC, requestId: 4 });
    client.send('ping', {});
    client.send('lookupTopic', { topic: TOPIC, requestId: 5 });
    await client.next('pong');
    expect(client.received.map((one) => one.type)).toEqual(['lookupTopicResponse']);
  });

  it('truncates a frame, stalls, forgets a connection, and stops listening', async () => {
    const client = await open();
    broker.stall({ writes: true });
    client.send('ping', {});
    await broker.log.waitForReceived('ping');
    expect(client.received).toEqual([]);
    broker.unstall();
    await client.next('pong');
    broker.truncate(3);
    client.send('ping', {});
    await client.whenClosed();
    const forgotten = await open();
    broker.connection?.halfOpen();
    forgotten.send('ping', {});
    const { port } = broker;
    await broker.stopListening();
    expect(broker.listening).toBe(false);
    await expect(RawPulsarClient.open(port)).rejects.toThrow('ECONNREFUSED');
    await broker.listen();
    await open();
    expect(forgotten.received).toEqual([]);
    expect(forgotten.closed).toBe(false);
    broker.refuse();
    const refused = await open(broker, { handshake: false });
    await refused.whenClosed();
  });

  it('pings, and closes when nothing comes back', async () => {
    broker.options.keepAliveInterval = 30;
    const client = await open();
    await client.next('ping');
    client.send('pong', {});
    await client.next('ping');
    await client.whenClosed();
  });

  it('authenticates, challenges, and closes at a wrong or missing answer', async () => {
    broker.options.authenticate = async (method, data) => method === 'token' && data.toString().startsWith('good');
    const refused = await open(broker, { handshake: false });
    refused.send('connect', { clientVersion: 'raw', authMethodName: 'token', authData: Buffer.from('bad') });
    expect(await refused.next('error')).toMatchObject({ requestId: '18446744073709551615', error: 3 });
    await refused.whenClosed();
    const good = { connect: { authMethodName: 'token', authData: Buffer.from('good') } };
    const client = await open(broker, good);
    broker.authChallenge();
    expect(await client.next('authChallenge')).toMatchObject({ challenge: { authMethodName: 'token' } });
    client.send('authResponse', { response: { authMethodName: 'token', authData: Buffer.from('good again') } });
    await pinged(client);
    broker.authChallenge();
    client.send('authResponse', { response: { authMethodName: 'token', authData: Buffer.from('bad') } });
    await client.whenClosed();
    broker.options.authChallengeTimeout = 20;
    const silent = await open(broker, good);
    broker.authChallenge();
    await silent.whenClosed();
  });

  it('wants CONNECT first and once', async () => {
    const early = await open(broker, { handshake: false });
    early.send('ping', {});
    await early.whenClosed();
    const twice = await open();
    twice.send('connect', { clientVersion: 'raw' });
    await twice.whenClosed();
    const odd = await open();
    odd.send('pong', {});
    odd.send('success', { requestId: 1 });
    await odd.whenClosed();
    expect(broker.violations.map((text) => text.replace(/^connection \d: /, ''))).toEqual([
      'ping before CONNECTED',
      'a second CONNECT',
      'a client must not send success',
    ]);
    broker.failNext('connect', 'ServiceNotReady', 'starting');
    const refused = await open(broker, { handshake: false });
    refused.send('connect', { clientVersion: 'raw' });
    expect(await refused.next('error')).toMatchObject({ error: 6, message: 'starting' });
  });

  describe('with more than one broker', () => {
    let cluster: InMemoryPulsarCluster;
    let second: InMemoryPulsarBroker;

    beforeEach(async () => {
      await broker.close();
      cluster = new InMemoryPulsarCluster();
      broker = await InMemoryPulsarBroker.start({ cluster });
      second = await InMemoryPulsarBroker.start({ cluster });
      others.push(second);
    });

    it('redirects to the owner, refuses elsewhere, and shares the store', async () => {
      cluster.assign(TOPIC, second);
      const client = await open();
      expect(await client.lookup(TOPIC)).toMatchObject({
        response: 0,
        brokerServiceUrl: second.url,
        authoritative: true,
        proxyThroughServiceUrl: false,
      });
      client.send('producer', { topic: TOPIC, producerId: 1, requestId: 7 });
      expect(await client.next('error')).toMatchObject({ error: 6 });
      const there = await open(second);
      await there.produce(TOPIC, { producerName: 'p' });
      sendOne(there, 0, 'stored');
      await there.next('sendReceipt');
      expect(broker.topic(TOPIC).texts).toEqual(['stored']);
    });

    it('moves a topic with an assigned URL, and takes over what a stopped broker served', async () => {
      const client = await open();
      await client.produce(TOPIC, { producerName: 'p' });
      cluster.assign(TOPIC, second);
      broker.unload(TOPIC, { brokerServiceUrl: second.url });
      expect(await client.next('closeProducer')).toMatchObject({ assignedBrokerServiceUrl: second.url });
      expect(await client.lookup(TOPIC)).toMatchObject({ response: 0, brokerServiceUrl: second.url });
      await second.stopListening();
      expect(await client.lookup(TOPIC)).toMatchObject({ response: 1, brokerServiceUrl: broker.url });
    });

    it('redirects by script and tells of a migration', async () => {
      const client = await open();
      broker.redirectLookup('pulsar://127.0.0.1:1', { authoritative: false });
      expect(await client.lookup(TOPIC)).toMatchObject({ response: 0, brokerServiceUrl: 'pulsar://127.0.0.1:1' });
      await client.produce(TOPIC);
      broker.migrate(TOPIC, second.url);
      expect(await client.next('topicMigrated')).toMatchObject({ resourceId: '1', brokerServiceUrl: second.url });
    });
  });

  it('knows partitions, topics of a namespace, and invalid names', async () => {
    broker.cluster.setPartitions('parted', 3);
    const client = await open();
    client.send('partitionMetadata', { topic: 'persistent://public/default/parted', requestId: 1 });
    expect(await client.next('partitionMetadataResponse')).toMatchObject({ partitions: 3, response: 0 });
    client.send('getTopicsOfNamespace', { namespace: 'public/default', requestId: 2 });
    expect((await client.next('getTopicsOfNamespaceResponse'))['topics']).toEqual([
      'persistent://public/default/parted-partition-0',
      'persistent://public/default/parted-partition-1',
      'persistent://public/default/parted-partition-2',
    ]);
    expect(await client.lookup('nonsense')).toMatchObject({ response: 2, error: 17 });
  });

  it('keeps schemas by version', async () => {
    broker.topic(TOPIC);
    const client = await open();
    const schema = (text: string): object => ({ name: 's', type: 2, schemaData: Buffer.from(text) });
    const versions: Buffer[] = [];
    for (const text of ['{}', '{"a":1}', '{}']) {
      client.send('getOrCreateSchema', { topic: TOPIC, requestId: 1, schema: schema(text) });
      versions.push((await client.next('getOrCreateSchemaResponse'))['schemaVersion'] as Buffer);
    }
    expect(versions.map((one) => one.readBigInt64BE(0))).toEqual([0n, 1n, 0n]);
    client.send('getSchema', { topic: TOPIC, requestId: 2 });
    expect((await client.next('getSchemaResponse'))['schema']).toMatchObject({ schemaData: Buffer.from('{"a":1}') });
    client.send('getSchema', { topic: 'persistent://public/default/none', requestId: 3 });
    expect(await client.next('getSchemaResponse')).toMatchObject({ errorCode: 11 });
    client.send('getOrCreateSchema', { topic: 'persistent://public/default/none', requestId: 4, schema: schema('{}') });
    expect(await client.next('getOrCreateSchemaResponse')).toMatchObject({ errorCode: 11 });
  });
});
