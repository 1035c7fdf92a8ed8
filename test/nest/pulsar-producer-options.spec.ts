import { inflateSync } from 'node:zlib';
import { Controller, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Payload } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import {
  jsonSchema,
  MqttEvent,
  MqttPulsarModule,
  MqttServerStrategy,
  pemKeys,
  PulsarClientProxy,
  type PulsarClientProxyOptions,
  PulsarRecord,
  stringSchema,
} from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { decrypt, rsaPair, storedFrames } from '../unit/pulsar/support/stored.js';
import { until } from './support/app.js';

const definition = {
  type: 'record',
  name: 'Reading',
  fields: [{ name: 'celsius', type: 'double' }],
};
const TOPIC = 'persistent://public/default/t';

describe('producer options through PulsarClientProxy', () => {
  let broker: InMemoryPulsarBroker;
  let client: PulsarClientProxy;
  const proxy = (options: Partial<PulsarClientProxyOptions>): PulsarClientProxy =>
    (client = new PulsarClientProxy({ url: broker.url, backoff: { initial: 5, max: 20 }, ...options }));

  beforeEach(async () => {
    broker = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    await client.close();
    await broker.close();
    expect(broker.violations).toEqual([]);
  });

  it('a schema: data is the value, bytes are encoded already, null in a record is a tombstone', async () => {
    proxy({ producer: { schema: jsonSchema({ definition }) } });
    const properties = { site: 'a' };
    await Promise.all(
      [
        { celsius: 21.5 },
        Buffer.from('{"celsius":1}'),
        new PulsarRecord({ celsius: -3 }, { key: 'k', properties }),
        new PulsarRecord(null, { key: 'k' }),
      ].map((data) => lastValueFrom(client.emit('t', data))),
    );
    const { messages, schemas } = broker.topic(TOPIC);
    expect(messages.map(({ payload, key }) => [payload?.toString(), key])).toEqual([
      ['{"celsius":21.5}', undefined],
      ['{"celsius":1}', undefined],
      ['{"celsius":-3}', 'k'],
      [undefined, 'k'],
    ]);
    expect(messages[2].properties).toEqual(properties);
    expect(messages.every(({ schemaVersion }) => schemaVersion?.length === 8)).toBe(true);
    expect(schemas).toHaveLength(1);
  });

  it('encodes a value at the call: what becomes of the object later does not matter', async () => {
    proxy({ producer: { schema: jsonSchema({ definition }) } });
    const reading = { celsius: 1 };
    // The producer is not there yet.
    const first = client.emit('t', reading);
    reading.celsius = 2;
    await lastValueFrom(first);
    expect(broker.topic(TOPIC).texts).toEqual(['{"celsius":1}']);
  });

  it('another schema for each topic, by a function of its name', async () => {
    const asked = new Set<string>();
    proxy({
      producer: (topic) => {
        asked.add(topic);
        return topic === TOPIC ? { schema: stringSchema() } : {};
      },
    });
    const [wrong, ...right] = await Promise.allSettled(
      [client.emit('t', { not: 'text' }), client.emit('t', 'text'), client.emit('other', { any: 1 })].map((one) =>
        lastValueFrom(one),
      ),
    );
    expect(wrong).toMatchObject({ status: 'rejected', reason: { code: 'ERR_SERIALIZATION', retriable: false } });
    expect(right.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    expect(broker.topic(TOPIC).texts).toEqual(['text']);
    expect(broker.topic('other').texts).toEqual(['{"any":1}']);
    expect([...asked]).toEqual([TOPIC, 'persistent://public/default/other']);
  });

  it('a function whose options are wrong fails the emits of that topic, and no other', async () => {
    proxy({
      producer: (topic) => {
        if (topic.endsWith('/thrown')) throw new Error('no such topic');
        return topic.endsWith('/wrong') ? ({ compresion: 'lz4' } as object) : {};
      },
    });
    const [thrown, wrong, right] = await Promise.allSettled(
      ['thrown', 'wrong', 'right'].map((name) => lastValueFrom(client.emit(name, 1))),
    );
    expect(thrown).toMatchObject({ status: 'rejected', reason: { message: 'no such topic' } });
    expect(wrong).toMatchObject({ status: 'rejected', reason: { code: 'ERR_OPTIONS', didYouMean: 'compression' } });
    expect(right.status).toBe('fulfilled');
  });

  it('a serializer makes bytes, which no schema looks at', async () => {
    const serializer = { serialize: () => ({ payload: 'made', properties: { by: 'serializer' } }) };
    proxy({ serializer, producer: { schema: jsonSchema({ definition }) } });
    await lastValueFrom(client.emit('t', { celsius: 1 }));
    expect(broker.topic(TOPIC).messages).toMatchObject([
      { properties: { by: 'serializer' }, payload: Buffer.from('made') },
    ]);
  });

  it('a topic that no longer accepts the schema can be used again once it does', async () => {
    let compatible = true;
    broker.options.schemaCompatible = () => compatible;
    proxy({ producer: { schema: stringSchema() } });
    await lastValueFrom(client.emit('t', 'first'));
    compatible = false;
    broker.topic(TOPIC).schemas.length = 0;
    broker.connection!.cut();
    await until(() => broker.log.entries.filter(({ type }) => type === 'producer').length === 2);
    await expect(lastValueFrom(client.emit('t', 'refused'))).rejects.toMatchObject({ code: 'ERR_SCHEMA' });
    compatible = true;
    let stored = false;
    for (let tries = 0; !stored && tries < 500; tries++) {
      stored = await lastValueFrom(client.emit('t', 'second')).then(
        () => true,
        () => new Promise<boolean>((resolve) => setTimeout(resolve, 10, false)),
      );
    }
    expect(broker.topic(TOPIC).texts).toEqual(['first', 'second']);
  });

  it('what goes out without encryption, as was asked for, is said in the log', async () => {
    const keyReader = { getPublicKey: () => Promise.reject(new Error('the vault is closed')) };
    proxy({ producer: { encryption: { keys: ['k'], keyReader, failureAction: 'send' } } });
    const logged: string[] = [];
    client['logger'].localInstance.error = (message: string) => logged.push(message);
    await lastValueFrom(client.emit('t', 'open'));
    await until(() => logged.length > 0);
    expect(logged[0]).toMatch(/t go out without encryption: The public key 'k' cannot be used: the vault is closed/);
  });

  it('refuses wrong ones before anything connects', () => {
    proxy({});
    const key = { keys: ['k'], keyReader: pemKeys({}) };
    const wrong: [object, RegExp][] = [
      [{ compression: 'gzip' }, /compression.*one of 'none', 'lz4'/],
      [{ encryption: { keys: [], keyReader: key.keyReader } }, /encryption\.keys.*at least 1 entries/],
      [{ encryption: { keys: ['k'] } }, /encryption\.keyReader/],
      [{ encryption: { ...key, failureAction: 'discard' } }, /failureAction.*'fail', 'send'/],
      [{ schema: {} }, /schema.*encode\(\), decode\(\)/],
    ];
    for (const [producer, message] of wrong) {
      expect(() => new PulsarClientProxy({ url: broker.url, producer })).toThrow(message);
    }
  });
});

describe('producer options through MqttPulsarModule', () => {
  it('MQTT in, and out an encrypted, compressed message of a schema', async () => {
    const mqtt = await InMemoryMqttBroker.start();
    const pulsar = await InMemoryPulsarBroker.start();
    const pair = rsaPair();
    const keyReader = pemKeys({ ours: pair.publicKey });

    @Controller()
    class Readings {
      constructor(@Inject(PulsarClientProxy) private readonly client: PulsarClientProxy) {}

      @MqttEvent('readings', { payload: 'json' })
      store(@Payload() reading: { celsius: number }): void {
        this.client.emit('t', reading);
      }
    }

    @Module({
      imports: [
        MqttPulsarModule.forRoot({
          isGlobal: true,
          mqtt: { url: mqtt.url, clientId: 'app' },
          pulsar: {
            url: pulsar.url,
            producer: {
              batching: false,
              compression: 'zlib',
              encryption: { keys: ['ours'], keyReader },
              schema: jsonSchema({ definition }),
            },
          },
        }),
      ],
      controllers: [Readings],
    })
    class App {}

    const container = await NestFactory.create(App, { logger: false });
    container.connectMicroservice({ strategy: container.get(MqttServerStrategy) });
    await container.startAllMicroservices();
    mqtt.publish('readings', Buffer.from('{"celsius":21.5}'), { qos: 1 });
    await until(() => mqtt.log.received('puback').length === 1);
    await container.close();

    const [message] = pulsar.topic(TOPIC).messages;
    expect(message).toMatchObject({ compression: 'ZLIB', encryptionKeys: ['ours'], opaque: true });
    expect(message.schemaVersion).toEqual(Buffer.alloc(8));
    const plain = decrypt(storedFrames(pulsar, TOPIC)[0], 'ours', pair);
    expect(inflateSync(plain).toString()).toBe('{"celsius":21.5}');
    await mqtt.close();
    await pulsar.close();
    expect([...mqtt.violations, ...pulsar.violations]).toEqual([]);
  });
});
