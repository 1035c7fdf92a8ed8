/**
 * The names and payloads of what this package publishes on `node:diagnostics_channel`. A leaf: drivers publish
 * (`if (channel.hasSubscribers)`), observers subscribe, no core knows it. Payloads never hold a secret or a payload.
 */
import { channel } from 'node:diagnostics_channel';

export const mqttConnectionChannel = channel('nestjs-mqtt-pulsar:mqtt.connection');
export const mqttDeliveryChannel = channel('nestjs-mqtt-pulsar:mqtt.delivery');
export const pulsarConnectionChannel = channel('nestjs-mqtt-pulsar:pulsar.connection');
export const pulsarProducerChannel = channel('nestjs-mqtt-pulsar:pulsar.producer');
export const emitChannel = channel('nestjs-mqtt-pulsar:emit');

/** A change of a connection (`mqtt.connection`, `pulsar.connection`). */
export interface ConnectionEvent {
  readonly client: string;
  readonly peer: string;
  readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed';
  readonly cause?: unknown;
}

/** How the handling of one MQTT delivery ended (`mqtt.delivery`). */
export interface DeliveryEvent {
  readonly client: string;
  readonly topic: string;
  readonly qos: 0 | 1 | 2;
  readonly attempt: number;
  readonly outcome:
    'acknowledged' | 'failed' | 'discarded' | 'rejected' | 'deadLettered' | 'unmatched' | 'stale' | 'abandoned';
  readonly error?: unknown;
}

/** A change of a producer (`pulsar.producer`). */
export interface ProducerEvent {
  readonly topic: string;
  readonly producer: string;
  readonly state:
    | 'connected'
    | 'disconnected'
    | 'reconnecting'
    | 'terminated'
    | 'closed'
    | 'orderBroken'
    | 'possibleDuplicate'
    | 'encryptionFailed';
  readonly cause?: unknown;
}

/** The outcome of one `ClientProxy.emit()` (`emit`). */
export interface EmitEvent {
  readonly pattern: string;
  readonly outcome: 'stored' | 'failed' | 'unobservedFailure' | 'late';
  readonly error?: unknown;
}
