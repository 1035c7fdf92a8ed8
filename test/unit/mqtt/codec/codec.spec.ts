import { generate, type Packet, parser } from 'mqtt-packet';
import { RemoteProtocolError } from '../../../../lib/errors.js';
import { AckWriter, encodeAck } from '../../../../lib/mqtt/codec/acks.js';
import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import { FrameReader } from '../../../../lib/mqtt/codec/frame-reader.js';
import { type ProtocolVersion, type PublishPacket, type ServerPacket } from '../../../../lib/mqtt/codec/packets.js';
import { PROPERTY_RULES } from '../../../../lib/mqtt/codec/properties.js';

/** A seeded generator (mulberry32): the same schedule in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
  };
}

const LIMITS = { maximumPacketSize: 1_000_000 };
const readAll = (bytes: Buffer, version: ProtocolVersion, cut = bytes.length): ServerPacket[] => {
  const reader = new FrameReader(version, LIMITS);
  const packets: ServerPacket[] = [];
  for (let at = 0; at < bytes.length; at += cut) {
    reader.push(Buffer.from(bytes.subarray(at, at + cut)));
    for (let packet = reader.next(); packet !== undefined; packet = reader.next()) packets.push(packet);
  }
  return packets;
};
const failure = (hex: string, version: ProtocolVersion = 5): number => {
  try {
    readAll(Buffer.from(hex, 'hex'), version);
  } catch (error) {
    if (error instanceof RemoteProtocolError) return error.reasonCode;
    throw error;
  }
  return 0;
};
const packetOf = (bytes: Buffer, protocolVersion: ProtocolVersion): Packet => {
  const reader = parser({ protocolVersion });
  const seen: Packet[] = [];
  reader.on('packet', (packet: Packet) => seen.push(packet));
  reader.on('error', (error: Error) => {
    throw error;
  });
  expect(reader.parse(bytes)).toBe(0);
  expect(seen).toHaveLength(1);
  return seen[0];
};

function randomPublish(next: () => number, version: ProtocolVersion): PublishPacket {
  const qos = Math.floor(next() * 3) as 0 | 1 | 2;
  const topics = ['a', 'devices/7/temp', 'größe/Ж', '/', 'x'.repeat(200)];
  const properties =
    version === 5 && next() < 0.6
      ? {
          ...(next() < 0.5 && { payloadFormatIndicator: 1 as const }),
          ...(next() < 0.5 && { messageExpiryInterval: Math.floor(next() * 1e6) }),
          ...(next() < 0.5 && { contentType: 'application/json' }),
          ...(next() < 0.5 && { correlationData: Buffer.from([0, 255, 1]) }),
          ...(next() < 0.5 && { topicAlias: 1 + Math.floor(next() * 100) }),
        }
      : undefined;
  return {
    type: 'publish',
    topic: topics[Math.floor(next() * topics.length)],
    payload: Buffer.alloc(Math.floor(next() * 300), Math.floor(next() * 256)),
    qos,
    retain: next() < 0.5,
    dup: qos > 0 && next() < 0.5,
    packetId: qos === 0 ? 0 : 1 + Math.floor(next() * 65_535),
    properties: properties && Object.keys(properties).length > 0 ? properties : undefined,
  };
}

/** What `next` throws when it is called once more. */
function again(reader: FrameReader): unknown {
  try {
    return reader.next();
  } catch (error) {
    return error;
  }
}

describe.each([4, 5] as const)('PUBLISH in version %d', (version) => {
  it('is byte for byte what mqtt-packet writes, and is read back the same', () => {
    const next = random(version);
    for (let round = 0; round < 400; round += 1) {
      const packet = randomPublish(next, version);
      const bytes = encodePacket(packet, version);
      const theirs = generate(
        {
          cmd: 'publish',
          topic: packet.topic,
          payload: packet.payload,
          qos: packet.qos,
          retain: packet.retain,
          dup: packet.dup,
          ...(packet.qos > 0 && { messageId: packet.packetId }),
          ...(packet.properties && {
            properties: {
              ...packet.properties,
              ...(packet.properties.payloadFormatIndicator !== undefined && { payloadFormatIndicator: true }),
            },
          }),
        } as Packet,
        { protocolVersion: version },
      );
      // mqtt-packet has its own order of properties: compare what it reads of ours with what it reads of its own.
      expect(packetOf(bytes, version)).toEqual(packetOf(theirs, version));
      if (packet.properties === undefined) expect(bytes.equals(theirs)).toBe(true);
      expect(readAll(bytes, version)).toEqual([packet]);
    }
  });

  it('comes out the same whatever the chunks', () => {
    const next = random(99);
    const packets = Array.from({ length: 12 }, () => randomPublish(next, version));
    const bytes = Buffer.concat(packets.map((packet) => encodePacket(packet, version)));
    for (let cut = 1; cut < 40; cut += 1) expect(readAll(bytes, version, cut)).toEqual(packets);
    for (let cut = 40; cut < bytes.length; cut += 97) expect(readAll(bytes, version, cut)).toEqual(packets);
  });
});

describe('strictness', () => {
  it.each([
    ['QoS 3', '36 05 0001 61 0001', 4, 0x81],
    ['DUP with QoS 0', '38 03 0001 61', 4, 0x81],
    ['packet identifier 0', '32 05 0001 61 0000', 4, 0x82],
    ['cut packet identifier', '32 04 0001 61 00', 4, 0x81],
    ['topic with +', '30 03 0001 2b', 4, 0x90],
    ['topic with U+0000', '30 03 0001 00', 4, 0x81],
    ['topic with overlong UTF-8', '30 04 0002 c080', 4, 0x81],
    ['topic with a surrogate', '30 05 0003 eda080', 4, 0x81],
    ['empty topic in 3.1.1', '30 02 0000', 4, 0x82],
    ['empty topic without alias', '30 03 0000 00', 5, 0x82],
    ['topic alias 0', '30 07 0001 61 03 230000', 5, 0x94],
    ['property length beyond the packet', '30 04 0001 61 05', 5, 0x81],
    ['property not allowed', '30 07 0001 61 03 210001', 5, 0x81],
    ['property twice', '30 08 0001 61 04 01000100', 5, 0x82],
    ['payload format 2', '30 06 0001 61 02 0102', 5, 0x82],
    ['response topic with wildcard', '30 08 0001 61 04 08 0001 23', 5, 0x82],
    ['remaining length of five bytes', '30 ffffffff01', 5, 0x81],
    ['remaining length not shortest', '30 8300 0001 61', 5, 0x81],
    ['client-only packet', '10 00', 5, 0x82],
    ['reserved packet type', '00 00', 5, 0x82],
    ['PUBREL with wrong flags', '60 02 0001', 5, 0x81],
    ['PUBACK of one byte', '40 01 00', 5, 0x81],
    ['PUBACK with id 0', '40 02 0000', 5, 0x82],
    ['PUBACK with a reason code that is not its own', '40 03 0001 92', 5, 0x81],
    ['PUBACK with bytes behind its properties', '40 05 0001 00 00 00', 5, 0x81],
    ['PUBACK of three bytes in 3.1.1', '40 03 0001 00', 4, 0x81],
    ['CONNACK with reserved flags', '20 03 02 00 00', 5, 0x81],
    ['CONNACK with an error and session present', '20 03 01 80 00', 5, 0x82],
    ['CONNACK with Receive Maximum 0', '20 06 00 00 03 21 0000', 5, 0x82],
    ['CONNACK with Maximum Packet Size 0', '20 08 00 00 05 27 00000000', 5, 0x82],
    ['SUBACK without codes', '90 03 0001 00', 5, 0x81],
    ['SUBACK with an unknown code', '90 04 0001 00 03', 5, 0x81],
    ['SUBACK 3.1.1 with QoS 3', '90 03 0001 03', 4, 0x81],
    ['UNSUBACK without codes', 'b0 03 0001 00', 5, 0x81],
    ['PINGRESP with a body', 'd0 01 00', 5, 0x81],
    ['DISCONNECT from a 3.1.1 server', 'e0 00', 4, 0x82],
    ['DISCONNECT with a client-only code', 'e0 01 04', 5, 0x81],
    ['AUTH with Re-authenticate', 'f0 01 19', 5, 0x81],
  ] as const)('%s', (_name, hex, version, code) => {
    expect(failure(hex.replaceAll(' ', ''), version)).toBe(code);
  });

  it('takes every legal short form', () => {
    expect(readAll(Buffer.from('e000f000d000', 'hex'), 5)).toEqual([
      { type: 'disconnect', reasonCode: 0 },
      { type: 'auth', reasonCode: 0 },
      { type: 'pingresp' },
    ]);
    expect(readAll(Buffer.from('4002000140030001104004000110006202000170020001', 'hex'), 5)).toMatchObject([
      { type: 'puback', reasonCode: 0 },
      { type: 'puback', reasonCode: 0x10 },
      { type: 'puback', reasonCode: 0x10 },
      { type: 'pubrel' },
      { type: 'pubcomp' },
    ]);
  });

  it('a server that only knows 3.1.1 is understood when it refuses version 5', () => {
    expect(readAll(Buffer.from('20020001', 'hex'), 5)).toEqual([
      { type: 'connack', sessionPresent: false, reasonCode: 0x84 },
    ]);
  });

  it('stops for ever after the first error', () => {
    const reader = new FrameReader(4, LIMITS);
    reader.push(Buffer.from('3003000161' + '3603000161' + '3003000161', 'hex'));
    expect(reader.next()).toMatchObject({ topic: 'a' });
    expect(() => reader.next()).toThrow(RemoteProtocolError);
    reader.push(Buffer.from('3003000161', 'hex'));
    expect(() => reader.next()).toThrow(RemoteProtocolError);
    expect(reader.bufferedBytes).toBe(0);
  });

  it('refuses an announced size before buffering, and holds no more than what came for an accepted one', () => {
    expect(failure('30ffffff7f')).toBe(0x95);
    const reader = new FrameReader(5, { maximumPacketSize: 268_435_460 });
    reader.push(Buffer.from('30ffffff7f0001', 'hex'));
    expect(reader.next()).toBeUndefined();
    expect(reader.bufferedBytes).toBe(7);
  });

  it('reads a large packet in many small chunks without copying it over and over', () => {
    const payload = Buffer.alloc(3_000_000, 7);
    const bytes = encodePacket(
      { type: 'publish', topic: 'big', payload, qos: 0, retain: false, dup: false, packetId: 0 },
      4,
    );
    const reader = new FrameReader(4, { maximumPacketSize: 4_000_000 });
    let packet: ServerPacket | undefined;
    for (let at = 0; at < bytes.length; at += 64) {
      reader.push(bytes.subarray(at, at + 64));
      packet ??= reader.next();
    }
    expect((packet as PublishPacket).payload.equals(payload)).toBe(true);
  });
});

describe('properties', () => {
  it('keep the order and the repetition of user properties, in and out', () => {
    const userProperties = [['a', '1'], ['b', ''], ['a', '3']] as [string, string][]; // prettier-ignore
    const publish: PublishPacket = { type: 'publish', topic: 't', payload: Buffer.alloc(0), qos: 0, retain: false, dup: false, packetId: 0, properties: { userProperties } }; // prettier-ignore
    expect(readAll(encodePacket(publish, 5), 5)).toEqual([publish]);
    const subscribe = encodePacket({ type: 'subscribe', packetId: 1, subscriptions: [{ filter: 'f', qos: 1 }], properties: { userProperties } }, 5); // prettier-ignore
    expect(subscribe.includes(Buffer.from('2600016100013126000162000026000161000133', 'hex'))).toBe(true);
    expect(packetOf(subscribe, 5)).toMatchObject({
      cmd: 'subscribe',
      properties: { userProperties: { a: ['1', '3'], b: '' } },
    });
  });

  it.each(PROPERTY_RULES.map((rule) => [rule.name, rule] as const))(
    '%s is refused where it is not allowed',
    (name, rule) => {
      const value = {
        string: 'x',
        binary: Buffer.from('x'),
        pair: [['a', 'b']],
        variable: [1],
        byte: 1,
        u16: 1,
        u32: 1,
      }[rule.kind];
      const packet = (type: 'disconnect' | 'auth') =>
        encodePacket({ type, reasonCode: 0x18, properties: { [name]: value } }, 5);
      for (const type of ['disconnect', 'auth'] as const) {
        if (rule.carriers.has(type)) expect(packet(type).length).toBeGreaterThan(2);
        else expect(() => packet(type)).toThrow(`'${name}' is not allowed in ${type.toUpperCase()}`);
      }
    },
  );
});

describe('what a client sends', () => {
  it('CONNECT with a will and properties is read by mqtt-packet', () => {
    const bytes = encodePacket(
      {
        type: 'connect',
        protocolVersion: 5,
        clientId: 'c1',
        cleanStart: false,
        keepAlive: 30,
        username: 'u',
        password: Buffer.from('p'),
        will: {
          topic: 'w',
          payload: Buffer.from('gone'),
          qos: 1,
          retain: true,
          properties: { willDelayInterval: 5, contentType: 'x' },
        },
        properties: { sessionExpiryInterval: 60, receiveMaximum: 128, userProperties: [['k', 'v']] },
      },
      5,
    );
    expect(packetOf(bytes, 5)).toMatchObject({
      clientId: 'c1',
      clean: false,
      keepalive: 30,
      username: 'u',
      will: { topic: 'w', qos: 1, retain: true, properties: { willDelayInterval: 5, contentType: 'x' } },
      properties: { sessionExpiryInterval: 60, receiveMaximum: 128, userProperties: { k: 'v' } },
    });
  });

  it.each([
    [
      'a topic of 65,536 bytes',
      () =>
        encodePacket(
          {
            type: 'publish',
            topic: 'x'.repeat(65_536),
            payload: Buffer.alloc(0),
            qos: 0,
            retain: false,
            dup: false,
            packetId: 0,
          },
          5,
        ),
      '65,535',
    ],
    [
      'a wildcard topic',
      () =>
        encodePacket(
          { type: 'publish', topic: 'a/#', payload: Buffer.alloc(0), qos: 0, retain: false, dup: false, packetId: 0 },
          5,
        ),
      'wildcard',
    ],
    [
      'half a surrogate pair',
      () =>
        encodePacket(
          {
            type: 'publish',
            topic: 'a\ud800',
            payload: Buffer.alloc(0),
            qos: 0,
            retain: false,
            dup: false,
            packetId: 0,
          },
          5,
        ),
      'surrogate',
    ],
    ['packet identifier 70,000', () => encodeAck({ type: 'puback', packetId: 70_000, reasonCode: 0 }, 5), '65,535'],
    [
      'an empty SUBSCRIBE',
      () => encodePacket({ type: 'subscribe', packetId: 1, subscriptions: [] }, 5),
      'without a topic filter',
    ],
    [
      'No Local on a shared subscription',
      () =>
        encodePacket(
          { type: 'subscribe', packetId: 1, subscriptions: [{ filter: '$share/g/a', qos: 1, noLocal: true }] },
          5,
        ),
      'No Local',
    ],
  ])('refuses %s', (_name, encode, text) => {
    expect(encode).toThrow(
      expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL', message: expect.stringContaining(text) }),
    );
  });

  it('gathers acknowledgements into one buffer that is never touched again', () => {
    const writer = new AckWriter();
    for (let id = 1; id <= 300; id += 1) writer.add('puback', id);
    writer.add('pubrec', 301, 0x80, { reasonString: 'no' });
    const first = writer.take() as Buffer;
    const copy = Buffer.from(first);
    writer.add('puback', 9);
    expect(first.equals(copy)).toBe(true);
    expect(writer.take()?.toString('hex')).toBe('40020009');
    expect(writer.take()).toBeUndefined();
    expect(first.subarray(0, 8).toString('hex')).toBe('4002000140020002');
    expect(packetOf(first.subarray(1200), 5)).toMatchObject({ cmd: 'pubrec', messageId: 301, reasonCode: 0x80 });
  });
});

it('100,000 mutations of valid streams end in RemoteProtocolError or in packets, and nothing follows an error', () => {
  const next = random(20_261);
  const streams = ([4, 5] as const).map((version) => ({
    version,
    bytes: Buffer.concat([
      Buffer.from(version === 5 ? '2003000000' : '20020000', 'hex'),
      Buffer.from(version === 5 ? '9004000100014005000100000062020005' : '900300010140020001620200057002000a', 'hex'),
      ...Array.from({ length: 4 }, () => encodePacket(randomPublish(next, version), version)),
    ]),
  }));
  let errors = 0;
  for (let round = 0; round < 100_000; round += 1) {
    const { version, bytes } = streams[round & 1];
    const mutated = Buffer.from(bytes);
    for (let times = 1 + Math.floor(next() * 3); times > 0; times -= 1)
      mutated[Math.floor(next() * mutated.length)] = Math.floor(next() * 256);
    const reader = new FrameReader(version, { maximumPacketSize: 5_000 });
    reader.push(mutated.subarray(0, Math.floor(next() * mutated.length)));
    try {
      while (reader.next() !== undefined);
      reader.push(mutated.subarray(0, 50));
      while (reader.next() !== undefined);
    } catch (error) {
      errors += 1;
      if (!(error instanceof RemoteProtocolError) || error.message.includes('RangeError')) throw error;
      if (again(reader) !== error) throw new Error(`round ${round}: another answer after the first error`);
    }
  }
  expect(errors).toBeGreaterThan(10_000);
});
