/**
 * An app as its own process, for the specs of shutdown: it is told to close with SIGUSR2, and then nothing may keep it
 * alive. Its last line on stdout is what was still open right after `close()`.
 */
import 'reflect-metadata';
import { Controller, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, Ctx, type MicroserviceOptions, Payload } from '@nestjs/microservices';
import { MqttEvent, MqttMessageContext, MqttServerStrategy, PulsarClientProxy } from '../../../lib/index.js';

interface Settings {
  readonly mode: 'standalone' | 'hybrid';
  readonly mqttUrl: string;
  readonly pulsarUrl: string;
}

const settings = JSON.parse(process.env['CLOSING_APP'] ?? '{}') as Settings;

@Controller()
class Handlers {
  constructor(@Inject('PULSAR') private readonly pulsar: ClientProxy) {}

  @MqttEvent('t')
  store(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload);
  }

  @MqttEvent('detached')
  detached(@Ctx() context: MqttMessageContext): void {
    context.detach();
    context.signal.addEventListener('abort', () => console.log('aborted'));
  }
}

const strategy = new MqttServerStrategy({
  url: settings.mqttUrl,
  clientId: 'closing',
  shutdownTimeout: 300,
  closeTimeout: 500,
});

@Module({
  imports: [
    ClientsModule.register([
      { name: 'PULSAR', customClass: PulsarClientProxy, options: { url: settings.pulsarUrl, closeTimeout: 500 } },
    ]),
  ],
  controllers: [Handlers],
  providers: [{ provide: MqttServerStrategy, useValue: strategy }],
})
class AppModule {}

const app = await start();
console.log('ready');

process.once('SIGUSR2', () => void close());

async function start(): Promise<{ close(): Promise<void> }> {
  if (settings.mode === 'standalone') {
    const microservice = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
    await microservice.enableShutdownHooks(['SIGTERM']).listen();
    return microservice;
  }
  const hybrid = await NestFactory.create(AppModule, { logger: false });
  hybrid.connectMicroservice<MicroserviceOptions>({ strategy });
  hybrid.enableShutdownHooks(['SIGTERM']);
  await hybrid.startAllMicroservices();
  await hybrid.listen(0, '127.0.0.1');
  return hybrid;
}

async function close(): Promise<void> {
  const closing = strategy.close();
  if (strategy.close() !== closing) throw new Error('a second close() is another promise');
  await app.close();
  await closing;
  // The last handshake of a socket takes some turns; no timer is used here, as it would be in the list.
  for (const end = performance.now() + 300; performance.now() < end;) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  console.log(JSON.stringify(process.getActiveResourcesInfo()));
}
