import { RemoteProtocolError } from '../../../../lib/errors.js';
import { type Frame, FrameReader } from '../../../../lib/pulsar/codec/frame-reader.js';
import { brokerFrame, frameOf, Random } from './support.js';

const MAX = 1000;

const receipt = (sequenceId: number): Buffer =>
  brokerFrame(7, { sendReceipt: { producerId: 1, sequenceId, messageId: { ledgerId: 5, entryId: sequenceId } } });
const message = (payload: Buffer): Buffer =>
  brokerFrame(9, { message: { consumerId: 1, messageId: { ledgerId: 1, entryId: 2 } } }, payload);

function readAll(reader: FrameReader, chunks: Buffer[]): Frame[] {
  const frames: Frame[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let frame = reader.next(); frame !== undefined; frame = reader.next()) frames.push(frame);
  }
  return frames;
}

describe('FrameReader', () => {
  const stream = Buffer.concat([
    receipt(1),
    brokerFrame(18, { ping: {} }),
    message(Buffer.from('payload of a message')),
    brokerFrame(99, {}),
    receipt(2 ** 40),
  ]);
  const expected = readAll(new FrameReader({ maxFrameSize: MAX }), [stream]);

  it('gives the commands of one chunk', () => {
    expect(expected.map((frame) => frame.type)).toEqual(['sendReceipt', 'ping', 'message', 'unknown', 'sendReceipt']);
    expect(expected[2]).toMatchObject({ headersAndPayload: Buffer.from('payload of a message') });
  });

  it('gives the same for every split into two and into three', () => {
    for (let first = 0; first <= stream.length; first += 1) {
      for (let second = first; second <= stream.length; second += 7) {
        const chunks = [stream.subarray(0, first), stream.subarray(first, second), stream.subarray(second)];
        expect(readAll(new FrameReader({ maxFrameSize: MAX }), chunks)).toEqual(expected);
      }
    }
  });

  it('gives the same for single bytes, and for chunks that were pushed ahead of reading', () => {
    const bytes = Array.from(stream, (byte) => Buffer.of(byte));
    expect(readAll(new FrameReader({ maxFrameSize: MAX }), bytes)).toEqual(expected);
    const reader = new FrameReader({ maxFrameSize: MAX });
    for (const byte of bytes) reader.push(byte);
    expect(reader.bufferedBytes).toBe(stream.length);
    expect(readAll(reader, [])).toEqual([]);
    expect(readAll(reader, [Buffer.alloc(0)])).toEqual(expected);
    expect(reader.bufferedBytes).toBe(0);
  });

  it('counts what it holds for a frame that is not complete', () => {
    const reader = new FrameReader({ maxFrameSize: MAX });
    expect(readAll(reader, [stream.subarray(0, 3)])).toEqual([]);
    expect(reader.bufferedBytes).toBe(3);
    expect(readAll(reader, [stream.subarray(3, 9)])).toEqual([]);
    expect(reader.bufferedBytes).toBe(5);
  });

  it('takes a frame of exactly the limit, and refuses a larger one before its bytes are there', () => {
    const empty = message(Buffer.alloc(0)).length - 4;
    const reader = new FrameReader({ maxFrameSize: MAX });
    expect(readAll(reader, [message(Buffer.alloc(MAX - empty))])).toHaveLength(1);
    const head = message(Buffer.alloc(MAX - empty + 1)).subarray(0, 4);
    expect(() => readAll(reader, [head])).toThrow(/1001 bytes, the limit is 1000/);
  });

  it('takes a raised limit over', () => {
    const reader = new FrameReader({ maxFrameSize: 10 });
    reader.setMaxFrameSize(MAX);
    expect(readAll(reader, [receipt(1)])).toHaveLength(1);
  });

  it('stops for ever after the first error', () => {
    const reader = new FrameReader({ maxFrameSize: MAX });
    reader.push(Buffer.concat([receipt(1), Buffer.from([0, 0, 0, 2, 0, 0]), receipt(2)]));
    expect(reader.next()).toMatchObject({ sequenceId: 1 });
    let failure: unknown;
    try {
      reader.next();
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(RemoteProtocolError);
    reader.push(receipt(3));
    expect(() => reader.next()).toThrow(failure as Error);
    expect(reader.bufferedBytes).toBe(0);
  });

  it.each([
    ['a size below that of its own field', Buffer.from([0, 0, 0, 3, 0, 0, 0, 0])],
    ['a command longer than the frame', Buffer.from([0, 0, 0, 8, 0, 0, 0, 5, 8, 18, 0, 0])],
    ['a command of no bytes', Buffer.from([0, 0, 0, 4, 0, 0, 0, 0])],
    ['a command of zeros', frameOf(Buffer.alloc(8))],
    ['text', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ])('refuses %s', (_what, bytes) => {
    expect(() => readAll(new FrameReader({ maxFrameSize: 6_000_000 }), [bytes])).toThrow(RemoteProtocolError);
  });

  it('reads a large frame of many chunks without copying it again and again', () => {
    const payload = Buffer.alloc(5_000_000, 9);
    const frame = message(payload);
    const reader = new FrameReader({ maxFrameSize: 6_000_000 });
    const chunks: Buffer[] = [];
    for (let at = 0; at < frame.length; at += 500) chunks.push(frame.subarray(at, at + 500));
    const [only] = readAll(reader, chunks);
    expect(only.type === 'message' && only.headersAndPayload.equals(payload)).toBe(true);
  });

  it('meets whatever a broken peer sends with frames or RemoteProtocolError, nothing else', () => {
    let refused = 0;
    for (let seed = 0; seed < 4000; seed += 1) {
      const random = new Random(seed);
      const bytes = Buffer.from(stream);
      for (let change = random.below(4) + 1; change > 0; change -= 1)
        bytes[random.below(bytes.length)] = random.below(256);
      const cut = random.below(bytes.length);
      const reader = new FrameReader({ maxFrameSize: MAX });
      try {
        readAll(reader, [bytes.subarray(0, cut), bytes.subarray(cut)]);
      } catch (error) {
        expect(error).toBeInstanceOf(RemoteProtocolError);
        refused += 1;
      }
      expect(reader.bufferedBytes).toBeLessThanOrEqual(MAX + 4);
    }
    expect(refused).toBeGreaterThan(500);
  });
});
