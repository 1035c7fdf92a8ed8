import { type MqttBrokerOptions, InMemoryMqttBroker } from '../../../lib/testing/index.js';
import { RawMqttClient } from './raw-mqtt-client.js';

describe('what the in-memory MQTT broker does not accept', () => {
  let broker: InMemoryMqttBroker;
  const clients: RawMqttClient[] = [];
  const open = async (options: object = {}, version: 4 | 5 = 5): Promise<RawMqttClient> => {
    const client = await RawMqttClient.connected(broker.port, version, options);
    clients.push(client);
    return client;
  };
  const raw = async (version: 4 | 5 = 5): Promise<RawMqttClient> => {
    const client = await RawMqttClient.open(broker.port, version);
    clients.push(client);
    return client;
  };

  beforeEach(async () => {
    broker = await InMemoryMqttBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await broker.close();
  });

  it.each<[string, MqttBrokerOptions['limits'], (client: RawMqttClient) => void, number]>([
    ['QoS over the maximum', { maximumQos: 1 }, (c) => c.publish('t', 'x', { qos: 2, messageId: 1 }), 0x9b],
    ['retain', { retainAvailable: false }, (c) => c.publish('t', 'x', { retain: true }), 0x9a],
    ['a large packet', { maximumPacketSize: 40 }, (c) => c.publish('t', 'x'.repeat(60)), 0x95],
    [
      'more than Receive Maximum',
      { receiveMaximum: 1 },
      (c) => {
        c.publish('t', 'x', { qos: 2, messageId: 1 });
        c.publish('t', 'x', { qos: 2, messageId: 2 });
      },
      0x93,
    ],
    ['a wildcard topic', {}, (c) => c.publish('a/+', 'x'), 0x90],
    ['DUP with QoS 0', {}, (c) => c.sendRaw(Buffer.from('380400017400', 'hex')), 0x81],
    ['reserved flags', {}, (c) => c.sendRaw(Buffer.from([0xc1, 0])), 0x81],
    ['a server packet', {}, (c) => c.send({ cmd: 'pingresp' }), 0x82],
    ['identifier 0', {}, (c) => c.sendRaw(Buffer.from('40020000', 'hex')), 0x82],
    ['a PUBLISH that ends early', {}, (c) => c.sendRaw(Buffer.from('320300057400', 'hex')), 0x81],
    ['an empty topic without alias', {}, (c) => c.publish('', 'x'), 0x82],
    [
      'an alias that was not set',
      { topicAliasMaximum: 5 },
      (c) => c.publish('', 'x', { properties: { topicAlias: 2 } }),
      0x82,
    ],
    ['a second CONNECT', {}, (c) => void c.connect().catch(() => undefined), 0x82],
  ])('%s', async (_name, limits, act, code) => {
    broker.options.limits = limits!;
    const client = await open();
    act(client);
    expect((await client.next('disconnect')).reasonCode).toBe(code);
    await client.whenClosed();
  });

  it('says in CONNACK what it holds clients to', async () => {
    broker.options.limits = {
      receiveMaximum: 3,
      maximumQos: 1,
      retainAvailable: false,
      maximumPacketSize: 1000,
      topicAliasMaximum: 4,
      serverKeepAlive: 7,
      sessionExpiry: 8,
      wildcardSubscriptionAvailable: false,
      subscriptionIdentifiersAvailable: false,
      sharedSubscriptionAvailable: false,
    };
    broker.options.connackProperties = { responseInformation: 'replies/' };
    const client = await raw();
    expect((await client.connect({ clientId: '', clean: true })).properties).toEqual({
      receiveMaximum: 3,
      maximumQoS: 1,
      retainAvailable: false,
      maximumPacketSize: 1000,
      topicAliasMaximum: 4,
      serverKeepAlive: 7,
      sessionExpiryInterval: 8,
      wildcardSubscriptionAvailable: false,
      subscriptionIdentifiersAvailable: false,
      sharedSubscriptionAvailable: false,
      assignedClientIdentifier: 'assigned-1',
      responseInformation: 'replies/',
    });
    expect(await client.subscribe('a/#', 1)).toEqual([0xa2]);
    expect(await client.subscribe('$share/g/a', 1)).toEqual([0x9e]);
    expect(await client.subscribe('a', 2)).toEqual([1]);
  });

  it('refuses a version in each of the ways brokers do', async () => {
    broker.options.versions = [4];
    expect(await (await raw(4)).connect({ clientId: 'four' })).toMatchObject({ returnCode: 0 });
    const client = await raw(5);
    void client.connect().catch(() => undefined);
    await client.whenClosed();
    expect(Buffer.concat(client.bytes)).toEqual(Buffer.from('20020001', 'hex'));
    broker.options.unsupportedVersion = 'connack-5';
    expect((await (await raw(5)).connect()).reasonCode).toBe(0x84);
    broker.options.unsupportedVersion = 'close';
    await expect((await raw(5)).connect()).rejects.toThrow('closed');
    broker.options.versions = [5];
    broker.options.unsupportedVersion = 'connack-4';
    expect((await (await raw(4)).connect()).returnCode).toBe(1);
  });

  it('refuses by script, by credentials and without a client id under 3.1.1', async () => {
    broker.refuseConnect(0x88, 2);
    expect((await (await raw()).connect()).reasonCode).toBe(0x88);
    expect((await (await raw()).connect()).reasonCode).toBe(0x88);
    expect((await (await raw()).connect()).reasonCode).toBe(0);
    broker.options.authenticate = async ({ username, password }) => username === 'u' && password?.toString() === 'p';
    expect((await (await raw()).connect()).reasonCode).toBe(0x87);
    expect((await (await raw(4)).connect()).returnCode).toBe(5);
    expect((await (await raw(4)).connect({ username: 'u', password: Buffer.from('p') })).returnCode).toBe(0);
    broker.options.authenticate = () => 0x97;
    expect((await (await raw()).connect()).reasonCode).toBe(0x97);
    delete broker.options.authenticate;
    const nameless = await raw(4);
    nameless.sendRaw(Buffer.from('100c00044d5154540400000000000000', 'hex').subarray(0, 14));
    expect((await nameless.next('connack')).returnCode).toBe(2);
  });

  it('closes at a packet before CONNECT and at a client that is silent for too long', async () => {
    const early = await raw();
    early.send({ cmd: 'pingreq' });
    await early.whenClosed();
    expect(broker.violations[0]).toContain('PINGREQ before CONNECT');
    const silent = await open({ keepalive: 1 });
    expect((await silent.next('disconnect')).reasonCode).toBe(0x8d);
    broker.options.enforceKeepAlive = false;
    const patient = await open({ keepalive: 1 });
    await new Promise((resolve) => setTimeout(resolve, 1700));
    expect(patient.closed).toBe(false);
  });

  it('reports acknowledgements that are out of order or belong to nothing', async () => {
    const client = await open();
    await client.subscribe('t', 2);
    broker.publish('t', 'a');
    broker.publish('t', 'b');
    broker.publish('t', 'c', { qos: 2 });
    client.send({ cmd: 'pubrec', messageId: 3 });
    await client.settled();
    expect(broker.violations).toEqual([]);
    client.send({ cmd: 'puback', messageId: 2 });
    client.send({ cmd: 'puback', messageId: 44 });
    await client.settled();
    expect(broker.violations).toEqual([
      'connection 1 (raw): PUBACK 2 before that of 1 [MQTT-4.6.0-2, -3]',
      'connection 1 (raw): PUBACK 44 for a message that waits for none on this connection',
    ]);
    client.send({ cmd: 'puback', messageId: 3 });
    expect((await client.next('disconnect')).reasonCode).toBe(0x82);
  });

  it('answers SUBSCRIBE with scripted codes, UNSUBSCRIBE with 0x11 for what was not there', async () => {
    broker.options.subackCode = (filter) => (filter === 'no' ? 0x87 : filter === 'low' ? 0 : undefined);
    const client = await open();
    client.send({
      cmd: 'subscribe',
      messageId: 5,
      subscriptions: [
        { topic: 'no', qos: 1 },
        { topic: 'low', qos: 2 },
        { topic: 'yes', qos: 2 },
        { topic: 'a/#/b', qos: 0 },
      ],
    });
    expect((await client.next('suback')).granted).toEqual([0x87, 0, 2, 0x8f]);
    client.send({ cmd: 'unsubscribe', messageId: 6, unsubscriptions: ['yes', 'no'] });
    expect((await client.next('unsuback')).granted).toEqual([0, 0x11]);
    const old = await open({ clientId: 'old' }, 4);
    expect(await old.subscribe('no')).toEqual([0x80]);
  });

  it('lets a test judge each message', async () => {
    broker.onPublish = (packet) => (packet.topic === 'bad' ? 0x97 : undefined);
    broker.options.reportNoSubscribers = true;
    const client = await open();
    client.publish('bad', 'x', { qos: 2, messageId: 1 });
    expect((await client.next('pubrec')).reasonCode).toBe(0x97);
    client.publish('good', 'x', { qos: 1, messageId: 1 });
    expect((await client.next('puback')).reasonCode).toBe(0x10);
  });

  it('leads through enhanced authentication, and through it again', async () => {
    broker.options.enhancedAuth = (data, method, step) => {
      if (method !== 'SCRAM') return { fail: 0x8c };
      if (data?.toString() === 'wrong') return { fail: 0x87 };
      return step === 0 ? { continue: Buffer.from('challenge') } : { success: Buffer.from('welcome') };
    };
    const properties = { authenticationMethod: 'SCRAM', authenticationData: Buffer.from('hello') };
    const client = await raw();
    const connack = client.connect({ properties });
    expect(await client.next('auth')).toMatchObject({ reasonCode: 0x18 });
    client.send({ cmd: 'auth', reasonCode: 0x18, properties });
    expect((await connack).properties).toMatchObject({ authenticationData: Buffer.from('welcome') });
    client.send({ cmd: 'auth', reasonCode: 0x19, properties });
    expect((await client.next('auth')).reasonCode).toBe(0x18);
    client.send({ cmd: 'auth', reasonCode: 0x18, properties });
    expect((await client.next('auth')).reasonCode).toBe(0);
    const wrong = { authenticationMethod: 'SCRAM', authenticationData: Buffer.from('wrong') };
    client.send({ cmd: 'auth', reasonCode: 0x19, properties: wrong });
    expect((await client.next('disconnect')).reasonCode).toBe(0x87);
    const other = await raw();
    expect((await other.connect({ properties: { authenticationMethod: 'X' } })).reasonCode).toBe(0x8c);
  });
});
