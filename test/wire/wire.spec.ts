import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { generate, type Packet, parser } from 'mqtt-packet';
import {
  crc32c,
  FrameSplitter,
  messagesOf,
  simpleFrame,
  commandOf,
  type StoredMessage,
  Type,
} from '../../sample/01-mqtt-to-pulsar/src/verify/pulsar-frames.js';
import { compare, Evidence, idOf, MqttWire, TcpProxy, type WireDelivery } from './index.js';

const stored = (id: number, sequenceId = id, producerName = 'p'): StoredMessage => ({
  payload: Buffer.from(`{"id":${id}}`),
  key: undefined,
  properties: {},
  producerName,
  sequenceId,
  eventTime: 0,
});
const delivery = (id: number): WireDelivery => ({
  topic: 't',
  payload: Buffer.from(`{"id":${id}}`),
  qos: 1,
  dup: false,
  packetId: id,
  connection: 0,
});

describe('evidence', () => {
  it('names what is lost and counts extra copies', () => {
    expect(compare(new Set([1, 2, 3]), [stored(1), stored(1), stored(3), stored(9)])).toEqual({
      stored: 3,
      lost: [2],
      duplicates: 1,
    });
  });

  it('notices an acknowledgement that no receipt stands before', () => {
    const evidence = new Evidence();
    evidence.receipt([stored(1)]);
    evidence.acknowledgement(delivery(1));
    evidence.acknowledgement(delivery(2));
    evidence.receipt([stored(2)]);
    expect([...evidence.acknowledgedWithoutReceipt]).toEqual([2]);
  });

  it('tells a handler that ran twice from a frame that was resent and from a redelivery', () => {
    const evidence = new Evidence();
    // The second copy of 4 came while its handler ran: it starts nothing.
    for (const id of [1, 2, 3, 4, 4]) evidence.delivery(delivery(id));
    evidence.send([stored(1, 10), stored(2, 20), stored(3, 30), stored(4, 40)]);
    evidence.send([stored(1, 10)]);
    evidence.send([stored(2, 21)]);
    evidence.delivery(delivery(3));
    evidence.send([stored(3, 31)]);
    evidence.send([stored(4, 41)]);
    expect(evidence.emittedTooOften()).toEqual([2, 4]);
  });

  it('refuses a payload without a number', () => {
    expect(() => idOf(Buffer.from('{}'))).toThrow('a payload without an id');
  });
});

describe('the MQTT recording proxy', () => {
  /** A broker that answers CONNECT and then sends the given packets; a client that sends its own. */
  async function exchange(fromServer: Packet[], fromClient: Packet[]): Promise<MqttWire> {
    const server = createServer((socket) => {
      const read = parser({ protocolVersion: 5 });
      read.on('packet', (packet) => {
        if (packet.cmd !== 'connect') return;
        const connack: Packet = { cmd: 'connack', reasonCode: 0, sessionPresent: false };
        socket.write(Buffer.concat([connack, ...fromServer].map((each) => generate(each, { protocolVersion: 5 }))));
      });
      socket.on('data', (chunk) => void read.parse(chunk)).on('error', () => undefined);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const wire = await MqttWire.start({ targetPort: (server.address() as AddressInfo).port });
    const client = connect(wire.proxy.port, '127.0.0.1');
    client.write(generate({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clientId: 'c', clean: true }));
    let seen = 0;
    const read = parser({ protocolVersion: 5 });
    await new Promise<void>((resolve) => {
      read.on('packet', () => ++seen === fromServer.length + 1 && resolve());
      client.on('data', (chunk) => void read.parse(chunk));
    });
    const bytes = Buffer.concat(fromClient.map((packet) => generate(packet, { protocolVersion: 5 })));
    client.end(bytes);
    await once(client, 'close');
    await wire.proxy.close();
    server.close();
    return wire;
  }
  const publish = (messageId: number, qos: 1 | 2): Packet => ({
    cmd: 'publish',
    topic: 't',
    payload: `{"id":${messageId}}`,
    messageId,
    qos,
    dup: false,
    retain: false,
  });

  it('counts acknowledgements in order as in order, in two lanes', async () => {
    const { figures } = await exchange(
      [publish(1, 1), publish(2, 2), publish(3, 1)],
      [
        { cmd: 'pubrec', messageId: 2, reasonCode: 0 },
        { cmd: 'puback', messageId: 1, reasonCode: 0 },
        { cmd: 'puback', messageId: 3, reasonCode: 0 },
      ],
    );
    expect(figures).toMatchObject({ delivered: 3, acknowledged: 3, outOfOrder: 0, unknown: 0, maxUnacknowledged: 3 });
  });

  it('notices one out of order, one of nothing, and a refusal', async () => {
    const { figures } = await exchange(
      [publish(1, 1), publish(2, 1)],
      [
        { cmd: 'puback', messageId: 2, reasonCode: 0 },
        { cmd: 'puback', messageId: 1, reasonCode: 0x80 },
        { cmd: 'puback', messageId: 1, reasonCode: 0 },
      ],
    );
    expect(figures).toMatchObject({ acknowledged: 2, outOfOrder: 1, unknown: 1, rejected: 1 });
  });
});

describe('the TCP proxy', () => {
  let sockets: Socket[] = [];
  async function echo(): Promise<{ proxy: TcpProxy; client: Socket; close: () => Promise<void> }> {
    sockets = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined).pipe(socket);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const proxy = await TcpProxy.start({ targetPort: (server.address() as AddressInfo).port });
    const client = connect(proxy.port, '127.0.0.1').on('error', () => undefined);
    client.write('a');
    expect(String((await once(client, 'data'))[0])).toBe('a');
    return {
      proxy,
      client,
      close: async () => {
        client.destroy();
        for (const socket of sockets) socket.destroy();
        await proxy.close();
        server.close();
      },
    };
  }

  it('cuts both sides', async () => {
    const { proxy, client, close } = await echo();
    // `once` would reject on the reset that a cut is.
    const closed = Promise.all([client, sockets[0]].map((socket) => new Promise((done) => socket?.on('close', done))));
    proxy.cut();
    await closed;
    expect(proxy.figures).toMatchObject({ cuts: 1, cutConnections: 1 });
    await close();
  });

  it('lets nothing pass while stalled, and everything after', async () => {
    const { proxy, client, close } = await echo();
    proxy.stall();
    let received = '';
    client.on('data', (chunk: Buffer) => (received += chunk.toString()));
    client.write('b');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(received).toBe('');
    const arrived = once(client, 'data');
    proxy.resume();
    await arrived;
    expect(received).toBe('b');
    await close();
  });

  it('half-opens: the server loses the connection, the client is not told', async () => {
    const { proxy, client, close } = await echo();
    const gone = once(sockets[0], 'close');
    proxy.halfOpen();
    await gone;
    client.write('c');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(client.destroyed).toBe(false);
    await close();
  });
});

describe('the Pulsar frames of the reader', () => {
  // 0x0e01, checksum, metadata {producer "p", sequence 7, time 1, 2 in the batch}, then two entries.
  const metadata = Buffer.from('0a0170100718015802', 'hex');
  const entry = (text: string): Buffer =>
    Buffer.concat([Buffer.from([0, 0, 0, 2, 0x18, text.length]), Buffer.from(text)]);
  const body = Buffer.concat([Buffer.from([0, 0, 0, metadata.length]), metadata, entry('one'), entry('three')]);
  const command = simpleFrame({ type: Type.SEND, send: { producerId: 1, sequenceId: 7, numMessages: 2 } }).subarray(4);
  const frame = (checksum: number): Buffer => {
    const head = Buffer.alloc(6);
    head.writeUInt16BE(0x0e01);
    head.writeUInt32BE(checksum, 2);
    const size = Buffer.alloc(4);
    size.writeUInt32BE(command.length + head.length + body.length);
    return Buffer.concat([size, command, head, body]);
  };

  it('has the check value of CRC32C', () => {
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  });

  it('takes a batch apart', () => {
    expect(messagesOf(frame(crc32c(body)))).toMatchObject([
      { producerName: 'p', sequenceId: 7, payload: Buffer.from('one') },
      { producerName: 'p', sequenceId: 8, payload: Buffer.from('three') },
    ]);
  });

  it('refuses a wrong checksum', () => {
    expect(() => messagesOf(frame((crc32c(body) ^ 1) >>> 0))).toThrow('wrong checksum');
  });

  it('cuts a stream of any chunking into frames', () => {
    const ping = simpleFrame({ type: Type.PING, ping: {} });
    const stream = Buffer.concat([frame(crc32c(body)), ping, ping]);
    for (const size of [1, 3, 7, stream.length]) {
      const splitter = new FrameSplitter();
      const types: number[] = [];
      for (let at = 0; at < stream.length; at += size) {
        for (const each of splitter.push(stream.subarray(at, at + size))) types.push(commandOf(each).type);
      }
      expect(types).toEqual([Type.SEND, Type.PING, Type.PING]);
    }
  });
});
