// MqttClient.publish(), --concurrency promises in flight.
import { MqttClient } from 'nestjs-mqtt-pulsar';
import { TOPIC, args, inFlight, newPayload, stamp, timeSend } from '../../lib/contestant.mjs';

const a = args();
const client = new MqttClient({
  url: a.url,
  clientId: 'bench-send',
  protocolVersion: a.proto,
  keepAlive: 60,
  cleanStart: true,
  allowEphemeralSession: true,
});
await client.connect();
await timeSend('ours-publish', a, () =>
  inFlight(a, (seq) => {
    const payload = newPayload(a.payload);
    stamp(payload, seq);
    return client.publish({ topic: TOPIC, payload, qos: a.qos });
  }),
);
await client.close();
process.exit(0);
