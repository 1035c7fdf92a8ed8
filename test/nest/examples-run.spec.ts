import { Controller, type INestApplicationContext, Module, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, type ReadPacket } from '@nestjs/microservices';
import { KafkaRequestSerializer } from '@nestjs/microservices/serializers/kafka-request.serializer.js';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import {
  type DeadLetterOptions,
  type MqttClient,
  MqttEvent,
  MqttMessageContext,
  type MqttServerOptions,
  MqttServerStrategy,
  PulsarClientProxy,
} from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { ReadingsController } from './examples/batch.js';
import { toMqtt, toPulsar } from './examples/dead-letter-targets.js';
import { UploadController, type Uploads } from './examples/detached.js';
import { DeviceController } from './examples/handler-policies.js';
import { start as startHybrid } from './examples/hybrid.js';
import { createStrategy as createOrdered } from './examples/order.js';
import { ConfigController } from './examples/requests.js';
import { createMember } from './examples/shared.js';
import { createStrategy as createWithPolicy } from './examples/strategy-policy.js';
import { playOneMessage } from './examples/testing.js';
import { figures, watch } from './examples/watching.js';
import { gate, settled, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

let mqtt: InMemoryMqttBroker;
let pulsar: InMemoryPulsarBroker;
let proxy: PulsarClientProxy;
let closing: (() => unknown)[];
beforeEach(async () => {
  mqtt = await InMemoryMqttBroker.start();
  pulsar = await InMemoryPulsarBroker.start();
  proxy = new PulsarClientProxy({ url: pulsar.url });
  closing = [];
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await proxy.close();
  await pulsar.close();
  await mqtt.close();
});

/** A microservice with this strategy. */
async function serve(
  strategy: MqttServerStrategy,
  controllers: Type[],
  providers: Provider[] = [],
): Promise<INestApplicationContext> {
  class AppModule {}
  Module({ controllers, providers })(AppModule);
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
  await app.listen();
  closing.push(() => app.close());
  return app;
}
const plain = (options: Partial<MqttServerOptions> = {}): MqttServerStrategy =>
  new MqttServerStrategy({ url: mqtt.url, clientId: 'ingest-1', ...options });
const publish = (topic: string, payload: string | Buffer, qos: 0 | 1 = 1): void =>
  mqtt.publish(topic, payload, { qos });

let runs: string[] = [];
@Controller()
class Poisoned {
  @MqttEvent('poison')
  poison(@Ctx() context: MqttMessageContext): never {
    runs.push(context.getTopic());
    throw new Error('poison');
  }
}
beforeEach(() => (runs = []));

it('strategy-policy: four runs, then a dead letter', async () => {
  const strategy = createWithPolicy(mqtt.url, proxy);
  await serve(strategy, [Poisoned]);
  publish('poison', 'x');
  await mqtt.log.waitForReceived('puback');
  expect(runs).toHaveLength(4);
  expect(pulsar.topic('dead-letters').messages).toHaveLength(1);
});

it('handler-policies: by table, by function, by hand', async () => {
  const strategy = createWithPolicy(mqtt.url, proxy);
  await serve(strategy, [DeviceController]);
  publish('devices/7/position', 'x');
  publish('devices/7/position', Buffer.alloc(16));
  publish('devices/7/order', '{}');
  publish('devices/7/order', '{"item":"a"}');
  publish('devices/7/firmware', '');
  publish('devices/7/firmware', Buffer.from([3]));
  publish('devices/7/firmware', Buffer.from([1]));
  const acknowledged = await mqtt.log.waitForReceived('puback', 7);
  expect(acknowledged.map(({ reasonCode = 0 }) => reasonCode)).toEqual([0, 0, 0, 0, 0x99, 0, 0]);
  expect(strategy.stats).toMatchObject({ discarded: 1, deadLettered: 2, rejected: 1, succeeded: 3, retries: 1 });
  const reasons = pulsar.topic('dead-letters').messages.map(({ properties }) => properties['dead-letter-reason']);
  expect(reasons.sort()).toEqual(['no item', 'version 3']);
});

class Letters extends EventClient {
  readonly taken: Record<string, unknown>[] = [];
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.taken.push(packet.data as Record<string, unknown>);
    return Promise.resolve(undefined as T);
  }
}

describe('dead-letter-targets', () => {
  const bytes = Buffer.from([0, 0xff]);
  const poison = async (deadLetter: DeadLetterOptions): Promise<void> => {
    await serve(plain({ deadLetter, failure: { then: 'deadLetter' } }), [Poisoned]);
    publish('poison', bytes);
    await mqtt.log.waitForReceived('puback');
  };

  it('Pulsar', async () => {
    const target = toPulsar(pulsar.url);
    closing.push(() => (target.client as PulsarClientProxy).close());
    await poison(target);
    const [letter] = pulsar.topic('persistent://telemetry/ops/dead-letters').messages;
    expect(letter).toMatchObject({ payload: bytes, key: 'poison', properties: { 'dead-letter-error': 'poison' } });
  });

  it('MQTT', async () => {
    const target = toMqtt(mqtt.url);
    closing.push(() => (target.client as unknown as { close(): Promise<void> }).close());
    await poison(target);
    const [letter] = mqtt.log.received('publish');
    expect(letter).toMatchObject({ topic: 'dead-letters/poison', payload: bytes });
    expect(letter.properties?.userProperties).toMatchObject({ 'dead-letter-error': 'poison' });
  });

  it('Kafka: what its client sends of a letter', async () => {
    const client = new Letters();
    await poison({ client, pattern: 'dead-letters' });
    const { value, key } = await new KafkaRequestSerializer().serialize(client.taken[0]);
    expect(key ?? null).toBeNull();
    expect(JSON.parse(String(value))).toMatchObject({
      payload: bytes.toString('base64'),
      properties: {},
      'dead-letter-topic': 'poison',
    });
  });
});

it('requests: a value, and an error reply', async () => {
  const strategy = plain();
  await serve(strategy, [ConfigController]);
  for (const version of [1, 3]) {
    const properties = { responseTopic: 'answers', correlationData: Buffer.from([version]) };
    mqtt.publish('devices/7/config', JSON.stringify({ version }), { qos: 1, properties });
  }
  const replies = await mqtt.log.waitForReceived('publish', 2);
  const texts = replies.map(({ properties, payload }) => `${properties?.correlationData?.[0]} ${payload.toString()}`);
  expect(texts.sort()).toEqual(['1 {"interval":60}', '3 {"status":"error","message":"no version 3"}']);
  await mqtt.log.waitForReceived('puback', 2);
});

it('batch: one insert, the message without a temperature fails alone', async () => {
  const inserts: object[][] = [];
  const table = { insert: (rows: object[]) => Promise.resolve(void inserts.push(rows)) };
  const strategy = plain({ failure: { then: 'discard' } });
  await serve(strategy, [ReadingsController], [{ provide: 'TABLE', useValue: table }]);
  publish('devices/1/reading', '{"celsius":21}');
  publish('devices/2/reading', '{}');
  publish('devices/3/reading', '{"celsius":23}');
  await mqtt.log.waitForReceived('puback', 3);
  expect(inserts.flat()).toEqual([
    { device: '1', celsius: 21 },
    { device: '3', celsius: 23 },
  ]);
  expect(strategy.stats).toMatchObject({ succeeded: 2, discarded: 1 });
});

it('order: one at a time per device, over its topics', async () => {
  const started: string[] = [];
  const end = gate();
  @Controller()
  class Switches {
    @MqttEvent('devices/+/+')
    async set(@Ctx() context: MqttMessageContext): Promise<void> {
      started.push(context.getTopic());
      await end.promise;
    }
  }
  await serve(createOrdered(mqtt.url), [Switches]);
  for (const topic of ['devices/7/on', 'devices/7/off', 'devices/8/on']) publish(topic, 'x');
  await until(() => started.length === 2);
  await settled();
  expect(started).toEqual(['devices/7/on', 'devices/8/on']);
  end.open();
  await mqtt.log.waitForReceived('puback', 3);
});

it('detached: acknowledged when the upload is done; a report when the store has taken it', async () => {
  const waiting: ((error?: Error) => void)[] = [];
  const uploads: Uploads = { add: (_bytes, done) => void waiting.push(done) };
  const answers = [500, 200];
  const store = createServer((_request, response) => response.writeHead(answers.shift() ?? 200).end());
  await new Promise<void>((resolve) => store.listen(0, '127.0.0.1', resolve));
  closing.push(() => store.close());
  const storeUrl = `http://127.0.0.1:${(store.address() as AddressInfo).port}`;
  const strategy = plain({ failure: { then: 'discard' } });
  await serve(
    strategy,
    [UploadController],
    [
      { provide: 'UPLOADS', useValue: uploads },
      { provide: 'STORE_URL', useValue: storeUrl },
    ],
  );
  publish('devices/7/upload', 'x');
  publish('devices/7/upload', 'y');
  await until(() => waiting.length === 2);
  await settled();
  expect(mqtt.log.received('puback')).toEqual([]);
  waiting[0]();
  waiting[1](new Error('disk full'));
  await mqtt.log.waitForReceived('puback', 2);
  publish('devices/7/report', 'x');
  await mqtt.log.waitForReceived('puback', 3);
  publish('devices/7/report', 'x');
  await mqtt.log.waitForReceived('puback', 4);
  expect(strategy.stats).toMatchObject({ succeeded: 2, discarded: 2 });
});

it('hybrid and operations: live, ready, drain, resume', async () => {
  const app = await startHybrid(mqtt.url, pulsar.url, 0);
  closing.push(() => app.close());
  const url = await app.getUrl();
  const ask = async (path: string) => {
    const response = await fetch(`${url}/${path}`);
    return { status: response.status, body: await response.text() };
  };
  expect(await ask('live')).toEqual({ status: 200, body: 'ok' });
  expect(await ask('ready')).toMatchObject({ status: 200, body: expect.stringContaining('"status":"up"') });
  expect(await ask('drain')).toEqual({ status: 200, body: 'drained' });
  expect(await ask('resume')).toEqual({ status: 200, body: 'connected' });
  // What no handler wants goes to the dead letters, through the proxy of the module.
  const client = app.get(MqttServerStrategy).unwrap<MqttClient>();
  await client.subscribe([{ filter: 'nobody', qos: 1 }]);
  publish('nobody', 'x');
  await mqtt.log.waitForReceived('puback');
  expect(pulsar.topic('dead-letters').messages).toHaveLength(1);
  mqtt.refuseConnect(0x88, 100);
  mqtt.cut();
  await until(() => app.get(MqttServerStrategy).state === 'reconnecting');
  expect(await ask('ready')).toMatchObject({ status: 503, body: expect.stringContaining('not connected') });
  expect(await ask('live')).toMatchObject({ status: 200 });
});

it('watching: a held message and a lost session are said', async () => {
  const said: string[] = [];
  const strategy = plain();
  watch(strategy, (text) => said.push(text));
  await serve(strategy, [Poisoned]);
  publish('poison', 'x');
  await until(() => said.some((text) => text.startsWith('stalled: ')));
  expect(figures(strategy)).toMatchObject({ held: 1, succeeded: 0, oldestTopic: 'poison' });
  mqtt.dropSession('ingest-1');
  mqtt.cut();
  await until(() => said.some((text) => text.includes('lost our session, 1 messages')));
});

it('shared: subscribes in the group, with a session that outlives a restart', async () => {
  const strategy = createMember(mqtt.url, 'ingest-0');
  await serve(strategy, [Poisoned]);
  const [connect] = mqtt.log.received('connect');
  expect(connect).toMatchObject({ clientId: 'ingest-0', properties: { sessionExpiryInterval: 604_800 } });
  expect(mqtt.log.received('subscribe')[0].subscriptions).toMatchObject([{ topic: '$share/ingest/poison' }]);
});

it('testing: the acknowledgement waits for the receipt', async () => {
  let ended = false;
  @Controller()
  class Telemetry {
    constructor(private readonly client: PulsarClientProxy) {}
    @MqttEvent('devices/+/telemetry')
    store(): void {
      this.client.emit('telemetry', Buffer.from('x'));
    }
  }
  await playOneMessage(async (mqttUrl, pulsarUrl) => {
    const client = new PulsarClientProxy({ url: pulsarUrl });
    const strategy = new MqttServerStrategy({ url: mqttUrl, clientId: 'tested' });
    const app = await serve(strategy, [Telemetry], [{ provide: PulsarClientProxy, useValue: client }]);
    return {
      close: async () => {
        await app.close();
        await client.close();
        ended = true;
      },
    };
  });
  expect(ended).toBe(true);
});
