import { RemoteProtocolError } from '../../../../lib/errors.js';
import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import { FrameReader } from '../../../../lib/mqtt/codec/frame-reader.js';
import { type PublishPacket, type ServerPacket } from '../../../../lib/mqtt/codec/packets.js';
import { hex, random, randomPublish, readAll, refusal } from './support.js';

const big = (length: number): PublishPacket => ({
  type: 'publish',
  topic: 'big',
  payload: Buffer.alloc(length, 7),
  qos: 0,
  retain: false,
  dup: false,
  packetId: 0,
});

describe('fixed header', () => {
  it.each([
    ['packet type 0', '00 00', 0x82],
    ['CONNECT', '10 00', 0x82],
    ['SUBSCRIBE', '82 00', 0x82],
    ['UNSUBSCRIBE', 'a2 00', 0x82],
    ['PINGREQ', 'c0 00', 0x82],
    ['a remaining length of five bytes', '30 ffffffff01', 0x81],
    ['a remaining length of five bytes, before the fifth comes', '30 ffffffff', 0x81],
    ['a remaining length that is not the shortest', '30 8300 0001 61', 0x81],
    ['a remaining length of zero in two bytes', 'd0 8000', 0x81],
  ])('refuses %s', (_name, bytes, code) => expect(refusal(bytes)).toBe(code));

  it.each([
    ['CONNACK', 0x20, 0],
    ['PUBACK', 0x40, 0],
    ['PUBREC', 0x50, 0],
    ['PUBREL', 0x60, 2],
    ['PUBCOMP', 0x70, 0],
    ['SUBACK', 0x90, 0],
    ['UNSUBACK', 0xb0, 0],
    ['PINGRESP', 0xd0, 0],
    ['DISCONNECT', 0xe0, 0],
    ['AUTH', 0xf0, 0],
  ])('%s has exactly its own flags [MQTT-2.1.3-1]', (_name, type, right) => {
    for (let flags = 0; flags < 16; flags += 1) {
      const reader = new FrameReader(5, { maximumPacketSize: 100 });
      // 127 bytes are announced: with the right flags the refusal is about the size, otherwise about the flags.
      reader.push(Buffer.from([type | flags, 0x7f]));
      expect(() => reader.next()).toThrow(expect.objectContaining({ reasonCode: flags === right ? 0x95 : 0x81 }));
    }
  });
});

describe('chunks', () => {
  it.each([4, 5] as const)('version %d comes out the same whatever the chunks', (version) => {
    const next = random(99);
    const packets = Array.from({ length: 12 }, () => randomPublish(next, version));
    const bytes = Buffer.concat(packets.map((packet) => encodePacket(packet, version)));
    for (let cut = 1; cut < 40; cut += 1) expect(readAll(bytes, version, cut)).toEqual(packets);
    for (let cut = 40; cut < bytes.length; cut += 97) expect(readAll(bytes, version, cut)).toEqual(packets);
  });

  it('every split of a stream of all packet types into two chunks gives the same packets', () => {
    const stream = Buffer.concat([
      hex('2006000003210014 9004000100 01 b00400030000 d000 40020001 5003000210 62020003 700400049200'),
      encodePacket(big(200), 5),
      hex('f000 e000'),
    ]);
    const whole = readAll(stream, 5);
    expect(whole.map((packet) => packet.type)).toEqual([
      'connack',
      'suback',
      'unsuback',
      'pingresp',
      'puback',
      'pubrec',
      'pubrel',
      'pubcomp',
      'publish',
      'auth',
      'disconnect',
    ]);
    for (let split = 1; split < stream.length; split += 1) {
      const reader = new FrameReader(5, { maximumPacketSize: 1000 });
      const seen: ServerPacket[] = [];
      for (const chunk of [stream.subarray(0, split), stream.subarray(split)]) {
        reader.push(chunk);
        for (let packet = reader.next(); packet !== undefined; packet = reader.next()) seen.push(packet);
      }
      expect(seen).toEqual(whole);
      expect(reader.bufferedBytes).toBe(0);
    }
  });

  it('chunks may wait: packets are taken one at a time while more is pushed', () => {
    const reader = new FrameReader(4, { maximumPacketSize: 1000 });
    for (let id = 1; id <= 2000; id += 1) {
      const bytes = hex(`4002${id.toString(16).padStart(4, '0')}`);
      reader.push(bytes.subarray(0, 3));
      reader.push(bytes.subarray(3));
    }
    expect(reader.bufferedBytes).toBe(8000);
    for (let id = 1; id <= 2000; id += 1) expect(reader.next()).toMatchObject({ type: 'puback', packetId: id });
    expect(reader.next()).toBeUndefined();
    expect(reader.bufferedBytes).toBe(0);
  });

  it('a payload is a view of the chunk where the packet lies in one', () => {
    const chunk = encodePacket(big(10), 4);
    const reader = new FrameReader(4, { maximumPacketSize: 1000 });
    reader.push(chunk);
    const packet = reader.next() as PublishPacket;
    expect(packet.payload.buffer).toBe(chunk.buffer);
  });
});

describe('size', () => {
  it('is refused when the header is read, before anything is kept', () => {
    const reader = new FrameReader(5, { maximumPacketSize: 1_000 });
    reader.push(hex('30ffffff7f'));
    expect(() => reader.next()).toThrow(expect.objectContaining({ reasonCode: 0x95 }));
    expect(reader.bufferedBytes).toBe(0);
  });

  it('counts the whole packet: at the limit is accepted, one byte more is not', () => {
    const bytes = encodePacket(big(100), 4);
    const read = (maximumPacketSize: number) => {
      const reader = new FrameReader(4, { maximumPacketSize });
      reader.push(bytes);
      return reader.next();
    };
    expect(read(bytes.length)).toMatchObject({ topic: 'big' });
    expect(() => read(bytes.length - 1)).toThrow(expect.objectContaining({ reasonCode: 0x95 }));
  });

  it.each([200, 268_435_455])('an accepted packet of %d announced bytes costs only what has come', (announced) => {
    const length: number[] = [];
    for (let rest = announced; rest > 0; rest >>>= 7) length.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    const before = process.memoryUsage();
    const readers = Array.from({ length: 50 }, () => {
      const reader = new FrameReader(5, { maximumPacketSize: 268_435_460 });
      reader.push(Buffer.from([0x30, ...length, 0, 1]));
      expect(reader.next()).toBeUndefined();
      return reader;
    });
    const after = process.memoryUsage();
    expect(readers.map((reader) => reader.bufferedBytes)).toEqual(readers.map(() => length.length + 3));
    // 50 x 256 MiB would be 12.5 GiB.
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8 * 2 ** 20);
  });

  it('many small chunks of a large packet are not copied over and over', () => {
    const packet = big(4_000_000);
    const bytes = encodePacket(packet, 4);
    const copied = countCopies(() => {
      const reader = new FrameReader(4, { maximumPacketSize: 5_000_000 });
      let seen: ServerPacket | undefined;
      for (let at = 0; at < bytes.length; at += 16) {
        reader.push(bytes.subarray(at, at + 16));
        seen ??= reader.next();
      }
      expect((seen as PublishPacket).payload.equals(packet.payload)).toBe(true);
    });
    expect(copied).toBeLessThan(4 * bytes.length);
  });
});

/** Bytes moved by `Buffer.prototype.copy` while `run` runs. */
function countCopies(run: () => void): number {
  const original = Buffer.prototype.copy;
  let bytes = 0;
  Buffer.prototype.copy = function (this: Buffer, ...args: Parameters<typeof original>) {
    const copied = original.apply(this, args);
    bytes += copied;
    return copied;
  };
  try {
    run();
  } finally {
    Buffer.prototype.copy = original;
  }
  return bytes;
}

describe('after the first error', () => {
  it('nothing is read any more, and every call gives the same error', () => {
    const reader = new FrameReader(4, { maximumPacketSize: 1000 });
    reader.push(hex('3003000161 3603000161 3003000161'));
    expect(reader.next()).toMatchObject({ topic: 'a' });
    const errors = [1, 2, 3].map(() => {
      reader.push(hex('3003000161'));
      try {
        return reader.next();
      } catch (error) {
        return error;
      }
    });
    expect(errors[0]).toBeInstanceOf(RemoteProtocolError);
    expect(errors[1]).toBe(errors[0]);
    expect(errors[2]).toBe(errors[0]);
    expect(reader.bufferedBytes).toBe(0);
  });
});
