import { freePort, Mosquitto, type MosquittoOptions, Pulsar } from '../brokers/index.js';
import { Evidence, MqttWire, PulsarWire } from '../wire/index.js';

/** Real brokers, each behind a recording proxy; the app under test only ever sees the proxies. */
export interface WiredBrokers {
  readonly mosquitto: Mosquitto;
  readonly pulsar: Pulsar;
  readonly mqttWire: MqttWire;
  readonly pulsarWire: PulsarWire;
  readonly evidence: Evidence;
  stop(): Promise<void>;
}

export async function startWiredBrokers(mqtt: MosquittoOptions = {}): Promise<WiredBrokers> {
  const evidence = new Evidence();
  const proxyPort = await freePort();
  const [mosquitto, pulsar] = await Promise.all([Mosquitto.start(mqtt), Pulsar.start({ advertisePort: proxyPort })]);
  const mqttWire = await MqttWire.start({
    targetPort: mosquitto.port,
    onDelivery: (delivery) => evidence.delivery(delivery),
    onAcknowledgement: (delivery) => evidence.acknowledgement(delivery),
  });
  const pulsarWire = await PulsarWire.start({
    targetPort: pulsar.port,
    port: proxyPort,
    onSend: (_topic, messages) => evidence.send(messages),
    onReceipt: (_topic, messages) => evidence.receipt(messages),
  });
  return {
    mosquitto,
    pulsar,
    mqttWire,
    pulsarWire,
    evidence,
    async stop(): Promise<void> {
      await Promise.all([mqttWire.proxy.close(), pulsarWire.proxy.close()]);
      await Promise.all([mosquitto.kill(), pulsar.kill()]);
    },
  };
}
