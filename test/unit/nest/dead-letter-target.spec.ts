import { ClientMqtt } from '@nestjs/microservices';
import { MqttClientProxy, PulsarClientProxy } from '../../../lib/index.js';
import { MqttClient, type MqttMessage } from '../../../lib/mqtt/index.js';
import { DeadLetterTarget } from '../../../lib/nest/dead-letter-target.js';
import { type DeadLetterOptions } from '../../../lib/nest/mqtt-server-options.js';

const everything = { receiverOf: (): string => '#' };
const message = (topic: string): MqttMessage => ({ topic }) as MqttMessage;
const endpointsOf = (url: string | string[]) => new MqttClient({ url, clientId: 'app' }).endpoints;
const target = (
  client: DeadLetterOptions['client'],
  own: string | string[] = 'mqtt://one:1883',
  pattern: DeadLetterOptions['pattern'] = (topic) => `${topic}/dead`,
): DeadLetterTarget => new DeadLetterTarget({ client, pattern }, endpointsOf(own), everything);
const proxy = (url: string | string[]): MqttClientProxy => new MqttClientProxy({ url });

it.each<[string, string | string[], string | string[], string]>([
  ['one server', 'mqtt://one:1883', 'mqtt://one', 'same'],
  ['one of several', ['mqtt://one', 'mqtt://two'], ['mqtt://three', 'mqtt://TWO'], 'same'],
  ['this machine', 'mqtt://localhost:1883', 'mqtt://[::1]:1883', 'same'],
  ['this machine by address', 'mqtt://127.0.0.1', 'mqtt://localhost', 'same'],
  ['TLS, on the port that is', 'mqtt://one:1883', 'mqtts://one:8883', 'unknown'],
  ['a name and an address', 'mqtt://one', 'mqtt://10.0.0.1', 'unknown'],
  ['a socket and a port', 'unix:///run/mqtt.sock', 'mqtt://localhost', 'unknown'],
  ['a socket', 'unix:///run/mqtt.sock', 'unix:///run/mqtt.sock', 'same'],
  ['two sockets', 'unix:///run/mqtt.sock', 'unix:///run/other.sock', 'other'],
  ['two names', 'mqtt://one', 'mqtt://two', 'other'],
  ['two addresses', 'mqtt://10.0.0.2', 'mqtt://10.0.0.1', 'other'],
])('whether two clients have one broker: %s', (_name, own, theirs, expected) => {
  expect(target(proxy(theirs), own).broker).toBe(expected);
});

it('other systems are never the broker; what does not tell is unknown', async () => {
  const pulsar = new PulsarClientProxy({ url: 'pulsar://one:1883' });
  expect(target(pulsar).broker).toBe('other');
  expect(target({ emit: jestEmit }).broker).toBe('other');
  expect(target(new ClientMqtt({})).broker).toBe('unknown');
  await pulsar.close();
});

it('says beforehand who receives letters only where that can be', () => {
  expect(target(proxy('mqtt://one'), 'mqtt://one', 'dead').receiver()).toEqual({ topic: 'dead', filter: '#' });
  expect(target(proxy('mqtt://two'), 'mqtt://one', 'dead').receiver()).toBeUndefined();
  expect(target(proxy('mqtt://one'), 'mqtt://one').receiver()).toBeUndefined();
});

it('knows the topics of the latest 10,000 letters; one that is asked for stays', () => {
  const one = target(proxy('mqtt://one'));
  for (let i = 0; i <= 9_999; i += 1) one.patternFor(message(String(i)), false);
  expect(() => one.patternFor(message('0/dead'), false)).toThrow("'0/dead' is a topic of dead letters itself");
  one.patternFor(message('10000'), false);
  expect(() => one.patternFor(message('0/dead'), false)).toThrow("which the handler of '#' receives");
  expect(one.patternFor(message('1/dead'), false)).toBe('1/dead/dead');
});

it('a function of the user that fails for what a device sends says nothing of its message', () => {
  const pattern = (topic: string): string => {
    if (topic === 'odd') throw new Error('no');
    return 'dead';
  };
  const one = target(proxy('mqtt://one'), 'mqtt://one', pattern);
  const properties = { userProperties: [['dead-letter-topic', 'odd']] as [string, string][] };
  expect(one.patternFor({ ...message('devices/1'), properties }, false)).toBe('dead');
});

function jestEmit(): never {
  throw new Error('not called');
}
