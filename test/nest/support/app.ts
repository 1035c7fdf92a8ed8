import { type INestMicroservice, type Type, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type MqttServerOptions } from '../../../lib/nest/mqtt-server-options.js';
import { MqttServerStrategy } from '../../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker, type MqttBrokerOptions } from '../../../lib/testing/index.js';

/** One strategy in a standalone microservice on an in-memory broker. */
export interface RunningApp {
  readonly broker: InMemoryMqttBroker;
  readonly strategy: MqttServerStrategy;
  readonly app: INestMicroservice;
  /** Everything the app logged as an error or a warning. */
  readonly logged: string[];
  close(): Promise<void>;
}

export interface AppSettings {
  readonly broker?: MqttBrokerOptions | InMemoryMqttBroker;
  readonly strategy?: Partial<MqttServerOptions>;
  readonly providers?: unknown[];
  readonly imports?: unknown[];
}

export async function startApp(controllers: Type[], settings: AppSettings = {}): Promise<RunningApp> {
  const own = !(settings.broker instanceof InMemoryMqttBroker);
  const broker = own ? await InMemoryMqttBroker.start(settings.broker) : settings.broker;
  class AppModule {}
  Module({
    controllers,
    providers: (settings.providers ?? []) as never[],
    imports: (settings.imports ?? []) as never[],
  })(AppModule);
  const strategy = new MqttServerStrategy({
    url: broker.url,
    clientId: 'app',
    redeliverAfter: 60_000,
    ...settings.strategy,
  });
  const logged: string[] = [];
  const logger = {
    log: () => undefined,
    error: (message: unknown) => logged.push(String(message)),
    warn: (message: unknown) => logged.push(String(message)),
  };
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger });
  try {
    await app.listen();
  } catch (error) {
    await app.close();
    if (own) await broker.close();
    throw error;
  }
  return {
    broker,
    strategy,
    app,
    logged,
    close: async () => {
      await app.close();
      if (own) await broker.close();
    },
  };
}

/** Lets every promise reaction and everything that is already in a socket happen. */
export async function settled(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** A promise with its two ends. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void; fail: (error: Error) => void } {
  let open!: (value: T) => void;
  let fail!: (error: Error) => void;
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { promise, open, fail };
}

/** Waits for a condition with a generous bound. */
export async function until(condition: () => boolean, what = String(condition), timeoutMs = 10_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
