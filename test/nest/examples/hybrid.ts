import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type MicroserviceOptions } from '@nestjs/microservices';
import {
  MqttEarlyShutdown,
  MqttPulsarHealth,
  MqttPulsarModule,
  MqttServerStrategy,
  PulsarClientProxy,
} from '../../../lib/index.js';
import { OperationsController } from './operations.js';

export async function start(mqttUrl: string, pulsarUrl: string, port: number): Promise<INestApplication> {
  @Module({
    imports: [
      MqttPulsarModule.forRoot({
        pulsar: { url: pulsarUrl },
        mqtt: ({ pulsar }) => ({
          url: mqttUrl,
          clientId: 'ingest-1',
          deadLetter: { client: pulsar, pattern: 'dead-letters' },
          failure: { then: 'deadLetter' },
        }),
      }),
    ],
    controllers: [OperationsController],
    providers: [
      MqttEarlyShutdown,
      {
        provide: MqttPulsarHealth,
        inject: [MqttServerStrategy, PulsarClientProxy],
        useFactory: (mqtt: MqttServerStrategy, pulsar: PulsarClientProxy) => new MqttPulsarHealth({ mqtt, pulsar }),
      },
    ],
  })
  class AppModule {}

  const app = await NestFactory.create(AppModule, { logger: ['warn', 'error'] });
  app.connectMicroservice<MicroserviceOptions>({ strategy: app.get(MqttServerStrategy) });
  app.enableShutdownHooks();
  await app.startAllMicroservices();
  await app.listen(port);
  return app;
}
