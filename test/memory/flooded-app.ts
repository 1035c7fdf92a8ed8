/**
 * The app of `flood.spec.ts`, as its own process with `--expose-gc`: one strategy whose handler emits to Pulsar, and a client
 * of the same connection for publishes of its own. Configuration in `FLOODED_APP`.
 */
import 'reflect-metadata';
import { Controller, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, Payload } from '@nestjs/microservices';
import { type MqttClient, MqttEvent, MqttServerStrategy, PulsarClientProxy } from '../../lib/index.js';

export interface FloodedAppConfig {
  readonly mqttUrl: string;
  readonly pulsarUrl: string;
  readonly protocolVersion: 4 | 5;
  readonly qos: 0 | 1;
}

export type FloodedAppRequest =
  { readonly kind: 'ownPackets' } | { readonly kind: 'figures' } | { readonly kind: 'close' };

export type FloodedAppReport =
  | { readonly kind: 'ready' }
  /** The broker's last answer to one of our own packets is there. */
  | { readonly kind: 'answered'; readonly what: 'qos1' | 'qos2' | 'subscribe' }
  | {
      readonly kind: 'figures';
      readonly received: number;
      readonly succeeded: number;
      readonly dropped: number;
      readonly readingPaused: boolean;
      /** Most bytes of heap and external memory in use at a time until now, each seen after a forced collection. */
      readonly mostBytes: number;
      /** The same before the first message. */
      readonly idleBytes: number;
    };

/** Of the payload that reaches Pulsar: what tells one message from another. */
const ID_BYTES = 8;
const SAMPLE_MS = 100;

const config = JSON.parse(process.env['FLOODED_APP'] ?? '{}') as FloodedAppConfig;
const report = (message: FloodedAppReport): void => void process.send?.(message);

@Controller()
class Handlers {
  constructor(@Inject('PULSAR') private readonly pulsar: ClientProxy) {}

  @MqttEvent('flood', { qos: config.qos })
  store(@Payload() payload: Buffer): void {
    this.pulsar.emit('flood', payload.subarray(0, ID_BYTES));
  }
}

@Module({
  imports: [
    ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: { url: config.pulsarUrl } }]),
  ],
  controllers: [Handlers],
})
class AppModule {}

const strategy = new MqttServerStrategy({
  url: config.mqttUrl,
  clientId: 'flooded',
  protocolVersion: config.protocolVersion,
  keepAlive: 1,
  shutdownTimeout: 1000,
});
const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: ['error', 'warn'] });
await app.listen();
const client = strategy.unwrap<MqttClient>();

const idleBytes = bytesInUse();
let mostBytes = idleBytes;
const sampling = setInterval(() => (mostBytes = Math.max(mostBytes, bytesInUse())), SAMPLE_MS);

process.on('message', (request: FloodedAppRequest) => {
  if (request.kind === 'ownPackets') void ownPackets();
  else if (request.kind === 'figures') figures();
  else void close();
});
report({ kind: 'ready' });

function bytesInUse(): number {
  global.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function figures(): void {
  const { received, succeeded, dropped } = strategy.stats;
  const { readingPaused } = client.status;
  report({ kind: 'figures', received, succeeded, dropped, readingPaused, mostBytes, idleBytes });
}

/** One after the other, so that each answer has its own wait. */
async function ownPackets(): Promise<void> {
  await client.publish({ topic: 'own', payload: 'x', qos: 1 });
  report({ kind: 'answered', what: 'qos1' });
  await client.publish({ topic: 'own', payload: 'x', qos: 2 });
  report({ kind: 'answered', what: 'qos2' });
  await client.subscribe([{ filter: 'other', qos: 1 }]);
  report({ kind: 'answered', what: 'subscribe' });
}

async function close(): Promise<void> {
  clearInterval(sampling);
  await app.close();
  process.disconnect();
}
