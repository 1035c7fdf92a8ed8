/**
 * NestJS transports with one promise: MQTT in, Pulsar out, nothing lost.
 *
 * - {@link MqttServerStrategy} receives over MQTT and acknowledges a message after its handlers have succeeded.
 * - {@link PulsarClientProxy} emits to Pulsar; {@link MqttClientProxy} emits and sends requests over MQTT.
 * - {@link MqttClient} and {@link PulsarClient} are the clients below, for use without Nest.
 *
 * In-memory brokers for tests are in `nestjs-mqtt-pulsar/testing`.
 *
 * @packageDocumentation
 */
export {
  AuthenticationError,
  ClosedError,
  ConnectionError,
  type ErrorCode,
  isTransportError,
  LocalProtocolError,
  MessageTooLargeError,
  OptionsError,
  PublishError,
  RemoteProtocolError,
  SessionError,
  SubscriptionError,
  TimeoutError,
  TransportError,
} from './errors.js';
export { type BackoffOptions, type Clock, type Dialer, type Endpoint, type TlsOptions } from './net/index.js';

export {
  assertGranted,
  type ConnectResult,
  type Credentials,
  type DeliveryState,
  type EnhancedAuthentication,
  LevelSessionStore,
  type LevelSessionStoreOptions,
  matchParameters,
  MqttClient,
  type MqttClientEvents,
  type MqttClientOptions,
  type MqttDelivery,
  type MqttMessage,
  type MqttState,
  type MqttStats,
  type MqttStatus,
  type Properties,
  type ProtocolVersion,
  type PublishCallback,
  type PublishHandle,
  type PublishQueueOptions,
  type PublishRequest,
  type PublishResult,
  type Qos,
  type ServerLimits,
  type SessionStore,
  type SessionStoreChange,
  type StoredPublish,
  type StoredSession,
  type Subscription,
  type SubscriptionGrant,
  TopicRouter,
  type UserProperty,
  validateTopicFilter,
  validateTopicName,
  type WebSocketOptions,
  type WillOptions,
} from './mqtt/index.js';
export {
  type AccessMode,
  type Authentication,
  type AuthRequest,
  avroSchema,
  type AvroSchemaOptions,
  basicAuth,
  type BatchingOptions,
  type BrokerConnectionStatus,
  bytesSchema,
  type CancelHandle,
  type CompressionName,
  type CryptoKeyReader,
  type EncryptionOptions,
  jsonSchema,
  type JsonSchemaOptions,
  MessageId,
  type MessageRouter,
  oauth2Auth,
  type OAuth2Options,
  pemFiles,
  pemKeys,
  type ProducerEvents,
  type ProducerInterceptor,
  type ProducerMessage,
  type ProducerOptions,
  type ProducerState,
  type ProducerStats,
  protobufSchema,
  type ProtobufSchemaOptions,
  type ProtobufType,
  type PublicKeyInfo,
  PulsarClient,
  type PulsarClientEvents,
  type PulsarClientOptions,
  type PulsarClientStatus,
  PulsarProducer,
  type RoutedMessage,
  type Schema,
  type SchemaOptions,
  type SendCallback,
  type SendResult,
  stringSchema,
  tlsAuth,
  tokenAuth,
  type TokenSource,
} from './pulsar/index.js';

export { type MqttServerEvents, type MqttServerStatus, MqttServerStrategy } from './nest/mqtt-server.strategy.js';
export { type DeadLetterOptions, type MqttServerOptions } from './nest/mqtt-server-options.js';
export { type MqttServerStats } from './nest/task-host.js';
export { MqttEvent, type MqttPatternOptions, MqttRequest, mqttTransportId } from './nest/decorators.js';
export {
  type BatchOptions,
  type MqttHandlerOptions,
  type PayloadDecoder,
  type PayloadFormat,
} from './nest/handler-options.js';
export {
  type DetachedDelivery,
  type DetachOptions,
  isMqttMessageContext,
  MqttMessageContext,
} from './nest/mqtt-message.context.js';
export { MqttBatchContext } from './nest/mqtt-batch.context.js';
export {
  type Failure,
  type FailureDecision,
  type FailureFunction,
  type FailurePolicyOptions,
  type FinalStep,
  type RetryOptions,
} from './nest/failure-policy.js';
export { FailureCapture } from './nest/failure-capture.interceptor.js';

export { PulsarClientProxy, type PulsarProxyStats, type PulsarStatus } from './nest/pulsar-client.proxy.js';
export { MqttClientProxy, type MqttProxyStats } from './nest/mqtt-client.proxy.js';
export {
  type MqttClientProxyOptions,
  type PulsarClientProxyOptions,
  type TopicProducerOptions,
} from './nest/proxy-options.js';
export { type EmitStats } from './nest/emit-reports.js';
export { isPulsarRecord, PulsarRecord, PulsarRecordBuilder, type PulsarRecordOptions } from './nest/pulsar-record.js';
export {
  MqttPublishRecord,
  MqttPublishRecordBuilder,
  type MqttPublishRecordOptions,
} from './nest/mqtt-publish-record.js';
export { fromPulsarTopic, type PulsarTopicSpace, toPulsarTopic } from './nest/pulsar-topic-mapping.js';
export { messageProperties } from './nest/message-properties.js';
export { type PayloadSerializer, RawOrJsonSerializer, type SerializedPayload } from './nest/serializers.js';
export { JsonOrTextDeserializer, type ReplyDeserializer } from './nest/reply-deserializer.js';
export { REPLY_PROPERTY, type ReplyKind } from './nest/reply-protocol.js';

export {
  MqttEarlyShutdown,
  MqttPulsarModule,
  type MqttPulsarModuleOptions,
  type MqttPulsarProxies,
} from './nest/transports.module.js';
export {
  type ComponentHealth,
  type HealthReport,
  type HealthSource,
  type HealthStatus,
  type IndicatorResult,
  type IndicatorService,
  MqttPulsarHealth,
} from './nest/health.js';
export {
  type ConnectionEvent,
  type DeliveryEvent,
  type EmitEvent,
  type ProducerEvent,
} from './observability/channels.js';
