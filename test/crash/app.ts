/**
 * The app under test, as its own process: one strategy, one client proxy, one handler that does some work and emits. Run by
 * the crash test and the end-to-end fault test; configuration in `APP_CONFIG`.
 */
import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Controller, Inject, type INestMicroservice, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, Ctx, Payload } from '@nestjs/microservices';
import { lastValueFrom, tap } from 'rxjs';
import {
  type Failure,
  type FailureDecision,
  type MqttClient,
  MqttEvent,
  type MqttMessageContext,
  MqttServerStrategy,
  PulsarClientProxy,
  type PulsarClientProxyOptions,
  PulsarRecordBuilder,
} from '../../lib/index.js';
import { idOf } from '../wire/evidence.js';
import { type AppConfig, type AppReport, type AppRequest } from './app-config.js';
import { MarkerWriter } from './markers.js';

const config = JSON.parse(process.env['APP_CONFIG'] ?? '{}') as AppConfig;
const markers = new MarkerWriter(config.markers);
const poison = new Set(config.poison);
const report = (message: AppReport): void => void process.send?.(message);

// Before the strategy exists: what it takes from the classes is already changed then.
if (config.sabotage !== undefined) {
  const { sabotageProduct } = await import('./sabotage.js');
  sabotageProduct(config.sabotage);
}

@Controller()
class TelemetryController {
  constructor(@Inject('PULSAR') private readonly pulsar: ClientProxy) {}

  @MqttEvent('devices/+/telemetry', { qos: 2 })
  async onTelemetry(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    const id = idOf(payload);
    markers.started(id);
    await sleep((config.minWorkMs ?? 0) + Math.random() * config.workMs);
    if (poison.has(id)) {
      markers.poisoned(id);
      throw new Error(`message ${id} is poison`);
    }
    if (Math.random() < config.failRate) {
      markers.failed(id);
      throw new Error(`message ${id} failed by chance`);
    }
    const sent = this.pulsar.emit(config.topic, new PulsarRecordBuilder().from(context).build());
    const note = { complete: () => markers.ended(id), error: () => markers.failed(id) };
    // One half waits for the receipt, the other forgets to: the acknowledgement must be held either way. Such a run ends
    // with its receipt too, so it is noted then: by who subscribes when the handler is through (a tick comes after all
    // microtasks) and before any receipt can be read.
    if (id % 2 === 0) await lastValueFrom(sent.pipe(tap(note)));
    else process.nextTick(() => sent.subscribe(note));
  }
}

const pulsarOptions: PulsarClientProxyOptions = {
  url: config.pulsarUrl,
  ...(config.pulsarBackoffMs === undefined ? {} : { backoff: { max: config.pulsarBackoffMs } }),
};

@Module({
  imports: [ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: pulsarOptions }])],
  controllers: [TelemetryController],
})
class AppModule {}

const deadLetters = config.deadLetterTopic === undefined ? undefined : new PulsarClientProxy(pulsarOptions);
function decide(failure: Failure): FailureDecision {
  if (failure.error instanceof Error && failure.error.message.endsWith('is poison')) return 'deadLetter';
  return failure.run <= (config.retries ?? 0) ? 'retry' : 'redeliver';
}

const strategy = new MqttServerStrategy({
  url: config.mqttUrl,
  clientId: config.clientId,
  concurrency: config.concurrency,
  receiveMaximum: config.receiveMaximum,
  redeliverAfter: config.redeliverAfterMs,
  qos: 2,
  ...(config.stalledAfterMs === undefined ? {} : { stalledAfter: config.stalledAfterMs }),
  ...(deadLetters === undefined
    ? {}
    : {
        deadLetter: { client: deadLetters, pattern: config.deadLetterTopic as string },
        failure: decide,
      }),
});

process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection in the app under test', error);
  process.exit(70);
});
process.on('message', (request: AppRequest) => void answer(request));

// The handlers that fail on purpose would fill the log.
Logger.overrideLogger(process.env['APP_LOG'] === undefined ? ['fatal'] : ['fatal', 'error', 'warn', 'log']);
const app: INestMicroservice = await NestFactory.createMicroservice(AppModule, { strategy });
strategy.status.subscribe((status) => report({ kind: 'status', status, health: strategy.health().status }));
await app.listen();
let most = 0;
const sampling = setInterval(() => {
  const { used } = strategy.unwrap<MqttClient>().window;
  if (used > most) report({ kind: 'held', most: (most = used) });
}, 10);
report({ kind: 'ready' });

async function answer(request: AppRequest): Promise<void> {
  if (request.kind === 'heap') {
    for (let pass = 0; pass < 3; pass++) {
      await sleep(10);
      global.gc?.();
    }
    report({ kind: 'heap', bytes: process.memoryUsage().heapUsed });
    return;
  }
  clearInterval(sampling);
  await app.close();
  await deadLetters?.close();
  markers.close();
  report({ kind: 'closed' });
  // Without the channel nothing of ours is left: the process must end by itself.
  process.disconnect();
}
