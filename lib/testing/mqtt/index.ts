export { type BrokerPublishOptions, InMemoryMqttBroker, type ReceiveHook, type SendHook } from './broker.js';
export { MqttBrokerConnection } from './connection.js';
export { type MqttAuthStep, type MqttBrokerLimits, type MqttBrokerOptions, type MqttCredentials } from './options.js';
export { MalformedPacketError, type MqttPackets, type PacketType } from './packets.js';
export { type BrokerMessage, type InFlightMessage, type MqttSession, type MqttSubscription } from './session.js';
