import { type MqttDelivery } from '../mqtt/index.js';
import { type DeliveryEvent, mqttDeliveryChannel } from '../observability/channels.js';

/** Tells observers how the handling of a delivery ended; costs nothing while nobody listens. */
export function reportDelivery(
  client: string,
  delivery: MqttDelivery,
  outcome: DeliveryEvent['outcome'],
  error?: unknown,
): void {
  if (!mqttDeliveryChannel.hasSubscribers) return;
  const { topic, qos } = delivery.message;
  const event: DeliveryEvent = {
    client,
    topic,
    qos,
    attempt: delivery.attempt,
    outcome,
    ...(error !== undefined && { error }),
  };
  mqttDeliveryChannel.publish(event);
}
