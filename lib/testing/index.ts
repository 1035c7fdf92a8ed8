/**
 * In-memory MQTT and Pulsar brokers for tests, demos and fault injection. They are test doubles: nothing is stored on disk,
 * nobody is kept out, and they listen on 127.0.0.1 unless told otherwise.
 */
export * from './mqtt/index.js';
export * from './pulsar/index.js';
export { DEFAULT_WAIT, type WireEntry, type WireFilter, WireLog } from './wire-log.js';
