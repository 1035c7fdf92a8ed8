import { crc32c } from '../../../lib/testing/pulsar/crc32c.js';
import { crc32c as bitwise } from './raw-pulsar-client.js';

describe('CRC-32C of the in-memory broker', () => {
  it('knows the check value, and agrees with the bit by bit definition', () => {
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
    expect(crc32c(Buffer.alloc(0))).toBe(0);
    for (let length = 1; length < 300; length += 13) {
      const bytes = Buffer.from(Array.from({ length }, (_, index) => (index * 31 + length) & 0xff));
      expect(crc32c(bytes)).toBe(bitwise(bytes));
    }
  });
});
