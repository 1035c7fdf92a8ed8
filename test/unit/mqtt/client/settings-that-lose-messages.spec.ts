import { MqttClient, type MqttClientOptions } from '../../../../lib/mqtt/index.js';

const refused: [string, MqttClientOptions, string, RegExp][] = [
  ['clean start', { clientId: 'a', cleanStart: true }, 'mqtt.cleanStart', /allowEphemeralSession/],
  ['no client id', {}, 'mqtt.clientId', /names the session/],
  ['session expiry 0', { clientId: 'a', sessionExpiry: 0 }, 'mqtt.sessionExpiry', /allowEphemeralSession/],
];

it.each(refused)('%s is refused unless it is asked for', (_, options, path, text) => {
  let error: unknown;
  try {
    new MqttClient(options);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({ code: 'ERR_OPTIONS', path });
  expect((error as Error).message).toMatch(text);
  expect(() => new MqttClient({ ...options, allowEphemeralSession: true })).not.toThrow();
});
