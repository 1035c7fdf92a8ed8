import { type DynamicModule, Module } from '@nestjs/common';
import { PulsarClientProxy } from '../../../lib/index.js';
import { TelemetryController } from './telemetry.controller.js';

/** The application. In one of your own the URL would come from a ConfigService. */
@Module({})
export class AppModule {
  static with(pulsarUrl: string): DynamicModule {
    return {
      module: AppModule,
      controllers: [TelemetryController],
      providers: [{ provide: PulsarClientProxy, useFactory: () => new PulsarClientProxy({ url: pulsarUrl }) }],
    };
  }
}
