import { javaStringHash, murmur3Hash } from '../../../../lib/pulsar/protocol/hashes.js';
import { keyRouter } from '../../../../lib/pulsar/protocol/partitioner.js';

// Values of `JavaStringHash` and `Murmur3Hash32` of Pulsar's Java client 4.0.7; 'hello' and 'test' also stand in the tests of
// the Go client, whose Java hash is the same for ASCII only: it goes over the bytes of UTF-8, where Java takes UTF-16 units.
const HASHES: readonly [key: string, java: number, murmur3: number][] = [
  ['', 0, 0],
  ['a', 97, 1009084850],
  ['ab', 3105, 465557343],
  ['abc', 96354, 870159354],
  ['abcd', 2987074, 1139631978],
  ['hello', 0x5e918d2, 0x248bfa47],
  ['test', 0x364492, 0x3a6bd213],
  ['device-1', 1109190266, 405906941],
  ['device-2', 1109190267, 1084850768],
  ['schlüssel', 180015919, 578160381],
  ['ключ', 33309882, 442048578],
  ['日本語😀', 1290439994, 520511265],
  ['k'.repeat(100), 174326976, 1984723940],
  ['\u0000\u00ff', 255, 127709720],
];

describe('the partition of a key', () => {
  it.each(HASHES)('%j has the hashes that the Java client gives it', (key, java, murmur3) => {
    expect([javaStringHash(Buffer.from(key)), murmur3Hash(Buffer.from(key))]).toEqual([java, murmur3]);
    const nobody = (): number => {
      throw new Error('a key was there');
    };
    expect(keyRouter(javaStringHash, nobody)({ key }, 7)).toBe(java % 7);
    expect(keyRouter(murmur3Hash, nobody)({ key }, 7)).toBe(murmur3 % 7);
  });

  // What `RoundRobinPartitionMessageRouterImpl` of 4.0.7 answers for `keyBytes()`: it hashes the key as it is in the
  // metadata, which is base64.
  it.each([
    [[0, 255, 1, 254], 1, 6],
    [[1, 2, 3], 6, 6],
    [[], 0, 0],
    [[...Buffer.from('device-1')], 4, 3],
  ])('of bytes %j is the one where the Java client sends it', (bytes, java, murmur3) => {
    const keyBytes = Uint8Array.from(bytes);
    const routes = [javaStringHash, murmur3Hash].map((hash) => keyRouter(hash, () => -1)({ keyBytes }, 7));
    expect(routes).toEqual([java, murmur3]);
  });
});
