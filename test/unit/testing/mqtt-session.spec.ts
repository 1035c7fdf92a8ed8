import { type IPublishPacket } from 'mqtt-packet';
import { InMemoryMqttBroker } from '../../../lib/testing/index.js';
import { RawMqttClient } from './raw-mqtt-client.js';

describe.each([4, 5] as const)('sessions of the in-memory MQTT broker, protocol version %i', (version) => {
  let broker: InMemoryMqttBroker;
  const clients: RawMqttClient[] = [];
  const open = async (options: object = {}): Promise<RawMqttClient> => {
    const client = await RawMqttClient.connected(broker.port, version, options);
    clients.push(client);
    return client;
  };
  const seen = (packet: IPublishPacket): [string, number | undefined, boolean] => [
    packet.payload.toString(),
    packet.messageId,
    packet.dup,
  ];

  beforeEach(async () => {
    broker = await InMemoryMqttBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await broker.close();
  });

  it('keeps un-acknowledged and queued messages, and sends them in order with DUP first', async () => {
    const first = await open();
    await first.subscribe('t');
    for (const text of ['a', 'b', 'c']) broker.publish('t', text);
    expect(seen(await first.next('publish'))).toEqual(['a', 1, false]);
    await first.next('publish');
    await first.next('publish');
    first.send({ cmd: 'puback', messageId: 1 });
    await broker.log.waitForReceived('puback');
    first.close();
    await broker.waitFor(() => broker.connections.length === 0);
    broker.publish('t', 'd');

    const second = await RawMqttClient.open(broker.port, version);
    clients.push(second);
    expect((await second.connect()).sessionPresent).toBe(true);
    const copies = [await second.next('publish'), await second.next('publish'), await second.next('publish')];
    expect(copies.map(seen)).toEqual([
      ['b', 2, true],
      ['c', 3, true],
      ['d', 4, false],
    ]);
    expect(broker.session('raw')?.inFlight.size).toBe(3);
    expect(broker.violations).toEqual([]);
  });

  it('resends without DUP and in another order where it is told to', async () => {
    broker.options.dupOnResend = false;
    broker.options.resendOrder = 'reversed';
    const first = await open();
    await first.subscribe('t');
    broker.publish('t', 'a');
    broker.publish('t', 'b');
    await first.next('publish');
    await first.next('publish');
    first.close();
    const second = await open();
    expect([seen(await second.next('publish')), seen(await second.next('publish'))]).toEqual([
      ['b', 2, false],
      ['a', 1, false],
    ]);
  });

  it('goes on with PUBREL after PUBREC, not with PUBLISH', async () => {
    const first = await open();
    await first.subscribe('t', 2);
    broker.publish('t', 'a', { qos: 2 });
    const { messageId } = await first.next('publish');
    first.send({ cmd: 'pubrec', messageId: messageId! });
    await first.next('pubrel');
    first.close();
    const second = await open();
    expect((await second.next('pubrel')).messageId).toBe(messageId);
    second.send({ cmd: 'pubcomp', messageId: messageId! });
    await second.settled();
    expect(second.received.filter((packet) => packet.cmd === 'publish')).toEqual([]);
    expect(broker.session('raw')?.inFlight.size).toBe(0);
  });

  it('delivers a QoS 2 message of a client once, however often it comes before PUBREL', async () => {
    const reader = await open({ clientId: 'reader' });
    await reader.subscribe('t', 2);
    const writer = await open({ clientId: 'writer' });
    writer.publish('t', 'once', { qos: 2, messageId: 7 });
    writer.publish('t', 'once', { qos: 2, messageId: 7, dup: true });
    await writer.next('pubrec');
    await writer.next('pubrec');
    writer.send({ cmd: 'pubrel', messageId: 7 });
    writer.send({ cmd: 'pubrel', messageId: 7 });
    expect((await writer.next('pubcomp')).reasonCode ?? 0).toBe(0);
    expect((await writer.next('pubcomp')).reasonCode).toBe(version === 5 ? 0x92 : undefined);
    await reader.settled();
    expect(reader.received.filter((packet) => packet.cmd === 'publish')).toHaveLength(1);
  });

  it('forgets a session on Clean Start, when it is dropped, and says so', async () => {
    const first = await open();
    await first.subscribe('t');
    expect(broker.dropSession('raw')).toBe(true);
    first.close();
    const again = await RawMqttClient.open(broker.port, version);
    clients.push(again);
    expect((await again.connect()).sessionPresent).toBe(false);
    await again.subscribe('t');
    again.close();
    const clean = await RawMqttClient.open(broker.port, version);
    clients.push(clean);
    expect((await clean.connect({ clean: true })).sessionPresent).toBe(false);
    expect(broker.session('raw')?.subscriptions.size).toBe(0);
  });

  it('takes the session over from an older connection of the same client', async () => {
    const first = await open();
    await open();
    if (version === 5) expect((await first.next('disconnect')).reasonCode).toBe(0x8e);
    await first.whenClosed();
    expect(broker.connections).toHaveLength(1);
    expect(broker.session('raw')?.connection?.number).toBe(2);
  });

  it('publishes the will of a lost connection, not of one that said DISCONNECT', async () => {
    const watcher = await open({ clientId: 'watcher' });
    await watcher.subscribe('gone/+');
    const will = (name: string): object => ({
      clientId: name,
      will: { topic: `gone/${name}`, payload: Buffer.from(name), qos: 1, retain: false },
    });
    const polite = await open(will('polite'));
    polite.send({ cmd: 'disconnect' });
    await polite.whenClosed();
    const lost = await open(will('lost'));
    lost.close();
    expect((await watcher.next('publish')).topic).toBe('gone/lost');
  });

  it('drops the newest once the queue of a session is full', async () => {
    broker.options.maxQueued = 2;
    const first = await open();
    await first.subscribe('t');
    first.close();
    await broker.waitFor(() => broker.connections.length === 0);
    for (const text of ['a', 'b', 'c']) broker.publish('t', text);
    expect(broker.session('raw')?.dropped).toBe(1);
    const second = await open();
    expect(seen(await second.next('publish'))).toEqual(['a', 1, false]);
    expect(seen(await second.next('publish'))).toEqual(['b', 2, false]);
    await second.settled();
    expect(second.received).toEqual([]);
  });

  it('gives each message of a shared subscription to one member', async () => {
    const members = [await open({ clientId: 'm1' }), await open({ clientId: 'm2' })];
    for (const member of members) await member.subscribe('$share/g/work/#');
    for (let count = 0; count < 6; count++) broker.publish('work/x', String(count));
    for (const member of members) await member.settled();
    const got = members.map((member) => member.received.map((packet) => (packet as IPublishPacket).payload.toString()));
    expect(got.map((one) => one.length)).toEqual([3, 3]);
    expect(got.flat().sort()).toEqual(['0', '1', '2', '3', '4', '5']);
  });
});

describe('sessions of the in-memory MQTT broker, MQTT 5 alone', () => {
  let broker: InMemoryMqttBroker;
  const clients: RawMqttClient[] = [];
  const open = async (options: object = {}): Promise<RawMqttClient> => {
    const client = await RawMqttClient.connected(broker.port, 5, options);
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

  it('delivers a message whose set of user properties is empty', async () => {
    const client = await open();
    await client.subscribe('t', 1);
    broker.publish('t', 'a', { qos: 1, properties: { userProperties: {} } });
    await client.settled();
    expect(client.received.filter(({ cmd }) => cmd === 'publish')).toHaveLength(1);
  });

  it('sends no more than Receive Maximum, and more where it is told to break it', async () => {
    const client = await open({ properties: { receiveMaximum: 2 } });
    await client.subscribe('t', 2);
    for (const text of ['a', 'b', 'c', 'd', 'e']) broker.publish('t', text, { qos: text === 'a' ? 2 : 1 });
    await client.settled();
    const ids = (): (number | undefined)[] =>
      client.received.filter((one) => one.cmd === 'publish').map((one) => one.messageId);
    expect(ids()).toEqual([1, 2]);
    // A QoS 2 message uses its place until PUBCOMP.
    client.send({ cmd: 'pubrec', messageId: 1 });
    await client.settled();
    expect(ids()).toEqual([1, 2]);
    client.send({ cmd: 'pubcomp', messageId: 1 });
    await client.settled();
    expect(ids()).toEqual([1, 2, 3]);
    broker.options.overrun = 5;
    client.send({ cmd: 'puback', messageId: 2 });
    await client.settled();
    expect(ids()).toEqual([1, 2, 3, 4, 5]);
  });

  it('ends a session after its expiry, and at once with expiry 0', async () => {
    const brief = await open({ clientId: 'brief', properties: { sessionExpiryInterval: 0 } });
    brief.close();
    await broker.waitFor(() => broker.session('brief') === undefined);
    const second = await open({ clientId: 'second', properties: { sessionExpiryInterval: 1 } });
    second.close();
    await broker.waitFor(() => broker.connections.length === 0);
    expect(broker.session('second')).toBeDefined();
    await new Promise((resolve) => setTimeout(resolve, 1100));
    expect(broker.session('second')).toBeUndefined();
  });

  it('uses and resolves topic aliases', async () => {
    broker.options.limits = { topicAliasMaximum: 3 };
    broker.options.useTopicAliases = true;
    const client = await open({ properties: { topicAliasMaximum: 1 } });
    await client.subscribe('#');
    client.publish('a/b', '1', { properties: { topicAlias: 2 } });
    client.publish('', '2', { properties: { topicAlias: 2 } });
    const [first, second] = [await client.next('publish'), await client.next('publish')];
    expect([first.topic, first.properties?.topicAlias, first.payload.toString()]).toEqual(['a/b', 1, '1']);
    expect([second.topic, second.properties?.topicAlias, second.payload.toString()]).toEqual(['', 1, '2']);
    client.publish('x', '3', { properties: { topicAlias: 4 } });
    expect((await client.next('disconnect')).reasonCode).toBe(0x94);
  });

  it('passes properties on, lowers the expiry, and drops what has expired', async () => {
    const client = await open();
    await client.subscribe('t');
    client.close();
    await broker.waitFor(() => broker.connections.length === 0);
    broker.publish('t', 'stale', { properties: { messageExpiryInterval: 1 } });
    broker.publish('t', 'fresh', { properties: { messageExpiryInterval: 100, contentType: 'text/plain' } });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const back = await open();
    const packet = await back.next('publish');
    expect(packet.payload.toString()).toBe('fresh');
    expect(packet.properties?.contentType).toBe('text/plain');
    expect(packet.properties?.messageExpiryInterval).toBeLessThanOrEqual(99);
  });

  it('gives overlapping filters one copy with every identifier, or one copy each', async () => {
    const client = await open();
    const subscribe = async (filter: string, identifier: number): Promise<void> => {
      client.send({
        cmd: 'subscribe',
        messageId: 9,
        subscriptions: [{ topic: filter, qos: 1 }],
        properties: { subscriptionIdentifier: identifier },
      });
      await client.next('suback');
    };
    await subscribe('a/+', 1);
    await subscribe('a/#', 2);
    broker.publish('a/b', 'x');
    expect((await client.next('publish')).properties?.subscriptionIdentifier).toEqual([1, 2]);
    broker.options.overlapping = 'copies';
    broker.publish('a/b', 'y');
    const copies = [await client.next('publish'), await client.next('publish')];
    expect(copies.map((copy) => copy.properties?.subscriptionIdentifier)).toEqual([1, 2]);
  });

  it('honours No Local, Retain As Published and Retain Handling', async () => {
    const client = await open();
    broker.publish('r/1', 'kept', { retain: true });
    await client.subscribe('r/+', 1, { rh: 0 });
    expect((await client.next('publish')).retain).toBe(true);
    await client.subscribe('r/+', 1, { rh: 1 });
    await client.subscribe('r/+', 1, { rh: 2, nl: true, rap: true });
    await client.settled();
    expect(client.received).toEqual([]);
    client.publish('r/2', 'own');
    broker.publish('r/3', 'other', { retain: true });
    const packet = await client.next('publish');
    expect([packet.topic, packet.retain]).toEqual(['r/3', true]);
    broker.publish('r/1', '', { retain: true });
    const late = await open({ clientId: 'late' });
    await late.subscribe('r/1');
    await late.settled();
    expect(late.received).toEqual([]);
  });

  it('holds a will back for its delay, and for good if the client returns', async () => {
    const watcher = await open({ clientId: 'watcher' });
    await watcher.subscribe('gone');
    const will = {
      topic: 'gone',
      payload: Buffer.from('late'),
      qos: 1 as const,
      retain: false,
      properties: { willDelayInterval: 60, contentType: 'text/plain' },
    };
    (await open({ clientId: 'w', will })).close();
    await broker.waitFor(() => broker.connections.length === 1);
    await open({ clientId: 'w', will });
    await watcher.settled();
    expect(watcher.received).toEqual([]);
    // The end of the session ends the delay [MQTT-3.1.3-9].
    broker.connection?.cut();
    broker.dropSession('w');
    expect((await watcher.next('publish')).properties?.contentType).toBe('text/plain');
  });
});
