import { MqttClient, type MqttClientOptions } from '../../lib/mqtt/index.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { MqttBench } from './support/mqtt.js';

// MQTT.js#1119, #418, HSL's gateway: with a clean session a withheld acknowledgement is a lost message.
describe('C57: settings under which manual acknowledgement means nothing', () => {
  it.each<[string, MqttClientOptions]>([
    ['clean start', { clientId: 'c', cleanStart: true }],
    ['no client id', {}],
    ['no session expiry', { clientId: 'c', sessionExpiry: 0 }],
  ])('%s is refused before anything connects, unless it is asked for by name', (_name, options) => {
    expect(() => new MqttClient(options)).toThrow(expect.objectContaining({ code: 'ERR_OPTIONS' }));
    expect(() => new MqttClient({ ...options, allowEphemeralSession: true })).not.toThrow();
  });

  it('a broker that takes the session expiry away fails the connect', async () => {
    const broker = await InMemoryMqttBroker.start({ limits: { sessionExpiry: 0 } });
    const client = new MqttClient({ url: broker.url, clientId: 'c', protocolVersion: 5 });
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_SESSION' });
    await client.close();
    await broker.close();
  });

  it('one that lowers it is said in the status', async () => {
    const bench = await MqttBench.start(
      { protocolVersion: 5, sessionExpiry: 3600 },
      { broker: { limits: { sessionExpiry: 60 } } },
    );
    expect(bench.client.connection?.sessionExpiry).toBe(60);
    expect(bench.client.status.notes.join(' ')).toMatch(/60/);
    await bench.stop();
  });
});
