import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Payload } from '@nestjs/microservices';
import { createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

/** Far longer than a test may take: who waits for it makes the test fail. */
const NEVER = 600_000;

let started: string[] = [];
let end = gate();
let duringRun: (payload: string) => unknown = () => undefined;

@Controller()
class Handlers {
  @MqttEvent('t', { payload: 'text' })
  async t(@Payload() text: string): Promise<void> {
    started.push(text);
    await duringRun(text);
    await end.promise;
  }
}

let running: RunningApp;
beforeEach(() => {
  started = [];
  end = gate();
  duringRun = () => undefined;
});

const publish = (...texts: string[]): void => {
  for (const text of texts) running.broker.publish('t', text, { qos: 1 });
};
const acknowledged = (): number => running.broker.log.received('puback').length;
/** True once it has resolved. */
const watch = (promise: Promise<unknown>): { done: boolean } => {
  const state = { done: false };
  void promise.then(() => (state.done = true));
  return state;
};

describe('close()', () => {
  class AppModule {}
  Module({ controllers: [Handlers] })(AppModule);
  const app = async (url: string, options = {}) => {
    const strategy = new MqttServerStrategy({ url, clientId: 'app', shutdownTimeout: NEVER, ...options });
    return { strategy, app: await NestFactory.createMicroservice(AppModule, { strategy, logger: false }) };
  };

  it.each(['no CONNACK comes', 'nobody listens, and the broker is waited for', 'no SUBACK comes'])(
    'during the first connect, while %s: listen() fails, nothing is left',
    async (what) => {
      const broker = await InMemoryMqttBroker.start();
      if (what === 'no CONNACK comes') broker.withhold('connack');
      else if (what === 'no SUBACK comes') broker.withhold('suback');
      else await broker.stopListening();
      const { strategy, app: created } = await app(broker.url, {
        ...(what.startsWith('nobody') && { waitForBroker: true }),
        connectTimeout: NEVER,
        subscribeTimeout: NEVER,
      });
      const listening = created.listen().then(
        () => undefined,
        (error: unknown) => error,
      );
      if (what === 'no SUBACK comes') await broker.log.waitForReceived('subscribe');
      else if (what === 'no CONNACK comes') await broker.log.waitForReceived('connect');
      else await settled(100);
      await strategy.close();
      expect(await listening).toMatchObject({ code: 'ERR_CLOSED' });
      expect(strategy.state).toBe('closed');
      await until(() => broker.connections.length === 0, 'no connection is left');
      await created.close();
      await broker.close();
    },
  );

  it('before listen(): resolves, and listen() fails', async () => {
    const broker = await InMemoryMqttBroker.start();
    const { strategy, app: created } = await app(broker.url);
    await strategy.close();
    await expect(created.listen()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(broker.log.received('connect')).toEqual([]);
    await created.close();
    await broker.close();
  });

  it('during a reconnect backoff: what runs is finished, not acknowledged for want of a connection, counted; no try is made', async () => {
    running = await startApp([Handlers], {
      strategy: { shutdownTimeout: NEVER, reconnect: { initial: NEVER, max: NEVER } },
    });
    publish('1', '2');
    await until(() => started.length === 2);
    running.broker.cut();
    await until(() => running.strategy.state === 'reconnecting');
    const closing = running.strategy.close();
    const closed = watch(closing);
    await settled();
    expect(closed.done).toBe(false);
    end.open();
    await closing;
    expect(running.strategy.state).toBe('closed');
    expect(running.logged.filter((line) => line.startsWith('Clos'))).toEqual([
      'Closed with 2 finished deliveries that could not be acknowledged for want of a connection: the broker sends them again',
    ]);
    expect(acknowledged()).toBe(0);
    expect(running.broker.log.received('connect')).toHaveLength(1);
    await running.close();
  });

  it('while draining: both resolve when what runs has ended, acknowledged, one DISCONNECT', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: NEVER } });
    publish('1');
    await until(() => started.length === 1);
    const draining = running.strategy.drain();
    const drained = watch(draining);
    const closing = running.strategy.close();
    const closed = watch(closing);
    await settled();
    expect([drained.done, closed.done]).toEqual([false, false]);
    end.open();
    await Promise.all([draining, closing]);
    await until(() => running.broker.log.received('disconnect').length === 1);
    expect(acknowledged()).toBe(1);
    // A drain of what is closed has nothing to wait for, and nothing takes it back.
    await running.strategy.drain();
    running.strategy.resume();
    expect(running.strategy.state).toBe('closed');
    await running.close();
  });

  it('after drain(): what was not taken in stays with the broker, for the next one', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: NEVER } });
    await running.strategy.drain();
    publish('1', '2', '3');
    await settled();
    await running.strategy.close();
    expect(started).toEqual([]);
    expect(acknowledged()).toBe(0);
    const next = await startApp([Handlers], { broker: running.broker });
    end.open();
    await until(() => acknowledged() === 3);
    expect(started).toEqual(['1', '2', '3']);
    await next.close();
    await running.close();
  });

  it('from inside a handler that does not wait for it: the handler ends, is acknowledged, then DISCONNECT', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: NEVER } });
    let closing: Promise<void> | undefined;
    duringRun = () => void (closing = running.strategy.close());
    end.open();
    publish('1');
    await until(() => closing !== undefined);
    await closing;
    await until(() => running.broker.log.received('disconnect').length === 1);
    expect(acknowledged()).toBe(1);
    await running.close();
  });

  it('from inside a handler that waits for it, which is a circle: ends at shutdownTimeout, not acknowledged, counted', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: 100 } });
    duringRun = () => running.strategy.close();
    end.open();
    publish('1');
    await until(() => running.strategy.state === 'closed');
    expect(running.logged.filter((line) => line.startsWith('Closing'))).toHaveLength(1);
    expect(running.logged.at(-1)).toContain('1 unfinished deliveries (1 running)');
    expect(acknowledged()).toBe(0);
    await running.close();
  });

  it('a second close(), app.close() and one after destroy() are the same end', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: NEVER } });
    publish('1');
    await until(() => started.length === 1);
    const closing = running.strategy.close();
    expect(running.strategy.close()).toBe(closing);
    const closingApp = running.app.close();
    end.open();
    await Promise.all([closing, closingApp]);
    expect(running.strategy.close()).toBe(closing);
    running.strategy.destroy();
    await until(() => running.broker.log.received('disconnect').length === 1);
    expect(acknowledged()).toBe(1);
    await running.close();
  });

  it('destroy() during close() ends the waiting', async () => {
    running = await startApp([Handlers], { strategy: { shutdownTimeout: NEVER } });
    publish('1');
    await until(() => started.length === 1);
    const closing = running.strategy.close();
    await settled();
    running.strategy.destroy();
    await closing;
    expect(running.strategy.state).toBe('closed');
    expect(running.logged).toEqual([expect.stringContaining('Closing with 1 unfinished deliveries (1 running)')]);
    expect(acknowledged()).toBe(0);
    end.open();
    await running.close();
  });

  it('a peer that acknowledges everything but never closes its side is not waited for', async () => {
    const sockets: Socket[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.on('data', (bytes) => {
        // CONNACK of 3.1.1, SUBACK with QoS 1.
        if (bytes[0] === 0x10) socket.write(Buffer.from([0x20, 2, 0, 0]));
        else if (bytes[0] === 0x82) socket.write(Buffer.from([0x90, 3, bytes[2], bytes[3], 1]));
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const { strategy, app: created } = await app(`mqtt://127.0.0.1:${port}`, { protocolVersion: 4, closeTimeout: 200 });
    await created.listen();
    await created.close();
    expect(strategy.state).toBe('closed');
    for (const socket of sockets) socket.destroy();
    server.close();
  });
});

describe('pause() and resume()', () => {
  afterEach(async () => {
    end.open();
    await running.close();
  });

  it('what runs goes on and is acknowledged; what comes meanwhile runs after resume(), in order', async () => {
    running = await startApp([Handlers]);
    publish('1');
    await until(() => started.length === 1);
    running.strategy.pause();
    publish('2', '3');
    end.open();
    await running.broker.log.waitForReceived('puback', 1);
    publish('4');
    await settled();
    expect(started).toEqual(['1']);
    expect(running.strategy.state).toBe('paused');
    running.strategy.resume();
    await running.broker.log.waitForReceived('puback', 4);
    expect(started).toEqual(['1', '2', '3', '4']);
    expect(running.broker.log.received('connect')).toHaveLength(1);
  });

  it('over a lost connection: still paused, then each message runs once', async () => {
    running = await startApp([Handlers], { strategy: { reconnect: { initial: 1, max: 10 }, keepAlive: 1 } });
    end.open();
    running.strategy.pause();
    publish('1', '2');
    await settled();
    // While nothing is read, a ping has to find out.
    running.broker.cut();
    await until(() => running.broker.log.received('connect').length === 2);
    await running.broker.waitForClient('app');
    publish('3');
    await settled();
    expect(started).toEqual([]);
    running.strategy.resume();
    await until(() => acknowledged() === 3);
    expect(started).toEqual(['1', '2', '3']);
  });

  it('a second pause() and drain() are one: a single resume() ends them', async () => {
    running = await startApp([Handlers]);
    end.open();
    running.strategy.pause();
    running.strategy.pause();
    await running.strategy.drain();
    publish('1');
    await settled();
    expect(started).toEqual([]);
    running.strategy.resume();
    running.strategy.resume();
    await running.broker.log.waitForReceived('puback', 1);
  });

  it('resume() while drain() waits: intake goes on, and the drain is over', async () => {
    running = await startApp([Handlers]);
    publish('1');
    await until(() => started.length === 1);
    const draining = running.strategy.drain();
    running.strategy.resume();
    publish('2');
    await until(() => started.length === 2);
    end.open();
    await draining;
    await running.broker.log.waitForReceived('puback', 2);
  });
});
