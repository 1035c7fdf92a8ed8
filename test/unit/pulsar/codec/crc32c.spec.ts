import { crc32c, setNativeCrc32c } from '../../../../lib/pulsar/codec/crc32c.js';
import { Random, slowCrc32c } from './support.js';

describe('crc32c', () => {
  afterEach(() => setNativeCrc32c(undefined));

  // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
  it.each([
    ['123456789', Buffer.from('123456789'), 0xe3069283],
    ['nothing', Buffer.alloc(0), 0],
    ['32 zeros', Buffer.alloc(32), 0x8a9136aa],
    ['32 ones', Buffer.alloc(32, 0xff), 0x62a8ab43],
    ['ascending', Buffer.from(Array.from({ length: 32 }, (_, index) => index)), 0x46dd794e],
    ['descending', Buffer.from(Array.from({ length: 32 }, (_, index) => 31 - index)), 0x113fdb5c],
  ])('gives the published value for %s', (_name, bytes, expected) => {
    expect(crc32c(bytes)).toBe(expected);
  });

  it('agrees with the bitwise definition for every length and offset', () => {
    const random = new Random(2);
    const bytes = Buffer.from(Array.from({ length: 80 }, () => random.below(256)));
    for (let start = 0; start < 9; start += 1) {
      for (let end = start; end <= bytes.length; end += 1) {
        expect(crc32c(bytes, start, end)).toBe(slowCrc32c(bytes.subarray(start, end)));
      }
    }
  });

  it('leaves long inputs to a native function, and short ones not', () => {
    const lengths: number[] = [];
    setNativeCrc32c((bytes) => {
      lengths.push(bytes.length);
      return slowCrc32c(bytes) | 0; // signed, as some return it
    });
    lengths.length = 0;
    const bytes = Buffer.alloc(5000, 7);
    expect(crc32c(bytes, 10, 4010)).toBe(slowCrc32c(bytes.subarray(10, 4010)));
    expect(crc32c(bytes, 0, 64)).toBe(slowCrc32c(bytes.subarray(0, 64)));
    expect(lengths).toEqual([4000]);
  });

  it('refuses a native function that computes something else', () => {
    expect(() => setNativeCrc32c(() => 0xcbf43926)).toThrow(/CRC-32C/);
    expect(crc32c(Buffer.alloc(1000))).toBe(slowCrc32c(Buffer.alloc(1000)));
  });
});
