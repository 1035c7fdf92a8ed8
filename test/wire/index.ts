export { commandLine } from './command-line.js';
export { compare, Evidence, idOf } from './evidence.js';
export { type StoredMessage } from '../../sample/01-mqtt-to-pulsar/src/verify/pulsar-frames.js';
export { readTopic, type ReadTopicOptions } from '../../sample/01-mqtt-to-pulsar/src/verify/topic-reader.js';
export { MqttWire, type MqttWireOptions, type WireDelivery } from './mqtt-wire.js';
export { PulsarWire, type PulsarWireOptions } from './pulsar-wire.js';
export { seededRandom } from './random.js';
export { type Tap, TcpProxy, type TcpProxyOptions } from './tcp-proxy.js';
