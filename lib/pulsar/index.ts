export { type Authentication, basicAuth, tlsAuth, tokenAuth, type TokenSource } from './auth.js';
export { PulsarClient } from './client.js';
export { MessageId } from './message-id.js';
export {
  type AccessMode,
  type BatchingOptions,
  type CompressionName,
  type ProducerOptions,
  type PulsarClientOptions,
} from './option-types.js';
export { parseProducerOptions } from './options.js';
export { PulsarProducer } from './producer.js';
export { type MessageRouter, type RoutedMessage } from './protocol/partitioner.js';
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
