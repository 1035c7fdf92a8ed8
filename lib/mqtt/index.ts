/** The room's door: a manual-acknowledgement MQTT 5 / 3.1.1 client. Knows no Nest and no Pulsar. */
export { MqttClient } from './client.js';
export {
  type Credentials,
  type EnhancedAuthentication,
  type MqttClientOptions,
  type PublishQueueOptions,
  type ResolvedMqttClientOptions,
  type WebSocketOptions,
  type WillOptions,
} from './option-types.js';
export { parseMqttClientOptions } from './options.js';
export { LevelSessionStore, type LevelSessionStoreOptions } from './level-session-store.js';
export { assertGranted } from './grants.js';
export {
  type CloseOptions,
  type ConnectResult,
  type MqttClientEvents,
  type MqttState,
  type MqttStats,
  type MqttStatus,
  type PublishCallback,
  type PublishHandle,
  type PublishRequest,
  type PublishResult,
  type ServerLimits,
  type Subscription,
  type SubscriptionGrant,
  type UnsubscribeResult,
} from './types.js';
export { type SessionStore, type SessionStoreChange, type StoredPublish, type StoredSession } from './session-store.js';
export { type DeliveryState, type MqttDelivery, type MqttMessage } from './protocol/delivery.js';
export {
  matchParameters,
  TopicRouter,
  validateTopicFilter,
  validateTopicName,
  withoutShare,
} from './protocol/topic-filter.js';
export {
  type Properties,
  type ProtocolVersion,
  type Qos,
  type SubscriptionRequest,
  type UserProperty,
} from './codec/packets.js';
export { type Endpoint } from '../net/dial.js';
