import 'reflect-metadata';
import { Controller, type INestMicroservice, type LoggerService, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { connectAsync } from 'mqtt';
import { type MqttClient, MqttServerStrategy } from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { killLiveApps, LiveApp } from './live-app-process.js';
import { LiveBroker, mqttBrokers } from './mqtt-live.js';
import { type WireLog } from './mqtt-wire-log.js';

/** Nest has one logger for all applications of a process. */
let logged: string[] = [];
const note = (message: unknown): void => void logged.push(String(message));
beforeEach(() => {
  logged = [];
});

interface App {
  readonly app: INestMicroservice;
  readonly strategy: MqttServerStrategy;
  connects: number;
}

async function startApp(url: string, clientId: string, protocolVersion: 4 | 5, topic: string): Promise<App> {
  const logger: LoggerService = { log: () => undefined, warn: note, error: note };
  @Controller()
  class Handlers {
    @EventPattern<string>(topic)
    handle(): void {}
  }
  @Module({ controllers: [Handlers] })
  class AppModule {}
  const strategy = new MqttServerStrategy({ url, clientId, protocolVersion, ...QUICK });
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger });
  const started: App = { app, strategy, connects: 0 };
  strategy.unwrap<MqttClient>().on('connect', () => (started.connects += 1));
  await app.listen();
  return started;
}

/** The delays are short, so that the test is; what is counted does not depend on them. */
const QUICK = { longBackoff: { initial: 100, max: 300 }, maxTakeovers: 3 } as const;
const brokers = mqttBrokers.filter(({ differences }) => !differences.includes('has no shared subscriptions'));
const COUNT = 20;

describeWithMqttBrokers('two processes with one client id', () => {
  let live: LiveBroker;
  let pulsar: InMemoryPulsarBroker;
  let wire: WireLog;
  let apps: LiveApp[] = [];
  afterEach(async () => {
    await killLiveApps();
    await pulsar.close();
    await live.stop();
  });

  const startTwo = async (about: (typeof brokers)[number], filter: string): Promise<[LiveApp, LiveApp]> => {
    live = await LiveBroker.start(about);
    pulsar = await InMemoryPulsarBroker.start();
    wire = await live.wire();
    const strategy = { url: wire.url, clientId: unique('twice'), protocolVersion: about.version, ...QUICK };
    apps = [];
    for (let i = 0; i < 2; i += 1) {
      apps.push(await LiveApp.start({ pulsarUrl: pulsar.url, filter, holding: false, strategy }));
    }
    return apps as [LiveApp, LiveApp];
  };
  const connects = (): number => wire.of('client', 'connect').length;
  const publish = async (topic: string, version: 4 | 5): Promise<void> => {
    const device = await connectAsync(live.url, { protocolVersion: version });
    for (let i = 0; i < COUNT; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
    await device.endAsync();
  };
  const telling = brokers.filter(
    ({ version, differences }) => version === 5 && !differences.includes('does not tell of a takeover'),
  );
  const silent = brokers.filter((about) => !telling.includes(about));

  it.each(telling)(
    '$name says so: the one that is thrown out too often gives up, loudly, and the other stays',
    async (about) => {
      const topic = unique('t');
      const [first, second] = await startTwo(about, topic);
      await until('one of them gives up', () => apps.some(({ status }) => status?.status === 'failed'));
      const [loser, winner] = first.status?.status === 'failed' ? [first, second] : [second, first];
      await until('the other one is connected', () => winner.status?.status === 'connected');
      const made = connects();
      // Each was thrown out three times at most before one gave up at the fourth.
      expect(made).toBeLessThanOrEqual(2 * (QUICK.maxTakeovers + 1));
      expect(wire.of('server', 'disconnect').map(({ reasonCode }) => reasonCode)).toEqual(
        Array.from({ length: made - 1 }, () => 0x8e),
      );
      expect(loser.status).toMatchObject({
        health: 'down',
        reason: expect.stringMatching(/^not connected \(failed\): ./),
      });
      expect(winner.status).toMatchObject({ health: 'up' });
      expect(loser.of('log').at(-1)?.line).toMatch(/taken over/i);

      await publish(topic, about.version);
      await until('everything is handled by the other one', () => winner.ended.length === COUNT);
      expect(loser.ended).toEqual([]);
      expect(connects()).toBe(made);
    },
  );

  it.each(silent)(
    '$name gives no reason: no one gives up, ever fewer tries, and both ask whether there is another client',
    async (about) => {
      const topic = unique('t');
      await startTwo(about, topic);
      const asked = (app: LiveApp): boolean => app.logged('does another client use the client id') > 0;
      await until('both ask', () => apps.every(asked), 60_000);
      await publish(topic, about.version);
      const handled = (): Set<string> => new Set(pulsar.topic('out').texts);
      await until('one or the other handles everything', () => handled().size === COUNT, 60_000);
      // Both were thrown out five times; a few more tries may have been made since. Without growing delays it were hundreds.
      expect(connects()).toBeLessThan(2 * 12);
      expect(apps.flatMap((app) => app.of('status')).filter(({ status }) => status === 'failed')).toEqual([]);
    },
    180_000,
  );
});

describeWithMqttBrokers('a session that the broker has lost', () => {
  it.each(brokers)('$name: said in the log and as an event, subscribed again, messages flow', async (about) => {
    const live = await LiveBroker.start(about);
    const topic = unique('t');
    const clientId = unique('lost');
    const app = await startApp(live.url, clientId, about.version, topic);
    let lost = 0;
    app.strategy.on('sessionLost', () => (lost += 1));
    // The broker drops the session for a client that starts clean under the same id.
    const wire = await connectAsync(live.url, { protocolVersion: about.version, clientId, clean: true });
    await wire.endAsync();
    await until('the loss is told', () => lost > 0);
    expect(logged.some((line) => line.includes('The broker has lost our session'))).toBe(true);
    await until('connected again', () => app.strategy.state === 'connected');
    const device = await connectAsync(live.url, { protocolVersion: about.version });
    await until('subscribed again', async () => {
      await device.publishAsync(topic, 'x', { qos: 1 });
      return app.strategy.stats.succeeded > 0;
    });
    await device.endAsync();
    await app.app.close();
    await live.stop();
  });
});
