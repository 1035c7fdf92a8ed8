import { generate } from 'mqtt-packet';
import { AckWriter, encodeAck } from '../../../../lib/mqtt/codec/acks.js';
import { type AckPacket } from '../../../../lib/mqtt/codec/packets.js';
import { REASON_CODES } from '../../../../lib/mqtt/codec/reason-codes.js';
import { hex, random, readAll, refusal, theirProperties, theirs } from './support.js';

const TYPES = ['puback', 'pubrec', 'pubrel', 'pubcomp'] as const;
const FIRST = { puback: 0x40, pubrec: 0x50, pubrel: 0x62, pubcomp: 0x70 } as const;

function randomAck(next: () => number): AckPacket {
  const type = TYPES[Math.floor(next() * 4)];
  const codes = Object.keys(REASON_CODES)
    .map(Number)
    .filter((code) => REASON_CODES[code].server.includes(type));
  return {
    type,
    packetId: 1 + Math.floor(next() * 65_535),
    reasonCode: codes[Math.floor(next() * codes.length)],
    ...(next() < 0.5 && {
      properties: {
        ...(next() < 0.5 && { reasonString: 'because' }),
        userProperties: [['k', 'v'.repeat(Math.floor(next() * 200))]] as [string, string][],
      },
    }),
  };
}

describe.each(TYPES)('%s', (type) => {
  const first = FIRST[type].toString(16);

  it('every identifier in the two-byte form is byte for byte what mqtt-packet writes in 3.1.1', () => {
    for (let packetId = 1; packetId <= 65_535; packetId += 127) {
      const bytes = encodeAck({ type, packetId, reasonCode: 0 }, 4);
      expect(bytes.equals(generate({ cmd: type, messageId: packetId }, { protocolVersion: 4 }))).toBe(true);
      expect(readAll(bytes, 4)).toEqual([{ type, packetId, reasonCode: 0 }]);
    }
  });

  it('takes every legal short and long form of version 5', () => {
    const known = { type, packetId: 1, reasonCode: 0 };
    expect(readAll(hex(`${first} 02 0001`), 5)).toEqual([known]);
    expect(readAll(hex(`${first} 03 0001 00`), 5)).toEqual([known]);
    expect(readAll(hex(`${first} 04 0001 00 00`), 5)).toEqual([{ ...known, properties: undefined }]);
    expect(readAll(hex(`${first} 08 0001 00 04 1f 0001 70`), 5)).toEqual([
      { ...known, properties: { reasonString: 'p' } },
    ]);
  });

  it.each([
    ['no body', '00', 5, 0x81],
    ['one byte', '01 00', 5, 0x81],
    ['packet identifier 0', '02 0000', 5, 0x82],
    ['packet identifier 0 in 3.1.1', '02 0000', 4, 0x82],
    ['three bytes in 3.1.1', '03 0001 00', 4, 0x81],
    ['bytes behind the properties', '05 0001 00 00 00', 5, 0x81],
    ['a property length beyond the packet', '04 0001 00 01', 5, 0x81],
    ['Success with QoS', '03 0001 01', 5, 0x81],
    ['a code of no packet', '03 0001 ff', 5, 0x81],
  ] as const)('with %s is refused', (_name, rest, version, code) =>
    expect(refusal(`${first} ${rest}`, version)).toBe(code),
  );

  it('only its own reason codes leave', () => {
    for (let reasonCode = 1; reasonCode < 256; reasonCode += 1) {
      const encode = () => encodeAck({ type, packetId: 7, reasonCode }, 5);
      if (REASON_CODES[reasonCode]?.server.includes(type) === true) expect(encode().length).toBe(5);
      else expect(encode).toThrow('does not carry');
    }
  });
});

it('long forms are byte for byte what mqtt-packet writes, and read back as they were', () => {
  const next = random(17);
  for (let round = 0; round < 1000; round += 1) {
    const packet = randomAck(next);
    const bytes = encodeAck(packet, 5);
    expect(readAll(bytes, 5)).toEqual([packet]);
    const generated = generate(
      {
        cmd: packet.type,
        messageId: packet.packetId,
        reasonCode: packet.reasonCode,
        ...(packet.properties && { properties: theirProperties(packet.properties) }),
      },
      { protocolVersion: 5 },
    );
    // Without properties ours leaves the property length out, mqtt-packet writes it as 0.
    if (packet.properties !== undefined) expect(bytes.toString('hex')).toBe(generated.toString('hex'));
    expect(readAll(generated, 5)).toEqual([packet]);
    expect(theirs(bytes, 5)).toMatchObject({
      cmd: packet.type,
      messageId: packet.packetId,
      ...(packet.reasonCode !== 0 && { reasonCode: packet.reasonCode }),
    });
  }
});

describe('AckWriter', () => {
  it('gathers acknowledgements into one buffer that is never touched again', () => {
    const writer = new AckWriter();
    for (let id = 1; id <= 300; id += 1) writer.add('puback', id);
    writer.add('pubrec', 301, 0x80, { reasonString: 'no' });
    expect(writer.size).toBe(1200 + 11);
    const first = writer.take() as Buffer;
    const copy = Buffer.from(first);
    writer.add('puback', 9);
    expect(first.equals(copy)).toBe(true);
    expect(writer.take()?.toString('hex')).toBe('40020009');
    expect(writer.take()).toBeUndefined();
    const packets = readAll(first, 5) as AckPacket[];
    expect(packets.map((packet) => packet.packetId)).toEqual(Array.from({ length: 301 }, (_, index) => index + 1));
    expect(theirs(first.subarray(1200), 5)).toMatchObject({ cmd: 'pubrec', messageId: 301, reasonCode: 0x80 });
  });

  it.each([0, -1, 65_536, 1.5, Number.NaN])('refuses packet identifier %d', (packetId) => {
    const writer = new AckWriter();
    expect(() => writer.add('puback', packetId)).toThrow('65,535');
    expect(writer.take()).toBeUndefined();
  });
});
