import { freePort, Pulsar } from '../brokers/index.js';
import { Evidence, MqttWire, PulsarWire } from '../wire/index.js';
import { MQTT_BROKERS, type MqttBroker, type MqttBrokerName } from './mqtt-brokers.js';

/** Real brokers, each behind a recording proxy; the app under test only ever sees the proxies. */
export interface WiredBrokers {
  readonly mqtt: MqttBroker;
  readonly pulsar: Pulsar;
  readonly mqttWire: MqttWire;
  readonly pulsarWire: PulsarWire;
  readonly evidence: Evidence;
  stop(): Promise<void>;
}

export async function startWiredBrokers(mqttBroker: MqttBrokerName = 'mosquitto'): Promise<WiredBrokers> {
  const evidence = new Evidence();
  const proxyPort = await freePort();
  const [mqtt, pulsar] = await Promise.all([
    MQTT_BROKERS[mqttBroker].start(),
    Pulsar.start({ advertisePort: proxyPort }),
  ]);
  const mqttWire = await recordMqtt(mqtt, evidence);
  const pulsarWire = await PulsarWire.start({
    targetPort: pulsar.port,
    port: proxyPort,
    onSend: (_topic, messages) => evidence.send(messages),
    onReceipt: (_topic, messages) => evidence.receipt(messages),
  });
  return {
    mqtt,
    pulsar,
    mqttWire,
    pulsarWire,
    evidence,
    async stop(): Promise<void> {
      await Promise.all([mqttWire.proxy.close(), pulsarWire.proxy.close()]);
      await Promise.all([mqtt.kill(), pulsar.kill()]);
    },
  };
}

/** A recording proxy before one more MQTT broker. */
export function recordMqtt(broker: MqttBroker, evidence: Evidence): Promise<MqttWire> {
  return MqttWire.start({
    targetPort: broker.port,
    onDelivery: (delivery) => evidence.delivery(delivery),
    onAcknowledgement: (delivery) => evidence.acknowledgement(delivery),
  });
}
