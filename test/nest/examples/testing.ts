import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../../lib/testing/index.js';

type Start = (mqttUrl: string, pulsarUrl: string) => Promise<{ close(): Promise<void> }>;

/** @param start your app, with other URLs */
export async function playOneMessage(start: Start): Promise<void> {
  const mqtt = await InMemoryMqttBroker.start();
  const pulsar = await InMemoryPulsarBroker.start();
  const app = await start(mqtt.url, pulsar.url);

  pulsar.holdReceipts();
  mqtt.publish('devices/7/telemetry', '{"celsius":21}', { qos: 1 });
  await mqtt.log.waitFor(() => pulsar.topic('telemetry').messages.length === 1);
  expect(mqtt.log.received('puback')).toEqual([]);

  pulsar.releaseReceipts();
  await mqtt.log.waitForReceived('puback');

  await app.close();
  await mqtt.close();
  await pulsar.close();
}
