/** The key hashes of the Java and Go clients; both give a non-negative 31-bit number. */
export type KeyHash = (key: Uint8Array) => number;

/** `String.hashCode()` of Java over the key's UTF-16 units, sign bit cleared (`JavaStringHash`). */
export function javaStringHash(key: Uint8Array): number {
  const text = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('utf8');
  let hash = 0;
  for (let index = 0; index < text.length; index++) hash = (Math.imul(31, hash) + text.charCodeAt(index)) | 0;
  return hash & 0x7fffffff;
}

/** Murmur3, 32 bits, x86, seed 0, sign bit cleared (`Murmur3Hash32`). */
export function murmur3Hash(key: Uint8Array): number {
  let hash = 0;
  const blocks = key.length & ~3;
  for (let at = 0; at < blocks; at += 4) {
    hash ^= scramble(key[at] | (key[at + 1] << 8) | (key[at + 2] << 16) | (key[at + 3] << 24));
    hash = (hash << 13) | (hash >>> 19);
    hash = (Math.imul(hash, 5) + 0xe6546b64) | 0;
  }
  let tail = 0;
  for (let at = key.length - 1; at >= blocks; at--) tail = (tail << 8) | key[at];
  if (blocks < key.length) hash ^= scramble(tail);
  hash ^= key.length;
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  hash ^= hash >>> 16;
  return hash & 0x7fffffff;
}

function scramble(block: number): number {
  let k = Math.imul(block, 0xcc9e2d51);
  k = (k << 15) | (k >>> 17);
  return Math.imul(k, 0x1b873593);
}
