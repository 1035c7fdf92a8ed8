/**
 * The app of `mqtt-durable-store.spec.ts`, as its own process: one handler of QoS 2 and one publisher, each with a session
 * store on disk. Configuration in `DURABLE_APP`.
 */
import 'reflect-metadata';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Payload } from '@nestjs/microservices';
import { LevelSessionStore, MqttClient, MqttEvent, MqttServerStrategy } from '../../lib/index.js';

export interface DurableAppConfig {
  readonly handlerUrl: string;
  readonly publisherUrl: string;
  readonly protocolVersion: 4 | 5;
  /** Of the handler; the publisher's is this with `-publisher`. */
  readonly clientId: string;
  /** What the handler listens to. */
  readonly topic: string;
  /** Both databases, and the file that gets a line per successful run of the handler. */
  readonly folder: string;
}

export type DurableAppRequest =
  | { readonly kind: 'publish'; readonly topic: string; readonly payloads: readonly string[] }
  | { readonly kind: 'stored' };

export type DurableAppReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'published'; readonly payload: string }
  /** Publishes in the store on disk. */
  | { readonly kind: 'stored'; readonly publishes: number };

const config = JSON.parse(process.env['DURABLE_APP'] ?? '{}') as DurableAppConfig;
const report = (message: DurableAppReport): void => void process.send?.(message);

@Controller()
class Handlers {
  @MqttEvent(config.topic, { qos: 2, payload: 'text' })
  run(@Payload() text: string): void {
    appendFileSync(join(config.folder, 'runs'), `${text}\n`);
  }
}

@Module({ controllers: [Handlers] })
class AppModule {}

const { clientId, protocolVersion, folder } = config;
const reconnect = { initial: 20, max: 200 };
const strategy = new MqttServerStrategy({
  url: config.handlerUrl,
  clientId,
  protocolVersion,
  reconnect,
  store: new LevelSessionStore({ path: join(folder, 'handler') }),
});
const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
await app.listen();

const publisherId = `${clientId}-publisher`;
const store = new LevelSessionStore({ path: join(folder, 'publisher') });
const publisher = new MqttClient({
  url: config.publisherUrl,
  clientId: publisherId,
  protocolVersion,
  reconnect,
  store,
});
process.on('message', (request: DurableAppRequest) => {
  if (request.kind === 'stored') {
    void store.load(publisherId).then(({ publishes }) => report({ kind: 'stored', publishes: publishes.length }));
    return;
  }
  for (const payload of request.payloads) {
    publisher.publish({ topic: request.topic, payload, qos: 2 }).then(
      () => report({ kind: 'published', payload }),
      // Killed before it gets here, or the test fails for want of the message.
      () => undefined,
    );
  }
});
await publisher.connect();
report({ kind: 'ready' });
