// The bare session: MqttClient, acknowledged after the work, at most --concurrency at a time.
import { MqttClient } from 'nestjs-mqtt-pulsar';
import { Recorder, TOPIC, args, seqOf, settleMs, sleep, timeOf } from '../../lib/contestant.mjs';

const a = args();
const rec = new Recorder(a);
const client = new MqttClient({
  url: a.url,
  clientId: a.client,
  protocolVersion: a.proto,
  sessionExpiry: 3600,
  keepAlive: 60,
  receiveMaximum: a.receiveMax,
});
const waiting = [];
let head = 0;
let running = 0;
client.onDelivery = (delivery) => {
  waiting.push(delivery);
  pump();
};
function pump() {
  while (running < a.concurrency && head < waiting.length) {
    const delivery = waiting[head++];
    if (head === waiting.length) waiting.length = head = 0;
    running++;
    client.start(delivery);
    const { payload } = delivery.message;
    rec.handle(seqOf(payload), timeOf(payload)).then(
      () => end(delivery, true),
      () => end(delivery, false),
    );
  }
}
function end(delivery, good) {
  running--;
  if (good) client.acknowledge(delivery);
  else client.fail(delivery);
  pump();
}
await client.connect();
await client.subscribe([{ filter: TOPIC, qos: a.qos }]);
await rec.finished;
await sleep(settleMs(a));
await client.close();
rec.print('ours-session');
process.exit(0);
