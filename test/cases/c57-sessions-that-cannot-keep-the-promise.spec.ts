import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { MqttServerStrategy } from '../../lib/index.js';
import { MqttClient, type MqttClientOptions } from '../../lib/mqtt/index.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { MqttBench } from './support/mqtt.js';

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(): void {}
}
@Module({ controllers: [Handlers] })
class AppModule {}

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

  it.each([
    [
      5,
      { limits: { sessionExpiry: 60, serverKeepAlive: 7 } },
      ['MQTT 5', 'session new', 'kept 60 s', 'keep alive 7 s'],
    ],
    [4, {}, ['MQTT 3.1.1', 'session new', 'kept without an end', 'keep alive 30 s']],
  ] as const)('the strategy says once what was agreed on, MQTT %i', async (protocolVersion, options, parts) => {
    const broker = await InMemoryMqttBroker.start(options);
    const strategy = new MqttServerStrategy({ url: broker.url, clientId: 'c57', protocolVersion });
    const logged: string[] = [];
    const note = (message: unknown): void => void logged.push(String(message));
    const logger = { log: note, warn: () => undefined, error: note };
    const app = await NestFactory.createMicroservice(AppModule, { strategy, logger });
    await app.listen();
    broker.cut();
    await broker.log.waitForReceived('connect', 2);
    const lines = logged.filter((line) => line.startsWith('Connected to '));
    expect(lines).toHaveLength(1);
    for (const part of [...parts, "'c57'", 'receive maximum 128']) expect(lines[0]).toContain(part);
    await app.close();
    await broker.close();
  });
});
