import { InMemoryMqttBroker } from '../../../lib/testing/index.js';
import { RawMqttClient } from './raw-mqtt-client.js';

describe('how the in-memory MQTT broker misbehaves on request', () => {
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

  it('lets a test send every packet and byte itself', async () => {
    broker.options.automatic = false;
    const client = await RawMqttClient.open(broker.port);
    clients.push(client);
    const connack = client.connect({ clientId: 'manual' });
    await broker.log.waitForReceived('connect');
    const connection = broker.connection!;
    expect([connection.clientId, connection.version]).toEqual(['manual', 5]);
    connection.send({ cmd: 'connack', reasonCode: 0, sessionPresent: true });
    expect((await connack).sessionPresent).toBe(true);
    connection.sendRaw(Buffer.from('d000', 'hex'));
    await client.next('pingresp');
    const expected = connection.expect('publish');
    client.publish('t', 'x', { qos: 1, messageId: 5 });
    expect((await expected).messageId).toBe(5);
    expect(broker.log.summary()).toEqual(['>open', '>connect', '<connack', '<raw', '>publish']);
  });

  it('withholds, delays, replaces and repeats its own answers', async () => {
    const client = await open();
    const restore = broker.withhold('puback');
    client.publish('t', 'x', { qos: 1, messageId: 1 });
    await client.settled();
    expect(client.received).toEqual([]);
    restore();
    const undo = broker.onSend((packet) =>
      packet.cmd === 'puback' ? [packet, Buffer.from('d000', 'hex'), { ...packet, reasonCode: 0x97 }] : undefined,
    );
    client.publish('t', 'x', { qos: 1, messageId: 2 });
    expect((await client.next('puback')).reasonCode).toBe(0);
    await client.next('pingresp');
    expect((await client.next('puback')).reasonCode).toBe(0x97);
    undo();
    broker.delay('pingresp', 30);
    client.send({ cmd: 'pingreq' });
    client.publish('t', 'x', { qos: 1, messageId: 3 });
    await client.next('pingresp');
    expect(client.received.map((packet) => packet.cmd)).toEqual(['puback']);
  });

  it('takes no notice of packets where a hook says so', async () => {
    const client = await open();
    await client.subscribe('t');
    broker.onReceive((packet) => (packet.cmd === 'puback' ? 'ignore' : undefined));
    broker.publish('t', 'x');
    const { messageId } = await client.next('publish');
    client.send({ cmd: 'puback', messageId: messageId! });
    await client.settled();
    expect(broker.log.received('puback')).toHaveLength(1);
    expect(broker.session('raw')?.inFlight.size).toBe(1);
  });

  it('resends on the same connection, with and without DUP', async () => {
    const client = await open();
    await client.subscribe('t');
    broker.publish('t', 'x');
    const { messageId } = await client.next('publish');
    broker.connection?.resend(messageId!);
    broker.connection?.resend(messageId!, { dup: true });
    const copies = [await client.next('publish'), await client.next('publish')];
    expect(copies.map((copy) => [copy.messageId, copy.dup])).toEqual([
      [messageId, false],
      [messageId, true],
    ]);
  });

  it('sends part of a packet and closes', async () => {
    const client = await open();
    await client.subscribe('t');
    const before = Buffer.concat(client.bytes).length;
    broker.truncate(4);
    broker.publish('t', 'a longer text');
    await client.whenClosed();
    expect(Buffer.concat(client.bytes).length - before).toBe(4);
    expect(broker.session('raw')?.inFlight.size).toBe(1);
  });

  it('stalls writing and reading, and goes on', async () => {
    const client = await open();
    await client.subscribe('t');
    broker.stall({ writes: true });
    broker.publish('t', '1');
    broker.publish('t', '2');
    client.publish('t', '3', { qos: 1, messageId: 1 });
    await broker.log.waitForReceived('publish');
    expect(client.received).toEqual([]);
    broker.unstall();
    const texts = [await client.next('publish'), await client.next('publish'), await client.next('publish')];
    expect(texts.map((packet) => packet.payload.toString())).toEqual(['1', '2', '3']);
    broker.stall({ reads: true });
    client.send({ cmd: 'pingreq' });
    broker.publish('t', '4');
    await client.next('publish');
    expect(broker.log.received('pingreq')).toEqual([]);
    broker.unstall();
    await client.next('pingresp');
  });

  it('forgets a connection without telling the client', async () => {
    const client = await open();
    await client.subscribe('t');
    broker.connection?.halfOpen();
    expect(broker.connections).toEqual([]);
    client.send({ cmd: 'pingreq' });
    broker.publish('t', 'x');
    const again = await open();
    expect((await again.next('publish')).dup).toBe(false);
    expect(client.closed).toBe(false);
    expect(client.received).toEqual([]);
  });

  it('cuts, refuses, and is gone and back on the same port', async () => {
    const client = await open();
    broker.cut({ reset: true });
    await client.whenClosed();
    broker.refuse();
    const refused = await RawMqttClient.open(broker.port);
    await refused.whenClosed();
    broker.refuse(false);
    const { port } = broker;
    const second = await open();
    await broker.stopListening();
    await expect(RawMqttClient.open(port)).rejects.toThrow('ECONNREFUSED');
    await second.settled();
    await broker.listen();
    expect(broker.port).toBe(port);
    await open({ clientId: 'third' });
  });

  it('says which condition did not come, with the end of the log', async () => {
    await open();
    await expect(broker.log.waitForReceived('puback', 1, {}, 20)).rejects.toThrow(
      /1 puback received did not come within 20 ms\. Wire: >open >connect <connack/,
    );
    await expect(
      broker.waitFor(() => {
        throw new Error('the predicate itself failed');
      }),
    ).rejects.toThrow('the predicate itself failed');
  });

  it('keeps the newest entries of its log within the limit', async () => {
    broker.options.logLimit = 10;
    const small = await InMemoryMqttBroker.start({ logLimit: 10 });
    const client = await RawMqttClient.connected(small.port);
    for (let count = 0; count < 40; count++) client.publish('t', String(count));
    await client.settled();
    expect(small.log.entries.length).toBeLessThanOrEqual(12);
    expect(small.log.entries.at(-1)?.type).toBe('pingresp');
    expect(small.log.position).toBe(45);
    client.close();
    await small.close();
  });
});
