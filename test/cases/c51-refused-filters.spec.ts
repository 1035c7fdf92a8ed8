import { assertGranted } from '../../lib/mqtt/index.js';
import { MqttBench } from './support/mqtt.js';

// MQTT.js#1886, #855, fusesource/mqtt-client#103, paho.mqtt.python#242, aedes-cli#159: an error code read as a QoS.
describe('C51: SUBACK refuses one of several filters', () => {
  it.each([
    [5, 0x87],
    [4, 0x80],
  ] as const)('names filter and reason, MQTT %i', async (protocolVersion, code) => {
    const bench = await MqttBench.start(
      { protocolVersion },
      { filters: [], broker: { subackCode: (filter) => (filter === 'secret/#' ? code : undefined) } },
    );
    const grants = await bench.client.subscribe([
      { filter: 'secret/#', qos: 1 },
      { filter: 'open/#', qos: 1 },
    ]);
    expect(grants.map(({ filter, reasonCode }) => [filter, reasonCode])).toEqual([
      ['secret/#', code],
      ['open/#', 1],
    ]);
    expect(() => assertGranted(grants)).toThrow(
      expect.objectContaining({ code: 'ERR_SUBSCRIPTION', refused: [{ filter: 'secret/#', reasonCode: code }] }),
    );
    expect(() => assertGranted(grants)).toThrow(/secret\/#/);
    await bench.stop();
  });

  it('takes a lower QoS than asked for as an error', async () => {
    const bench = await MqttBench.start({}, { filters: [], broker: { subackCode: () => 0 } });
    const grants = await bench.client.subscribe([{ filter: 'a', qos: 1 }]);
    expect(() => assertGranted(grants)).toThrow(expect.objectContaining({ code: 'ERR_SUBSCRIPTION' }));
    await bench.stop();
  });
});
