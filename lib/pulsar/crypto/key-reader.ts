import { readFile } from 'node:fs/promises';
import { TransportError } from '../../errors.js';

/** A consumer's public key. */
export interface PublicKeyInfo {
  /** PEM (SPKI, PKCS#1 or a certificate) of an RSA key. */
  readonly key: string | Buffer;
  /** Goes with every message, for the consumer's reader of private keys: a version, for example. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * Where public keys come from: a file, a vault. Asked when the producer is made and at every rotation of the data key. What
 * it throws counts as passing, unless it is an error of this package that is not `retriable`.
 */
export interface CryptoKeyReader {
  getPublicKey(name: string): PublicKeyInfo | Promise<PublicKeyInfo>;
}

/** Keys at hand, as PEM by name. */
export function pemKeys(keys: Readonly<Record<string, string | Buffer>>): CryptoKeyReader {
  return {
    getPublicKey(name) {
      if (!Object.hasOwn(keys, name)) throw unknownKey(`No key '${name}'`, keys);
      return { key: keys[name] };
    },
  };
}

/** Keys in PEM files, by name; read anew at every rotation of the data key. */
export function pemFiles(paths: Readonly<Record<string, string>>): CryptoKeyReader {
  return {
    async getPublicKey(name) {
      if (!Object.hasOwn(paths, name)) throw unknownKey(`No file for the key '${name}'`, paths);
      return { key: await readFile(paths[name]) };
    },
  };
}

function unknownKey(what: string, known: object): TransportError {
  const names = Object.keys(known).map((name) => `'${name}'`);
  return new TransportError('ERR_ENCRYPTION', `${what}: there are ${names.join(', ') || 'none'}`);
}
