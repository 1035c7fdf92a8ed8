/**
 * An app as its own process, for the specs of signals: a handler that works with a pool of the user's while its emit waits for
 * a receipt. Configuration in `SIGNALLED_APP`; what happens in which order is told on stdout, a line each.
 */
import 'reflect-metadata';
import { Controller, Inject, Injectable, type LogLevel, Module, type OnModuleDestroy } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type AsyncMicroserviceOptions, type MicroserviceOptions, Payload } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import {
  MqttEarlyShutdown,
  MqttEvent,
  MqttPulsarModule,
  MqttServerStrategy,
  PulsarClientProxy,
} from '../../../lib/index.js';

export interface SignalledAppConfig {
  readonly mode: 'standalone' | 'hybrid';
  /** Who has the strategy: nobody but the microservice, the root module, or `MqttPulsarModule` with `MqttEarlyShutdown`. */
  readonly strategy: 'bare' | 'provider' | 'module';
  readonly mqttUrl: string;
  readonly pulsarUrl: string;
  readonly shutdownTimeout: number;
}

const config = JSON.parse(process.env['SIGNALLED_APP'] ?? '{}') as SignalledAppConfig;
const mqtt = {
  url: config.mqttUrl,
  clientId: 'signalled',
  shutdownTimeout: config.shutdownTimeout,
  closeTimeout: 500,
};
const pulsar = { url: config.pulsarUrl, closeTimeout: 500 };

@Injectable()
class Pool implements OnModuleDestroy {
  private destroyed = false;

  query(): void {
    if (this.destroyed) throw new Error('the pool is destroyed');
  }

  onModuleDestroy(): void {
    this.destroyed = true;
    console.log('pool destroyed');
  }
}

@Module({ providers: [Pool], exports: [Pool] })
class PoolModule {}

@Controller()
class Handlers {
  constructor(
    @Inject(Pool) private readonly pool: Pool,
    @Inject(PulsarClientProxy) private readonly toPulsar: PulsarClientProxy,
  ) {}

  @MqttEvent('t')
  async handle(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.toPulsar.emit('out', payload));
    this.pool.query();
    console.log('handled');
  }
}

const own = config.strategy === 'module' ? undefined : new MqttServerStrategy(mqtt);

@Module({
  imports: [
    PoolModule,
    own === undefined
      ? MqttPulsarModule.forRoot({ mqtt, pulsar, isGlobal: true })
      : MqttPulsarModule.forRoot({ pulsar, isGlobal: true }),
  ],
  controllers: [Handlers],
  providers: [
    ...(config.strategy === 'provider' ? [{ provide: 'STRATEGY', useValue: own }] : []),
    ...(config.strategy === 'module' ? [MqttEarlyShutdown] : []),
  ],
})
class AppModule {}

const logger: LogLevel[] = ['warn', 'error'];
if (config.mode === 'standalone') {
  const app =
    own === undefined
      ? await NestFactory.createMicroservice<AsyncMicroserviceOptions>(AppModule, {
          inject: [MqttServerStrategy],
          useFactory: (strategy: MqttServerStrategy) => ({ strategy }),
          logger,
        })
      : await NestFactory.createMicroservice(AppModule, { strategy: own, logger });
  await app.enableShutdownHooks().listen();
} else {
  const app = await NestFactory.create(AppModule, { logger });
  app.connectMicroservice<MicroserviceOptions>({ strategy: own ?? app.get(MqttServerStrategy) });
  app.enableShutdownHooks();
  await app.startAllMicroservices();
  await app.listen(0, '127.0.0.1');
}
console.log('ready');
