import { Controller, Inject } from '@nestjs/common';
import { Ctx, EventPattern, Payload } from '@nestjs/microservices';
import { type MqttMessageContext, PulsarClientProxy, PulsarRecordBuilder } from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { startApp } from '../nest/support/app.js';

const seen: Buffer[] = [];

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}

  @EventPattern<string>('plain')
  plain(@Payload() payload: Buffer): void {
    seen.push(Buffer.from(payload));
    this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('record')
  record(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    seen.push(Buffer.from(payload));
    this.pulsar.emit('out', new PulsarRecordBuilder().from(context).build());
  }

  @EventPattern<string>('json', { payload: 'json' })
  json(@Payload() value: unknown): void {
    this.pulsar.emit('out', value);
  }
}

/** Payloads forced through JSON or UTF-8 (nestjs/nest#4823, #7288, #8972; mqttjs/MQTT.js#140). */
describe('C22', () => {
  it.each(['plain', 'record'])(
    '%s: the bytes at the handler and in Pulsar are the bytes that were published',
    async (topic) => {
      seen.length = 0;
      const pulsar = await InMemoryPulsarBroker.start();
      const proxy = new PulsarClientProxy({ url: pulsar.url });
      const running = await startApp([Handlers], { providers: [{ provide: PulsarClientProxy, useValue: proxy }] });
      const payloads = [
        Buffer.from([0x00, 0xff, 0xfe, 0x80]),
        Buffer.alloc(0),
        Buffer.from('{"data":1,"id":"x"}'),
        Buffer.from([0xef, 0xbb, 0xbf, 0x41]),
        Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
      ];
      for (const payload of payloads) running.broker.publish(topic, payload, { qos: 1 });
      await running.broker.log.waitForReceived('puback', payloads.length);
      expect(seen).toEqual(payloads);
      expect(pulsar.topic('out').messages.map(({ payload }) => payload)).toEqual(payloads);
      await running.close();
      await proxy.close();
      await pulsar.close();
    },
  );

  it('JSON only where asked for: parsed for the handler, written for Pulsar, without an envelope', async () => {
    const pulsar = await InMemoryPulsarBroker.start();
    const proxy = new PulsarClientProxy({ url: pulsar.url });
    const running = await startApp([Handlers], { providers: [{ provide: PulsarClientProxy, useValue: proxy }] });
    running.broker.publish('json', '{ "data": 1, "id": "x" }', { qos: 1 });
    await running.broker.log.waitForReceived('puback');
    expect(pulsar.topic('out').texts).toEqual(['{"data":1,"id":"x"}']);
    await running.close();
    await proxy.close();
    await pulsar.close();
  });
});
