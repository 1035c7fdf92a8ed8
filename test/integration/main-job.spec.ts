import 'reflect-metadata';
import { Controller, Inject, type INestMicroservice, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, Ctx, EventPattern, Payload } from '@nestjs/microservices';
import { connectAsync, type MqttClient } from 'mqtt';
import {
  type MqttMessageContext,
  MqttServerStrategy,
  PulsarClientProxy,
  PulsarRecordBuilder,
} from '../../lib/index.js';
import { Evidence, idOf, MqttWire, PulsarWire, readTopic } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';

/** One app between the two recording proxies, and a device on a client that is not ours. */
interface Job {
  readonly topic: string;
  readonly prefix: string;
  readonly app: INestMicroservice;
  readonly strategy: MqttServerStrategy;
  readonly device: MqttClient;
  readonly mqtt: MqttWire;
  readonly evidence: Evidence;
  stop(): Promise<void>;
}

async function startJob(protocolVersion: 4 | 5, handle?: (id: number) => Promise<void>): Promise<Job> {
  const brokers = integrationBrokers();
  const evidence = new Evidence();
  const mqtt = await MqttWire.start({
    targetPort: brokers.mqttPort,
    onDelivery: (delivery) => evidence.delivery(delivery),
    onAcknowledgement: (delivery) => evidence.acknowledgement(delivery),
  });
  const pulsar = await PulsarWire.start({
    targetPort: brokers.pulsarPort,
    onSend: (_topic, messages) => evidence.send(messages),
    onReceipt: (_topic, messages) => evidence.receipt(messages),
  });
  const topic = `persistent://public/default/${unique('main-job')}`;
  const prefix = unique('devices');

  @Controller()
  class TelemetryController {
    constructor(@Inject('PULSAR') private readonly pulsar: ClientProxy) {}

    @EventPattern<string>(`${prefix}/+/telemetry`, { qos: 2 })
    async onTelemetry(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
      await handle?.(idOf(payload));
      this.pulsar.emit(topic, new PulsarRecordBuilder().from(context).build());
    }
  }

  @Module({
    imports: [
      // The broker's lookup names its own address: every connection is to go through the proxy all the same.
      ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: { url: pulsar.url } }]),
    ],
    controllers: [TelemetryController],
  })
  class AppModule {}

  const strategy = new MqttServerStrategy({ url: mqtt.url, clientId: unique('app'), protocolVersion });
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
  await app.listen();
  const device = await connectAsync(brokers.mqttUrl, { protocolVersion });
  return {
    topic,
    prefix,
    app,
    strategy,
    device,
    mqtt,
    evidence,
    async stop() {
      await app.close();
      await device.endAsync();
      await mqtt.proxy.close();
      await pulsar.proxy.close();
    },
  };
}

async function publish(job: Job, id: number, qos: 0 | 1 | 2): Promise<void> {
  await job.device.publishAsync(`${job.prefix}/d${id % 5}/telemetry`, `{"id":${id}}`, { qos });
}

describeWithBrokers('the main job on mosquitto and Pulsar', () => {
  describe.each([5, 4] as const)('MQTT protocol version %d', (protocolVersion) => {
    let job: Job;
    afterEach(async () => {
      await job.stop();
    });

    it('stores every message of QoS 0, 1 and 2 once, and acknowledges only what has a receipt, in order', async () => {
      job = await startJob(protocolVersion, async (id) => {
        await new Promise((resolve) => setTimeout(resolve, (id * 7) % 11));
      });
      const count = 300;
      for (let id = 0; id < count; id += 10) {
        // mosquitto 2.0.11 loses QoS 2 messages of a client that has more than 20 under way.
        await Promise.all(
          Array.from({ length: 10 }, (_, index) => publish(job, id + index, ((id + index) % 3) as 0 | 1 | 2)),
        );
      }
      const acknowledgeable = Array.from({ length: count }, (_, id) => id).filter((id) => id % 3 !== 0);
      await until('acknowledgements', () => acknowledgeable.every((id) => job.evidence.acknowledged.has(id)));
      await until('receipts', () => job.evidence.receipted.size === count);

      const stored = await readTopic(integrationBrokers().pulsarUrl, job.topic);
      expect(stored.map((message) => idOf(message.payload)).sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, id) => id),
      );
      expect(job.evidence.acknowledgedWithoutReceipt).toEqual(new Set());
      expect(job.mqtt.figures).toMatchObject({
        outOfOrder: 0,
        unknown: 0,
        malformed: 0,
        acknowledged: acknowledgeable.length,
      });
      expect(job.evidence.emittedTooOften()).toEqual([]);
    });

    it('carries bytes, key and properties over', async () => {
      job = await startJob(protocolVersion);
      const payload = Buffer.concat([Buffer.from('{"id":1}'), Buffer.from([0x00, 0xff, 0xfe, 0x80])]);
      const userProperties = { site: 'north' };
      await job.device.publishAsync(`${job.prefix}/d7/telemetry`, payload, {
        qos: 1,
        ...(protocolVersion === 5 ? { properties: { userProperties } } : {}),
      });
      await until('the acknowledgement', () => job.evidence.acknowledged.has(1));

      const [message] = await readTopic(integrationBrokers().pulsarUrl, job.topic);
      expect(message?.payload.toString('hex')).toBe(payload.toString('hex'));
      expect(message?.key).toBe(`${job.prefix}/d7/telemetry`);
      expect(message?.properties).toMatchObject({
        'mqtt.topic': `${job.prefix}/d7/telemetry`,
        ...(protocolVersion === 5 ? userProperties : {}),
      });
      expect(message?.eventTime).toBeGreaterThan(Date.now() - 60_000);
    });

    it('stays un-acknowledged when the handler fails, comes back with DUP, and is acknowledged then', async () => {
      const failed = new Set<number>();
      job = await startJob(protocolVersion, async (id) => {
        if (id !== 3 || failed.has(id)) return;
        failed.add(id);
        throw new Error('the first run of message 3 fails');
      });
      for (let id = 0; id < 10; id++) {
        await job.device.publishAsync(`${job.prefix}/d1/telemetry`, `{"id":${id}}`, { qos: 1 });
      }
      await until('all acknowledgements', () => job.evidence.acknowledged.size === 10);
      const stored = await readTopic(integrationBrokers().pulsarUrl, job.topic);
      expect(stored.map((message) => idOf(message.payload)).sort((a, b) => a - b)).toEqual([
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
      ]);
      expect(job.mqtt.figures.redelivered).toBeGreaterThan(0);
      expect(job.mqtt.figures.outOfOrder).toBe(0);
      expect(job.evidence.acknowledgedWithoutReceipt).toEqual(new Set());
    });
  });

  it('agrees on MQTT 5 by itself, and reads back the order of one device', async () => {
    const job = await startJob(5);
    for (let id = 0; id < 50; id++) {
      await job.device.publishAsync(`${job.prefix}/d1/telemetry`, `{"id":${id}}`, { qos: 1 });
    }
    await until('all acknowledgements', () => job.evidence.acknowledged.size === 50);
    const stored = await readTopic(integrationBrokers().pulsarUrl, job.topic);
    expect(stored.map((message) => idOf(message.payload))).toEqual(Array.from({ length: 50 }, (_, id) => id));
    await job.stop();
  });
});
