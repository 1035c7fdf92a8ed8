import { ClientKafka } from '@nestjs/microservices';
import { type DeadLetterOptions, MqttClientProxy, PulsarClientProxy } from '../../../lib/index.js';

/** The bytes are the payload, the MQTT topic the key, everything else a property. */
export const toPulsar = (url: string): DeadLetterOptions => ({
  client: new PulsarClientProxy({ url }),
  pattern: 'persistent://telemetry/ops/dead-letters',
});

/** The bytes are the payload, everything else a user property (none in 3.1.1). No handler may match these topics. */
export const toMqtt = (url: string): DeadLetterOptions => ({
  client: new MqttClientProxy({ url }),
  pattern: (topic) => `dead-letters/${topic}`,
});

/** JSON: `payload` is the bytes in base64, `properties` are the message's own, the rest is about the failure. */
export const toKafka = (brokers: string[]): DeadLetterOptions => ({
  client: new ClientKafka({ client: { brokers } }),
  pattern: 'dead-letters',
});
