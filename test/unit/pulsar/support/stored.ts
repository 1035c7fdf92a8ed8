import { constants, createDecipheriv, generateKeyPairSync, type KeyObject, privateDecrypt } from 'node:crypto';
import { type InMemoryPulsarBroker } from '../../../../lib/testing/pulsar/index.js';
import { decodeWith, type Fields, openBatch } from '../codec/support.js';

/** One SEND as the broker has it, taken apart with protobufjs and node:crypto: nothing of ours reads what ours has written. */
export interface StoredFrame {
  readonly metadata: Fields;
  readonly payload: Buffer;
}

export function storedFrames(broker: InMemoryPulsarBroker, topic: string): StoredFrame[] {
  return broker.topic(topic).entries.map(({ tail }) => {
    // [magic u16][crc u32][length u32][MessageMetadata][payload]
    const end = 10 + tail.readUInt32BE(6);
    return { metadata: decodeWith('MessageMetadata', tail.subarray(10, end)), payload: tail.subarray(end) };
  });
}

/** The SEND commands that came in, as the wire log has them. */
export function sendCommands(broker: InMemoryPulsarBroker): Fields[] {
  return broker.log.entries
    .filter(({ direction, type }) => direction === 'in' && type === 'send')
    .map(({ packet }) => packet as Fields);
}

/** Entries of a batch as text, with what is said about each. */
export function batchTexts(payload: Buffer): string[] {
  return openBatch(payload).map((message) => message.payload.toString());
}

export interface KeyPair {
  readonly publicKey: string;
  readonly privateKey: KeyObject;
}

export function rsaPair(): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString(), privateKey };
}

/** RSA-OAEP with SHA-1 for the data key, AES-256-GCM with the tag at the end for the payload: as Java's client opens it. */
export function decrypt({ metadata, payload }: StoredFrame, name: string, { privateKey }: KeyPair): Buffer {
  const wrapped = (metadata.encryptionKeys as { key: string; value: Uint8Array }[]).find(({ key }) => key === name);
  if (wrapped === undefined) throw new Error(`not encrypted for ${name}`);
  const padding = constants.RSA_PKCS1_OAEP_PADDING;
  const dataKey = privateDecrypt({ key: privateKey, padding, oaepHash: 'sha1' }, wrapped.value);
  const decipher = createDecipheriv('aes-256-gcm', dataKey, metadata.encryptionParam as Uint8Array);
  decipher.setAuthTag(payload.subarray(payload.length - 16));
  return Buffer.concat([decipher.update(payload.subarray(0, payload.length - 16)), decipher.final()]);
}
