import 'reflect-metadata';
import { Controller, type INestMicroservice, type LoggerService, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { connectAsync } from 'mqtt';
import { type MqttClient, MqttServerStrategy } from '../../lib/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { mqttBrokers, LiveBroker } from './mqtt-live.js';

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

/** 5 tries are enough to see who stays; the delays are short, so that the test is. */
const QUICK = { longBackoff: { initial: 100, max: 300 }, maxTakeovers: 3 } as const;
const brokers = mqttBrokers.filter(({ differences }) => !differences.includes('has no shared subscriptions'));

describeWithMqttBrokers('two processes with one client id', () => {
  let live: LiveBroker;
  let apps: App[] = [];
  afterEach(async () => {
    await Promise.all(apps.map(({ app }) => app.close()));
    apps = [];
    await live.stop();
  });

  const startTwo = async (about: (typeof brokers)[number], topic: string): Promise<[App, App]> => {
    live = await LiveBroker.start(about);
    const clientId = unique('twice');
    for (let i = 0; i < 2; i += 1) apps.push(await startApp(live.url, clientId, about.version, topic));
    return apps as [App, App];
  };
  const telling = brokers.filter(
    ({ version, differences }) => version === 5 && !differences.includes('does not tell of a takeover'),
  );
  // mochi sends 3.1.1 clients a DISCONNECT, which that version does not have: logged as what it is.
  const silent = brokers.filter(({ name }) => name.startsWith('mosquitto'));

  it.each(telling)(
    '$name says so: the one that is thrown out too often gives up, loudly, and the other stays',
    async (about) => {
      const topic = unique('t');
      const [first, second] = await startTwo(about, topic);
      await until('one of them gives up', () => apps.some(({ strategy }) => strategy.state === 'failed'));
      const [loser, winner] = first.strategy.state === 'failed' ? [first, second] : [second, first];
      await until('the other one is connected', () => winner.strategy.state === 'connected');
      const { connects } = winner;
      const device = await connectAsync(live.url, { protocolVersion: 5 });
      for (let i = 0; i < 20; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
      await until('everything is handled by the other one', () => winner.strategy.stats.succeeded >= 20);
      await device.endAsync();
      expect(winner.connects).toBe(connects);
      expect(apps.map(({ connects: times }) => times).reduce((a, b) => a + b)).toBeLessThanOrEqual(10);
      expect(loser.strategy.health()).toMatchObject({ status: 'down', reason: 'not connected (failed)' });
      expect(logged.some((line) => /taken over/i.test(line))).toBe(true);
    },
  );

  it.each(silent)(
    '$name says nothing: ever fewer tries, and both warn',
    async (about) => {
      const topic = unique('t');
      await startTwo(about, topic);
      const warned = (): boolean => logged.filter((line) => line.includes('5 connections in a row')).length === 2;
      await until('both warn', warned, 60_000);
      const device = await connectAsync(live.url, { protocolVersion: about.version });
      for (let i = 0; i < 20; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
      const handled = (): number => apps.reduce((sum, { strategy }) => sum + strategy.stats.succeeded, 0);
      await until('one or the other handles everything', () => handled() >= 20, 60_000);
      await device.endAsync();
      // Five tries each took the sum of four growing delays; ten more would take minutes.
      for (const { connects } of apps) expect(connects).toBeLessThan(15);
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
