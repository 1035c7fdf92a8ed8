import { createDialer } from '../../lib/net/index.js';
import { MqttBench } from './support/mqtt.js';

// Reports: bytebeamio/rumqtt#846, paho.mqtt.rust#141, paho.mqtt.python#554, paho.golang#53 and #57, vectordotdev/vector#25785.
describe.each([4, 5] as const)(
  'C03: handlers finish in any order, PUBACKs leave in the order received, MQTT %i',
  (version) => {
    it('releases the finished prefix and nothing behind the first open one', async () => {
      const bench = await MqttBench.start({ protocolVersion: version });
      for (let id = 1; id <= 5; id++) bench.broker.publish('t', String(id), { qos: 1 });
      const finish = async (...ids: number[]): Promise<(number | undefined)[]> => {
        for (const id of ids) bench.client.acknowledge(await bench.delivery(String(id)));
        await bench.settled();
        return bench.acknowledged();
      };
      expect(await finish(5, 3)).toEqual([]);
      expect(await finish(1)).toEqual([1]);
      expect(await finish(2)).toEqual([1, 2, 3]);
      expect(await finish(4)).toEqual([1, 2, 3, 4, 5]);
      expect(bench.broker.violations).toEqual([]);
      await bench.stop();
    });

    it('writes what one turn releases in one piece', async () => {
      const writes: Buffer[] = [];
      const bench = await MqttBench.start({
        protocolVersion: version,
        dialer: (endpoint) => (handlers) => {
          const transport = createDialer(endpoint)(handlers);
          const write = transport.write.bind(transport);
          transport.write = (chunk) => {
            writes.push(Buffer.from(chunk));
            return write(chunk);
          };
          return transport;
        },
      });
      for (let id = 1; id <= 50; id++) bench.broker.publish('t', String(id), { qos: 1 });
      await bench.delivery('50');
      writes.length = 0;
      for (const delivery of [...bench.deliveries].reverse()) bench.client.acknowledge(delivery);
      await bench.broker.log.waitForReceived('puback', 50);
      expect(bench.acknowledged()).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
      expect(writes.map((bytes) => bytes.length)).toEqual([50 * 4]);
      await bench.stop();
    });
  },
);
