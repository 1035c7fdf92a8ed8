import { constants, createCipheriv, createPublicKey, type KeyObject, publicEncrypt, randomFillSync } from 'node:crypto';
import { isTransportError, TransportError } from '../../errors.js';
import { type EncryptedPayload, type Encryption } from '../codec/send-types.js';
import { type CryptoKeyReader } from './key-reader.js';

export interface EncryptionOptions {
  /** Names of the consumers' public keys; whoever has the private key of one of them can read the messages. */
  readonly keys: readonly string[];
  /** See `pemKeys` and `pemFiles`. */
  readonly keyReader: CryptoKeyReader;
  /** Milliseconds until a new data key is made and the public keys are read again. Default 4 hours. */
  readonly rotateAfter?: number;
  /**
   * If a public key cannot be had when the producer is made: `fail` (default) does not make it; `send` sends in the clear
   * until the keys are there (the producer's event `encryptionFailed` tells), which a topic that requires encryption
   * refuses. Later on the keys there are stay in use.
   */
  readonly failureAction?: 'fail' | 'send';
}

export const DEFAULT_ROTATION = 4 * 60 * 60 * 1000;

/**
 * Ready to encrypt.
 *
 * @throws TransportError ERR_ENCRYPTION that names the key
 */
export async function createEncryption(options: EncryptionOptions): Promise<MessageEncryption> {
  return new MessageEncryption(options, await readKeys(options));
}

/**
 * End-to-end encryption as Pulsar's Java, C++ and Go clients do it: the payload with AES-256-GCM under a data key, the data
 * key with RSA-OAEP (SHA-1) for each of the consumers' keys. The broker never sees the payload, nor a key that opens it.
 */
export class MessageEncryption implements Encryption {
  #publicKeys: readonly PublicKey[];
  #dataKey = Buffer.alloc(0);
  #wrapped: EncryptedPayload['keys'] = [];
  #overhead = 0;
  #used = 0;

  constructor(
    private readonly options: EncryptionOptions,
    publicKeys: readonly PublicKey[],
  ) {
    this.#publicKeys = publicKeys;
    this.#renew();
  }

  get overhead(): number {
    return this.#overhead;
  }

  encrypt(payload: Uint8Array): EncryptedPayload {
    // Random initialization vectors: at most 2^32 of them under one key (NIST SP 800-38D, 8.3).
    if (this.#used >= MAX_USES) this.#renew();
    this.#used += 1;
    const parameter = randomFillSync(Buffer.allocUnsafe(IV_BYTES));
    const cipher = createCipheriv('aes-256-gcm', this.#dataKey, parameter);
    const sealed = Buffer.concat([cipher.update(payload), cipher.final(), cipher.getAuthTag()]);
    return { payload: sealed, keys: this.#wrapped, parameter };
  }

  /**
   * Reads the public keys again and goes on with a new data key. If that fails the old ones stay in use.
   *
   * @throws TransportError ERR_ENCRYPTION that names the key
   */
  async rotate(): Promise<void> {
    this.#publicKeys = await readKeys(this.options);
    this.#renew();
  }

  #renew(): void {
    const dataKey = randomFillSync(Buffer.alloc(DATA_KEY_BYTES));
    const wrapped = this.#publicKeys.map(({ name, key, metadata }) => ({
      name,
      value: publicEncrypt({ key, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha1' }, dataKey),
      metadata,
    }));
    this.#dataKey = dataKey;
    this.#wrapped = wrapped;
    this.#used = 0;
    this.#overhead = TAG_BYTES + FIELD_BYTES + IV_BYTES;
    for (const { name, value, metadata } of wrapped) {
      this.#overhead += 3 * FIELD_BYTES + Buffer.byteLength(name) + value.length;
      for (const pair of metadata) {
        this.#overhead += 3 * FIELD_BYTES + Buffer.byteLength(pair.key) + Buffer.byteLength(pair.value);
      }
    }
  }
}

interface PublicKey {
  readonly name: string;
  readonly key: KeyObject;
  readonly metadata: readonly { readonly key: string; readonly value: string }[];
}

const DATA_KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const MAX_USES = 2 ** 31;
/** Tag and length of a protobuf field, at most. */
const FIELD_BYTES = 7;

function readKeys({ keys, keyReader }: EncryptionOptions): Promise<PublicKey[]> {
  return Promise.all(keys.map((name) => readKey(name, keyReader)));
}

async function readKey(name: string, keyReader: CryptoKeyReader): Promise<PublicKey> {
  let read = false;
  try {
    const { key: pem, metadata = {} } = await keyReader.getPublicKey(name);
    read = true;
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType !== 'rsa') {
      throw new TransportError('ERR_ENCRYPTION', `it is of type ${key.asymmetricKeyType ?? 'unknown'}, RSA is needed`);
    }
    return { name, key, metadata: Object.entries(metadata).map(([key, value]) => ({ key, value })) };
  } catch (error) {
    const { message } = (error ?? {}) as { message?: unknown };
    const reason = typeof message === 'string' ? message : 'unknown reason';
    throw new TransportError('ERR_ENCRYPTION', `The public key '${name}' cannot be used: ${reason}`, {
      cause: error,
      // A vault that does not answer may answer later; what it gave does not become another key.
      retriable: isTransportError(error) ? error.retriable : !read,
    });
  }
}
