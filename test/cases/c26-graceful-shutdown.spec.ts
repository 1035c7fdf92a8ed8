import { Controller, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  type ClientProxy,
  ClientsModule,
  EventPattern,
  type MicroserviceOptions,
  Payload,
} from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import { MqttServerStrategy, PulsarClientProxy } from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { gate, settled, startApp, until } from '../nest/support/app.js';

const started: string[] = [];
const ends = new Map<string, ReturnType<typeof gate<void>>>();

@Controller()
class Handlers {
  @EventPattern<string>('t')
  async handle(@Payload() payload: Buffer) {
    const name = payload.toString();
    started.push(name);
    const end = gate();
    ends.set(name, end);
    await end.promise;
  }
}

beforeEach(() => {
  started.splice(0);
  ends.clear();
});

it('C26: running handlers finish and are acknowledged before DISCONNECT; nothing new starts; nothing is unsubscribed', async () => {
  const broker = await InMemoryMqttBroker.start();
  const { app, close } = await startApp([Handlers], { broker });
  for (const name of ['1', '2', '3', '4', '5']) broker.publish('t', name, { qos: 1 });
  await until(() => started.length === 5);
  const closing = app.close();
  for (const name of ['6', '7', '8']) broker.publish('t', name, { qos: 1 });
  await settled();
  for (const name of ['1', '2', '3', '4', '5']) ends.get(name)?.open();
  await closing;
  await until(() => broker.log.received('disconnect').length === 1);
  expect(started).toHaveLength(5);
  expect(broker.log.received('puback')).toHaveLength(5);
  expect(broker.log.received('unsubscribe')).toEqual([]);
  const order = broker.log.entries.filter(({ direction }) => direction === 'in').map(({ type }) => type);
  expect(order.lastIndexOf('puback')).toBeLessThan(order.indexOf('disconnect'));
  await close();
  await broker.close();
});

it('C26: what is not finished at shutdownTimeout stays un-acknowledged and is said so; a second close is the same', async () => {
  const broker = await InMemoryMqttBroker.start();
  const { strategy, logged, close } = await startApp([Handlers], { broker, strategy: { shutdownTimeout: 100 } });
  for (const name of ['1', '2']) broker.publish('t', name, { qos: 1 });
  await until(() => started.length === 2);
  ends.get('2')?.open();
  await settled();
  expect(strategy.close()).toBe(strategy.close());
  await strategy.close();
  expect(broker.log.received('puback')).toEqual([]);
  expect(logged.some((line) => line.includes('1 unfinished'))).toBe(true);
  ends.get('1')?.open();
  await close();
  await broker.close();
});

it.each(['standalone', 'hybrid'] as const)(
  'C26: %s: what a running handler emits after close() has begun is stored, and the message acknowledged',
  async (kind) => {
    const broker = await InMemoryMqttBroker.start();
    const pulsar = await InMemoryPulsarBroker.start();
    const end = gate();
    let running = false;

    @Controller()
    class Emitting {
      constructor(@Inject('PULSAR') private readonly client: ClientProxy) {}
      @EventPattern<string>('t')
      async handle(@Payload() payload: Buffer) {
        running = true;
        await end.promise;
        await lastValueFrom(this.client.emit('out', payload));
      }
    }
    const strategy = new MqttServerStrategy({ url: broker.url, clientId: 'app' });
    class AppModule {}
    Module({
      imports: [
        ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: { url: pulsar.url } }]),
      ],
      controllers: [Emitting],
      // A hybrid application closes its servers late: as a provider the strategy closes first.
      providers: kind === 'hybrid' ? [{ provide: MqttServerStrategy, useValue: strategy }] : [],
    })(AppModule);
    let close: () => Promise<void>;
    if (kind === 'standalone') {
      const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
      await app.listen();
      close = () => app.close();
    } else {
      const app = await NestFactory.create(AppModule, { logger: false });
      app.connectMicroservice<MicroserviceOptions>({ strategy: app.get(MqttServerStrategy) });
      await app.startAllMicroservices();
      close = () => app.close();
    }
    broker.publish('t', 'last words', { qos: 1 });
    await until(() => running);
    const closing = close();
    await settled();
    end.open();
    await closing;
    expect(pulsar.topic('out').texts).toEqual(['last words']);
    await until(() => broker.log.received('disconnect').length === 1);
    const order = broker.log.entries.filter(({ direction }) => direction === 'in').map(({ type }) => type);
    expect(order.indexOf('puback')).toBeGreaterThan(0);
    expect(order.indexOf('puback')).toBeLessThan(order.indexOf('disconnect'));
    expect(broker.log.received('unsubscribe')).toEqual([]);
    await broker.close();
    await pulsar.close();
  },
);
