import {
  Controller,
  Inject,
  Injectable,
  type INestApplicationContext,
  Module,
  type OnModuleDestroy,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, EventPattern, Payload } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import {
  MqttClientProxy,
  MqttEarlyShutdown,
  MqttPulsarModule,
  type MqttPulsarModuleOptions,
  MqttServerStrategy,
  OptionsError,
  PulsarClientProxy,
} from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { gate, until } from './support/app.js';

describe('MqttPulsarModule and ClientsModule', () => {
  let mqtt: InMemoryMqttBroker;
  let pulsar: InMemoryPulsarBroker;
  const order: string[] = [];

  beforeEach(async () => {
    order.length = 0;
    mqtt = await InMemoryMqttBroker.start();
    pulsar = await InMemoryPulsarBroker.start();
  });
  afterEach(async () => {
    await until(() => mqtt.connections.length === 0 && pulsar.connections.length === 0);
    await mqtt.close();
    await pulsar.close();
    expect([...mqtt.violations, ...pulsar.violations]).toEqual([]);
  });

  const options = (): MqttPulsarModuleOptions => ({
    mqtt: { url: mqtt.url, clientId: 'app', shutdownTimeout: 5_000 },
    pulsar: { url: pulsar.url },
    mqttClient: { url: mqtt.url },
  });

  @Controller()
  class Telemetry {
    constructor(
      @Inject(PulsarClientProxy) private readonly toPulsar: PulsarClientProxy,
      @Inject(MqttClientProxy) private readonly toMqtt: MqttClientProxy,
    ) {}

    @EventPattern<string>('telemetry')
    store(@Payload() payload: Buffer): void {
      this.toPulsar.emit('telemetry', payload);
      this.toMqtt.emit('stored', payload);
    }
  }

  const root = (imports: unknown[], providers: unknown[] = []): new () => object => {
    class Root {}
    Module({ imports: imports as never[], controllers: [Telemetry], providers: providers as never[] })(Root);
    return Root;
  };

  const forwardsOne = async (): Promise<void> => {
    mqtt.publish('telemetry', 'x', { qos: 1 });
    await until(() => mqtt.log.received('puback').length === 1);
    expect(pulsar.topic('telemetry').texts).toEqual(['x']);
    expect(mqtt.log.received('publish').map((packet) => [packet.topic, packet.payload.toString()])).toEqual([
      ['stored', 'x'],
    ]);
  };

  it('forRoot(): a hybrid application with the strategy and both proxies', async () => {
    const app = await NestFactory.create(root([MqttPulsarModule.forRoot(options())]), { logger: false });
    app.connectMicroservice({ strategy: app.get(MqttServerStrategy) });
    await app.startAllMicroservices();
    await forwardsOne();
    await app.close();
  });

  it('forRootAsync(): options from other providers, global for modules that do not import it', async () => {
    @Module({ providers: [{ provide: 'CONFIG', useFactory: options }], exports: ['CONFIG'] })
    class ConfigModule {}
    class Feature {}
    Module({ controllers: [Telemetry] })(Feature);
    class Root {}
    Module({
      imports: [
        MqttPulsarModule.forRootAsync({
          isGlobal: true,
          imports: [ConfigModule],
          inject: ['CONFIG'],
          useFactory: async (config: MqttPulsarModuleOptions) => config,
        }),
        Feature,
      ],
    })(Root);
    const app = await NestFactory.create(Root, { logger: false });
    app.connectMicroservice({ strategy: app.get(MqttServerStrategy) });
    await app.startAllMicroservices();
    await forwardsOne();
    await app.close();
  });

  it('a standalone microservice takes its strategy from the module', async () => {
    const Root = root([MqttPulsarModule.forRoot(options())]);
    const app = await NestFactory.createMicroservice(Root, {
      inject: [MqttServerStrategy],
      useFactory: (strategy: MqttServerStrategy) => ({ strategy }),
      logger: false,
    } as never);
    await app.listen();
    await forwardsOne();
    await app.close();
  });

  it('a part without options fails where it is used, and says which options are missing', async () => {
    const context = await NestFactory.createApplicationContext(
      MqttPulsarModule.forRoot({ pulsar: { url: pulsar.url } }),
      {
        logger: false,
      },
    );
    await lastValueFrom(context.get(PulsarClientProxy).emit('t', 1));
    const error = expect.objectContaining({
      name: 'OptionsError',
      path: 'MqttPulsarModule.mqttClient',
    }) as OptionsError;
    expect(() => context.get(MqttClientProxy).emit('t', 1)).toThrow(error);
    expect(() => context.get(MqttClientProxy).emit('t', 1)).toThrow('(pass `mqttClient: { url }` to forRoot())');
    expect(() => context.get(MqttServerStrategy).status).toThrow(OptionsError);
    await context.close();
  });

  it.each([
    [{ pulser: { url: 'pulsar://localhost' } }, 'pulser', "Did you mean 'pulsar'?"],
    [{ mqtt: 'mqtt://localhost' }, 'mqtt', 'expected an object or a function'],
    [{ pulsar: null }, 'pulsar', 'expected an object, received null'],
    [undefined, '', 'expected an object'],
  ])('%j is refused by forRoot(), and by forRootAsync() once it is known', async (given, key, text) => {
    const path = key === '' ? 'MqttPulsarModule' : `MqttPulsarModule.${key}`;
    const error = expect.objectContaining({ name: 'OptionsError', path }) as OptionsError;
    expect(() => MqttPulsarModule.forRoot(given as never)).toThrow(error);
    expect(() => MqttPulsarModule.forRoot(given as never)).toThrow(text);
    const dynamic = MqttPulsarModule.forRootAsync({ useFactory: async () => given as never });
    const start = NestFactory.createApplicationContext(dynamic, { logger: false, abortOnError: false });
    await expect(start).rejects.toEqual(error);
  });

  it('forRoot() takes isGlobal, which is no option of a factory', async () => {
    expect(MqttPulsarModule.forRoot({ ...options(), isGlobal: true })).toMatchObject({ global: true });
    const dynamic = MqttPulsarModule.forRootAsync({ useFactory: () => ({ ...options(), isGlobal: true }) });
    const start = NestFactory.createApplicationContext(dynamic, { logger: false, abortOnError: false });
    await expect(start).rejects.toMatchObject({ path: 'MqttPulsarModule.isGlobal' });
  });

  it('wrong options fail the start of the application', async () => {
    const start = NestFactory.createApplicationContext(
      MqttPulsarModule.forRoot({ pulsar: { url: pulsar.url, maxProducer: 1 } as never }),
      { logger: false, abortOnError: false },
    );
    await expect(start).rejects.toMatchObject({ path: 'pulsar.maxProducer', didYouMean: 'maxProducers' });
  });

  it('on a shutdown the running handler is finished before what it needs is destroyed', async () => {
    const { promise, open } = gate();
    @Injectable()
    class Database implements OnModuleDestroy {
      onModuleDestroy(): void {
        order.push('database closed');
      }
    }
    @Module({ providers: [Database], exports: [Database] })
    class DatabaseModule {}
    @Controller()
    class Slow {
      constructor(
        @Inject(Database) readonly database: Database,
        @Inject(PulsarClientProxy) private readonly toPulsar: PulsarClientProxy,
      ) {}

      @EventPattern<string>('slow')
      async slow(@Payload() payload: Buffer): Promise<void> {
        order.push('started');
        await promise;
        await lastValueFrom(this.toPulsar.emit('slow', payload));
        order.push('stored');
      }
    }
    class Root {}
    class Feature {}
    Module({ imports: [DatabaseModule], controllers: [Slow] })(Feature);
    Module({
      imports: [MqttPulsarModule.forRoot({ ...options(), isGlobal: true }), DatabaseModule, Feature],
      providers: [MqttEarlyShutdown],
    })(Root);
    const app = await NestFactory.create(Root, { logger: false });
    app.connectMicroservice({ strategy: app.get(MqttServerStrategy) });
    await app.startAllMicroservices();
    mqtt.publish('slow', 'x', { qos: 1 });
    await until(() => order.length === 1);
    const closing = app.close();
    await until(() => mqtt.connections.length > 0);
    open();
    await closing;
    expect(order).toEqual(['started', 'stored', 'database closed']);
    expect(pulsar.topic('slow').texts).toEqual(['x']);
    expect(mqtt.log.summary().filter((entry) => entry === '>puback')).toHaveLength(1);
  });

  it('ClientsModule.register() and registerAsync() with customClass', async () => {
    class Root {}
    Module({
      imports: [
        ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: { url: pulsar.url } }]),
        ClientsModule.registerAsync([
          { name: 'MQTT', useFactory: () => ({ customClass: MqttClientProxy, options: { url: mqtt.url } }) },
          { name: 'LAZY', useFactory: () => ({ customClass: PulsarClientProxy, options: { url: pulsar.url } }) },
        ]),
      ],
    })(Root);
    const context: INestApplicationContext = await NestFactory.createApplicationContext(Root, { logger: false });
    const toPulsar = context.get<ClientProxy>('PULSAR');
    const toMqtt = context.get<ClientProxy>('MQTT');
    expect([toPulsar, toMqtt]).toEqual([expect.any(PulsarClientProxy), expect.any(MqttClientProxy)]);
    await lastValueFrom(toPulsar.emit('t', 'x'));
    await lastValueFrom(toMqtt.emit('t', 'x'));
    expect(pulsar.topic('t').texts).toEqual(['x']);
    await context.close();
    await expect(lastValueFrom(toPulsar.emit('t', 'x'))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });
});
