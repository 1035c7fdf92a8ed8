import { connectAsync, type MqttClient } from 'mqtt';
import { InMemoryMqttBroker } from '../../../lib/testing/index.js';

describe.each([4, 5] as const)('the in-memory MQTT broker with MQTT.js, protocol version %i', (protocolVersion) => {
  let broker: InMemoryMqttBroker;
  const clients: MqttClient[] = [];
  const connect = async (clientId: string, extra: object = {}): Promise<MqttClient> => {
    const client = await connectAsync(broker.url, {
      protocolVersion,
      clientId,
      reconnectPeriod: 0,
      clean: true,
      ...extra,
    });
    clients.push(client);
    return client;
  };

  beforeEach(async () => {
    broker = await InMemoryMqttBroker.start();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.end(true);
    await broker.close();
  });

  it.each([0, 1, 2] as const)('brings a message of QoS %i from one client to another', async (qos) => {
    const reader = await connect('reader');
    const writer = await connect('writer');
    const got = new Promise<[string, string, number]>((resolve) => {
      reader.on('message', (topic, payload, packet) => resolve([topic, payload.toString(), packet.qos]));
    });
    await reader.subscribeAsync('devices/+/state', { qos: 2 });
    await writer.publishAsync('devices/7/state', 'on', { qos });
    expect(await got).toEqual(['devices/7/state', 'on', qos]);
    if (qos === 1) await broker.log.waitForReceived('puback');
    if (qos === 2) await broker.log.waitForReceived('pubcomp');
    expect(broker.violations).toEqual([]);
  });
});
