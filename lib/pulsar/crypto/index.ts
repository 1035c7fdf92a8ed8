export { type CryptoKeyReader, pemFiles, pemKeys, type PublicKeyInfo } from './key-reader.js';
export { type EncryptionOptions } from './message-encryption.js';
export { ProducerEncryption } from './producer-encryption.js';
