import { OptionsError } from '../../../lib/errors.js';
import { parseMqttClientOptions } from '../../../lib/mqtt/options.js';
import { parseMqttUrl } from '../../../lib/mqtt/endpoint-url.js';
import { allowedReference } from '../../../lib/mqtt/server-reference.js';

function failure(options: object): OptionsError {
  try {
    parseMqttClientOptions(options);
  } catch (error) {
    if (error instanceof OptionsError) return error;
    throw error;
  }
  throw new Error('no error');
}

it('has the documented defaults', () => {
  expect(parseMqttClientOptions({ clientId: 'c' })).toMatchObject({
    endpoints: [{ endpoint: { scheme: 'tcp', host: 'localhost', port: 1883 } }],
    protocolVersion: 'auto',
    session: {
      sessionExpiry: 86_400,
      cleanStart: false,
      receiveMaximum: 128,
      overrunLimit: 65_535,
      keepAlive: 30,
      connectTimeout: 10_000,
      onSessionLost: 'republish',
      publishQueue: { maxMessages: 10_000, maxBytes: 64 * 1024 * 1024, overflow: 'reject', offlineQos0: true },
    },
    reconnect: { initial: 100, max: 30_000, factor: 2 },
    waitForBroker: false,
  });
});

it.each<[object, string, RegExp]>([
  [{ clientID: 'a' }, 'mqtt.clientID', /Did you mean 'clientId'/],
  [{ clientId: 'a', keepalive: 3 }, 'mqtt.keepalive', /Did you mean 'keepAlive'/],
  [{ clientId: 'a', tls: { cacert: '' } }, 'mqtt.tls.cacert', /one of ca/],
  [{ clientId: 'a', protocolVersion: 3 }, 'mqtt.protocolVersion', /one of 5, 4, 'auto', received 3/],
  [{ clientId: 'a', onSessionLost: 'republsh' }, 'mqtt.onSessionLost', /Did you mean 'republish'/],
  [{ clientId: 'a', receiveMaximum: 0 }, 'mqtt.receiveMaximum', /from 1 to 65535, received 0/],
  [{ clientId: 'a', sessionExpiry: -1 }, 'mqtt.sessionExpiry', /seconds/],
  [{ clientId: 'a', will: {} }, 'mqtt.will.topic', /a non-empty string, received nothing/],
  [{ clientId: 'a', will: { topic: 'a/#' } }, 'mqtt.will.topic', /wildcards/],
  [{ clientId: 'a', reconnect: { initial: 500, max: 100 } }, 'mqtt.reconnect.max', /at least initial \(500\)/],
  [{ clientId: 'a', overrunLimit: 5 }, 'mqtt.overrunLimit', /at least the receiveMaximum/],
  [{ clientId: 'a', protocolVersion: 4, password: 'x' }, 'mqtt.username', /MQTT-3.1.2-22/],
  [{ clientId: 'a', url: 'mqttt://x' }, 'mqtt.url', /Did you mean 'mqtt'/],
  [{ clientId: 'a', url: ['mqtt://x', 'nonsense'] }, 'mqtt.url[1]', /a URL such as/],
  [{ clientId: 'a', url: [] }, 'mqtt.url', /at least 1/],
  [{ clientId: 'a', userProperties: [['a']] }, 'mqtt.userProperties[0]', /a pair of strings/],
  [{ clientId: 'a', store: {} }, 'mqtt.store', /load\(\), apply\(\), close\(\)/],
])('%j is refused at %s', (options, path, text) => {
  const error = failure(options);
  expect(error.path).toBe(path);
  expect(error.message).toMatch(text);
});

it('shows no secret', () => {
  const secrets = [
    { clientId: 'a', password: 12_345 },
    { clientId: 'a', tls: { key: 12_345 } },
    { clientId: 'a', passwd: '12345' },
    { clientId: 'a', url: 'mqtt://user:12345@' },
    { clientId: 'a', url: 'mqt://user:12345@host' },
  ];
  for (const options of secrets) expect(failure(options).message).not.toContain('12345');
});

describe('URLs', () => {
  it.each([
    ['mqtt://h', { scheme: 'tcp', host: 'h', port: 1883 }],
    ['mqtts://h:1', { scheme: 'tls', host: 'h', port: 1 }],
    ['mqtt://[::1]:5', { scheme: 'tcp', host: '::1', port: 5 }],
    ['ws://h', { scheme: 'ws', host: 'h', port: 80, path: '/mqtt' }],
    ['wss://h/x?y=1', { scheme: 'wss', host: 'h', port: 443, path: '/x?y=1' }],
    ['unix:///run/m%20q.sock', { scheme: 'unix', host: '', port: 0, path: '/run/m q.sock' }],
  ])('%s', (url, endpoint) => {
    expect(parseMqttUrl(url, 'url').endpoint).toEqual(endpoint);
  });

  it.each(['mqtt://h/path', 'unix:///', 'mqtt://u%zz@h'])('%s is refused', (url) => {
    expect(() => parseMqttUrl(url, 'url')).toThrow(OptionsError);
  });

  it.each([
    ['localhost:1883', "(put mqtt:// before it), received 'localhost:1883'"],
    ['127.0.0.1', "(put mqtt:// before it), received '127.0.0.1'"],
    ['user:secret@host:1883', '(put mqtt:// before it), received something with user information'],
    ['mqtt://a:1883,mqtt://b:1883', "several are an array: ['mqtt://a:1883', 'mqtt://b:1883']"],
    ['mqtt://a,b:1883', 'several are an array'],
    ['mqtt://user:secret@a:1883,b:1883', 'several are an array'],
    ['mqt://a', "Did you mean 'mqtt'?"],
  ])('%s: the error says what to write', (url, text) => {
    expect(() => parseMqttUrl(url, 'url')).toThrow(text);
    expect(() => parseMqttUrl(url, 'url')).not.toThrow('secret');
  });

  it('a comma in a password is no list', () => {
    expect(parseMqttUrl('mqtt://u:a,b@h', 'url')).toMatchObject({
      endpoint: { host: 'h' },
      password: Buffer.from('a,b'),
    });
  });

  it('one that is given and undefined is refused: the default would be another broker', () => {
    expect(failure({ clientId: 'a', url: undefined }).message).toBe(
      "Option 'mqtt.url': expected a URL, or no 'url' at all for mqtt://localhost:1883, " +
        'received undefined (is an environment variable missing?).',
    );
  });
});

describe('server references', () => {
  const { endpoints } = parseMqttClientOptions({ clientId: 'c', url: 'mqtts://first:8883' });
  const follow = (serverReference: string | undefined, ...serverReferences: string[]) =>
    allowedReference({ serverReference }, { serverReferences, endpoints })?.endpoint;

  it('only what is allowed, with the scheme we use', () => {
    expect(follow('other:1', 'other:1')).toEqual({ scheme: 'tls', host: 'other', port: 1 });
    expect(follow('other', 'other')).toEqual({ scheme: 'tls', host: 'other', port: 8883 });
    expect(follow('a b:2 [::1]:3', '[::1]:3')).toEqual({ scheme: 'tls', host: '::1', port: 3 });
    expect(follow('other:1', 'other:2')).toBeUndefined();
    expect(follow('other:1')).toBeUndefined();
    expect(follow('evil:1 http://x ::1', 'x')).toBeUndefined();
    expect(follow(undefined, 'other')).toBeUndefined();
  });
});
