export { type Authentication, type AuthRequest, basicAuth, tlsAuth, tokenAuth, type TokenSource } from './auth.js';
export { PulsarClient } from './client.js';
export { type CryptoKeyReader, type EncryptionOptions, pemFiles, pemKeys, type PublicKeyInfo } from './crypto/index.js';
export { MessageId } from './message-id.js';
export {
  type AccessMode,
  type BatchingOptions,
  type CompressionName,
  type ProducerOptions,
  type PulsarClientOptions,
} from './option-types.js';
export { oauth2Auth, type OAuth2Options } from './oauth2-auth.js';
export { parseProducerOptions } from './options.js';
export { PulsarProducer } from './producer.js';
export { type MessageRouter, type RoutedMessage } from './protocol/partitioner.js';
export {
  avroSchema,
  type AvroSchemaOptions,
  bytesSchema,
  jsonSchema,
  type JsonSchemaOptions,
  protobufSchema,
  type ProtobufSchemaOptions,
  type ProtobufType,
  type Schema,
  type SchemaOptions,
  stringSchema,
} from './schema/index.js';
export {
  type BrokerConnectionStatus,
  type CancelHandle,
  type ProducerEvents,
  type ProducerInterceptor,
  type ProducerMessage,
  type ProducerState,
  type ProducerStats,
  type PulsarClientEvents,
  type PulsarClientStatus,
  type SendCallback,
  type SendResult,
} from './types.js';
