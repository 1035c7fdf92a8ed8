// The strategy in a Nest application: the same one as nest-builtin's, acknowledged after the handler.
import { NestFactory } from '@nestjs/core';
import { MqttServerStrategy } from 'nestjs-mqtt-pulsar';
import { Recorder, args, settleMs, sleep } from '../../lib/contestant.mjs';
import { appModule } from '../../lib/nest-app.mjs';

const a = args();
const rec = new Recorder(a);
const strategy = new MqttServerStrategy({
  url: a.url,
  clientId: a.client,
  protocolVersion: a.proto,
  sessionExpiry: 3600,
  keepAlive: 60,
  receiveMaximum: a.receiveMax,
  concurrency: a.concurrency,
  qos: a.qos,
  payload: 'json',
});
const app = await NestFactory.createMicroservice(appModule(rec), { logger: false, strategy });
await app.listen();
await rec.finished;
await sleep(settleMs(a));
await app.close();
rec.print('ours-nest');
process.exit(0);
