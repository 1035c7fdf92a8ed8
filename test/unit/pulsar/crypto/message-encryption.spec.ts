import { constants, createDecipheriv, generateKeyPairSync, type KeyObject, privateDecrypt } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TransportError } from '../../../../lib/errors.js';
import { BatchEncoder } from '../../../../lib/pulsar/codec/batch-encoder.js';
import { type EncryptedPayload } from '../../../../lib/pulsar/codec/send-types.js';
import { encodeSingle } from '../../../../lib/pulsar/codec/single-encoder.js';
import { pemFiles, pemKeys } from '../../../../lib/pulsar/crypto/index.js';
import { createEncryption, type MessageEncryption } from '../../../../lib/pulsar/crypto/message-encryption.js';
import { openBatch, openSendFrame } from '../codec/support.js';

const rsa = (): { publicKey: string; privateKey: KeyObject } => {
  const pair = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { publicKey: pair.publicKey.export({ type: 'spki', format: 'pem' }).toString(), privateKey: pair.privateKey };
};
const first = rsa();
const second = rsa();
const keyReader = pemKeys({ first: first.publicKey, second: second.publicKey });
const source = { producerId: 1, producerName: 'p', publishTime: 1 };

/** Opens it as a consumer does: RSA-OAEP with SHA-1 for the data key, AES-GCM with the tag at the end for the payload. */
function open(sealed: Uint8Array, wrappedKey: Uint8Array, parameter: Uint8Array, privateKey: KeyObject): Buffer {
  const padding = constants.RSA_PKCS1_OAEP_PADDING;
  const dataKey = privateDecrypt({ key: privateKey, padding, oaepHash: 'sha1' }, wrappedKey);
  const decipher = createDecipheriv('aes-256-gcm', dataKey, parameter);
  decipher.setAuthTag(sealed.subarray(sealed.length - 16));
  return Buffer.concat([decipher.update(sealed.subarray(0, sealed.length - 16)), decipher.final()]);
}

const openPayload = ({ payload, keys, parameter }: EncryptedPayload): Buffer =>
  open(payload, keys[0].value, parameter, first.privateKey);

function encryption(options = {}): Promise<MessageEncryption> {
  return createEncryption({ keys: ['first'], keyReader, ...options });
}

describe('MessageEncryption', () => {
  it('makes a single message that each of the keys opens', async () => {
    const both = await encryption({ keys: ['first', 'second'] });
    const frame = encodeSingle({ ...source, encryption: both }, { payload: Buffer.from('secret') }, 1);
    expect(frame.includes('secret')).toBe(false);
    const { metadata, payload } = openSendFrame(frame);
    const [a, b] = metadata.encryptionKeys;
    expect([a.key, b.key]).toEqual(['first', 'second']);
    expect(open(payload, a.value, metadata.encryptionParam, first.privateKey).toString()).toBe('secret');
    expect(open(payload, b.value, metadata.encryptionParam, second.privateKey).toString()).toBe('secret');
  });

  it('makes a batch that opens to its entries', async () => {
    const encoder = new BatchEncoder();
    encoder.add({ payload: Buffer.from('one') }, 1);
    encoder.add({ payload: Buffer.from('two') }, 2);
    const { metadata, payload } = openSendFrame(encoder.seal({ ...source, encryption: await encryption() }));
    const plain = open(payload, metadata.encryptionKeys[0].value, metadata.encryptionParam, first.privateKey);
    expect(openBatch(plain).map((entry) => entry.payload.toString())).toEqual(['one', 'two']);
  });

  it('encrypts an empty payload too', async () => {
    expect(openPayload((await encryption()).encrypt(Buffer.alloc(0)))).toHaveLength(0);
  });

  it('never takes an initialization vector twice', async () => {
    const one = await encryption();
    const vectors = new Set<string>();
    for (let round = 0; round < 5000; round += 1) {
      vectors.add(Buffer.from(one.encrypt(Buffer.of(1)).parameter).toString('hex'));
    }
    expect(vectors.size).toBe(5000);
  });

  it('announces how much it adds at most, and not much more', async () => {
    const metadata = { version: '1', owner: 'somebody' };
    const reader = { getPublicKey: () => ({ key: first.publicKey, metadata }) };
    const one = await encryption({ keyReader: reader });
    const message = { payload: Buffer.alloc(100) };
    const added =
      encodeSingle({ ...source, encryption: one }, message, 1).length - encodeSingle(source, message, 1).length;
    expect(added).toBeLessThanOrEqual(one.overhead);
    expect(one.overhead - added).toBeLessThan(100);
    const sealed = openSendFrame(encodeSingle({ ...source, encryption: one }, message, 1));
    expect(sealed.metadata.encryptionKeys[0].metadata).toEqual([
      { key: 'version', value: '1' },
      { key: 'owner', value: 'somebody' },
    ]);
  });

  it('goes on with a new data key after a rotation, and reads the public keys again', async () => {
    let reads = 0;
    const one = await encryption({
      keyReader: { getPublicKey: () => ({ key: first.publicKey, metadata: { version: String(++reads) } }) },
    });
    const before = one.encrypt(Buffer.from('a'));
    await one.rotate();
    const after = one.encrypt(Buffer.from('b'));
    expect([openPayload(before).toString(), openPayload(after).toString()]).toEqual(['a', 'b']);
    expect(before.keys[0].value).not.toEqual(after.keys[0].value);
    expect(after.keys[0].metadata).toEqual([{ key: 'version', value: '2' }]);
  });

  it('keeps the old key if a rotation fails', async () => {
    let fine = true;
    const one = await encryption({
      keyReader: {
        getPublicKey: async () => {
          if (!fine) throw new Error('the vault is closed');
          return { key: first.publicKey };
        },
      },
    });
    fine = false;
    await expect(one.rotate()).rejects.toMatchObject({ code: 'ERR_ENCRYPTION' });
    expect(openPayload(one.encrypt(Buffer.from('still'))).toString()).toBe('still');
  });
});

describe('createEncryption', () => {
  it.each([
    ['is not there', { keys: ['third'] }, /'third' cannot be used: No key 'third': there are 'first', 'second'/],
    ['is no key', { keyReader: pemKeys({ first: 'PEM?' }) }, /'first' cannot be used/],
    [
      'is not RSA',
      {
        keyReader: pemKeys({
          first: generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' }),
        }),
      },
      /'first' cannot be used: it is of type ec, RSA is needed/,
    ],
  ])('fails if a key %s', async (_why, options, message) => {
    const making = createEncryption({ keys: ['first'], keyReader, ...options });
    await expect(making).rejects.toMatchObject({
      code: 'ERR_ENCRYPTION',
      retriable: false,
      message: expect.stringMatching(message),
    });
  });

  it.each<[string, unknown, boolean]>([
    ['an error of a vault', new Error('the vault is closed'), true],
    ['nothing at all', undefined, true],
    ['an error that says it is final', new TransportError('ERR_ENCRYPTION', 'no such key'), false],
  ])('says whether it can pass: %s', async (_what, thrown, retriable) => {
    const failing = {
      getPublicKey: () => {
        throw thrown;
      },
    };
    const making = createEncryption({ keys: ['first'], keyReader: failing });
    await expect(making).rejects.toMatchObject({ code: 'ERR_ENCRYPTION', retriable });
  });

  it('never shows a key in an error', async () => {
    const secret = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC';
    const making = createEncryption({ keys: ['first'], keyReader: pemKeys({ first: secret }) });
    await expect(making).rejects.not.toThrow(secret);
  });

  it('reads keys from files', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'));
    try {
      writeFileSync(join(folder, 'key.pem'), first.publicKey);
      const one = await encryption({ keyReader: pemFiles({ first: join(folder, 'key.pem') }) });
      expect(openPayload(one.encrypt(Buffer.from('from a file'))).toString()).toBe('from a file');
      const missing = createEncryption({ keys: ['other'], keyReader: pemFiles({ other: join(folder, 'none.pem') }) });
      await expect(missing).rejects.toThrow(/'other' cannot be used: ENOENT/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
