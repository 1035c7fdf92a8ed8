export { type CryptoKeyReader, pemFiles, pemKeys, type PublicKeyInfo } from './key-reader.js';
export { createEncryption, type EncryptionOptions, MessageEncryption } from './message-encryption.js';
