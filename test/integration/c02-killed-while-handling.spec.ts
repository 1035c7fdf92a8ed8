import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { scratchFolder } from '../brokers/paths.js';
import { type AppConfig } from '../crash/app-config.js';
import { ChildApp } from '../crash/child-app.js';
import { Evidence, idOf, MqttWire, type WireDelivery } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';

// Case C02: the process dies in mid-handler. The message must come back, and only once acknowledged may it be gone.
describeWithBrokers('C02 killed while a handler runs', () => {
  it.each([1, 2] as const)(
    'QoS %d: the next process gets the same payload with DUP, a third one nothing',
    async (qos) => {
      const brokers = integrationBrokers();
      const evidence = new Evidence();
      const deliveries: WireDelivery[] = [];
      const wire = await MqttWire.start({
        targetPort: brokers.mqttPort,
        onDelivery: (delivery) => deliveries.push(delivery),
        onAcknowledgement: (delivery) => evidence.acknowledged.add(idOf(delivery.payload)),
      });
      const folder = scratchFolder('c02');
      const config = (run: number, minWorkMs: number): AppConfig => ({
        mqttUrl: wire.url,
        pulsarUrl: brokers.pulsarUrl,
        clientId,
        topic: `persistent://public/default/${clientId}`,
        markers: join(folder, `markers-${run}`),
        minWorkMs,
        workMs: 0,
        failRate: 0,
        concurrency: 16,
        receiveMaximum: 32,
        redeliverAfterMs: 1000,
      });
      const clientId = unique('c02');
      const device = await connectAsync(brokers.mqttUrl);

      const first = await ChildApp.start(config(1, 60_000));
      const id = 1000 + qos;
      await device.publishAsync(`devices/${clientId}/telemetry`, `{"id":${id}}`, { qos });
      await until('the handler runs', () => first.handlers.running === 1);
      await first.kill();
      expect(evidence.acknowledged.has(id)).toBe(false);

      const second = await ChildApp.start(config(2, 0));
      await until('the acknowledgement', () => evidence.acknowledged.has(id));
      const copies = deliveries.filter((delivery) => idOf(delivery.payload) === id);
      expect(copies.map((copy) => [copy.dup, copy.payload.toString()])).toEqual([
        [false, `{"id":${id}}`],
        [true, `{"id":${id}}`],
      ]);
      await second.close();

      const before = deliveries.length;
      const third = await ChildApp.start(config(3, 0));
      // A message published now arrives after whatever the session still held.
      await device.publishAsync(`devices/${clientId}/telemetry`, `{"id":${id + 10}}`, { qos });
      await until('the later message', () => evidence.acknowledged.has(id + 10));
      expect(deliveries.slice(before).map((delivery) => idOf(delivery.payload))).toEqual([id + 10]);
      await third.close();
      await device.endAsync();
      await wire.proxy.close();
    },
  );
});
