/**
 * The app of the suites about instances, takeovers and restarts of a broker, as its own process: one handler that writes
 * down what it does, waits while it is told to hold, and emits. Configuration in `LIVE_APP`.
 */
import 'reflect-metadata';
import { appendFileSync } from 'node:fs';
import { Controller, Inject, type LoggerService, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientsModule, Payload } from '@nestjs/microservices';
import {
  type MqttClient,
  MqttEvent,
  type MqttServerOptions,
  MqttServerStrategy,
  PulsarClientProxy,
} from '../../lib/index.js';

export interface LiveAppConfig {
  readonly pulsarUrl: string;
  /** What the handler listens to. */
  readonly filter: string;
  /** Gets a line `S payload` when a run starts and `E payload` when its emit has its receipt. */
  readonly journal: string;
  /** Handlers wait until `goOn`. */
  readonly holding: boolean;
  /** Of the strategy. */
  readonly options: MqttServerOptions;
}

export interface LiveAppRequest {
  /**
   * `goOn`: handlers that wait end, and none waits any more; with `only`, those whose payload begins so, and the others
   * still wait. `unsubscribe`: from everything that it is subscribed to; the report `unsubscribed` follows.
   */
  readonly kind: 'goOn' | 'unsubscribe' | 'close';
  readonly only?: string;
}

export type LiveAppReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'unsubscribed' }
  | { readonly kind: 'status'; readonly status: string; readonly health: string; readonly reason: string | undefined }
  | { readonly kind: 'connected'; readonly sessionPresent: boolean }
  | { readonly kind: 'sessionLost'; readonly orphaned: number }
  /** A warning or an error. */
  | { readonly kind: 'log'; readonly line: string };

const config = JSON.parse(process.env['LIVE_APP'] ?? '{}') as LiveAppConfig;
const report = (message: LiveAppReport): void => void process.send?.(message);
const note = (line: unknown): void => report({ kind: 'log', line: String(line) });
const logger: LoggerService = { log: () => undefined, warn: note, error: note };

const waiting = new Map<() => void, string>();
const passing = new Set<string>(config.holding ? [] : ['']);
const passes = (text: string): boolean => [...passing].some((prefix) => text.startsWith(prefix));

@Controller()
class Handlers {
  constructor(@Inject('PULSAR') private readonly pulsar: ClientProxy) {}

  @MqttEvent(config.filter, { payload: 'text' })
  async run(@Payload() text: string): Promise<void> {
    appendFileSync(config.journal, `S ${text}\n`);
    if (!passes(text)) await new Promise<void>((resolve) => waiting.set(resolve, text));
    await new Promise<void>((resolve, reject) => {
      this.pulsar.emit('out', text).subscribe({ complete: resolve, error: reject });
    });
    appendFileSync(config.journal, `E ${text}\n`);
  }
}

@Module({
  imports: [
    ClientsModule.register([{ name: 'PULSAR', customClass: PulsarClientProxy, options: { url: config.pulsarUrl } }]),
  ],
  controllers: [Handlers],
})
class AppModule {}

const strategy = new MqttServerStrategy(config.options);
const app = await NestFactory.createMicroservice(AppModule, { strategy, logger });
strategy.status.subscribe((status) => {
  const { status: health, reason } = strategy.health();
  report({ kind: 'status', status, health, reason });
});
strategy.on('connect', ({ sessionPresent }) => report({ kind: 'connected', sessionPresent }));
strategy.on('sessionLost', ({ orphaned }) => report({ kind: 'sessionLost', orphaned }));
process.on('message', (request: LiveAppRequest) => {
  if (request.kind === 'unsubscribe') return void unsubscribe();
  if (request.kind === 'close') return void app.close().then(() => process.disconnect());
  passing.add(request.only ?? '');
  for (const [resolve, text] of waiting) {
    if (!passes(text)) continue;
    waiting.delete(resolve);
    resolve();
  }
});
process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection in the live app', error);
  process.exit(70);
});
await app.listen();
report({ kind: 'ready' });

async function unsubscribe(): Promise<void> {
  const { sharedGroup } = config.options;
  const filter = sharedGroup === undefined ? config.filter : `$share/${sharedGroup}/${config.filter}`;
  await strategy.unwrap<MqttClient>().unsubscribe([filter]);
  report({ kind: 'unsubscribed' });
}
