import { createServer } from 'node:net';
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { type Clock, systemClock } from '../../lib/net/index.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { VirtualClock } from '../model/strategy/virtual-clock.js';
import { settled, until } from '../nest/support/app.js';

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(): void {}
}
@Module({ controllers: [Handlers] })
class AppModule {}

async function freePort(): Promise<number> {
  const broker = await InMemoryMqttBroker.start();
  const { port } = broker;
  await broker.close();
  return port;
}

/** The real clock, and what was started on it and has not ended: it would keep the process alive. */
function countingClock(): Clock & { readonly open: Set<object> } {
  const open = new Set<object>();
  return {
    ...systemClock,
    open,
    setTimer(callback, ms, keepAlive) {
      const timer = systemClock.setTimer(
        () => {
          open.delete(timer);
          callback();
        },
        ms,
        keepAlive,
      );
      open.add(timer);
      return timer;
    },
    clearTimer(timer) {
      if (timer !== undefined) open.delete(timer);
      systemClock.clearTimer(timer);
    },
  };
}

it('C24: listen() rejects with ERR_CONNECTION where nobody answers, and leaves nothing open', async () => {
  const clock = countingClock();
  const strategy = new MqttServerStrategy({
    url: `mqtt://127.0.0.1:${await freePort()}`,
    clientId: 'a',
    connectTimeout: 60_000,
    clock,
  });
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
  await expect(app.listen()).rejects.toMatchObject({ code: 'ERR_CONNECTION' });
  expect(clock.open.size).toBe(0);
  await app.close();
});

it('C24: with waitForBroker it resolves when the broker is there', async () => {
  const port = await freePort();
  const strategy = new MqttServerStrategy({ url: `mqtt://127.0.0.1:${port}`, clientId: 'a', waitForBroker: true });
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
  const listening = app.listen();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const broker = await InMemoryMqttBroker.start({ port });
  await listening;
  expect(broker.log.received('subscribe')).toHaveLength(1);
  await app.close();
  await broker.close();
});

it('C24: with waitForBroker the tries become rare, up to the maximum of the backoff and no further', async () => {
  const clock = new VirtualClock(() => 0.5);
  const dials: number[] = [];
  // Takes the connection and drops it, so that every try is seen.
  const nobody = createServer((socket) => {
    dials.push(clock.now());
    socket.destroy();
  });
  await new Promise<void>((resolve) => nobody.listen(0, '127.0.0.1', resolve));
  const { port } = nobody.address() as { port: number };
  const strategy = new MqttServerStrategy({
    url: `mqtt://127.0.0.1:${port}`,
    clientId: 'a',
    waitForBroker: true,
    connectTimeout: 60_000,
    protocolVersion: 5,
    keepAlive: 0,
    clock,
  });
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
  const listening = app.listen();
  let started = false;
  void listening.then(() => (started = true));
  // Half of 100 ms, 200 ms and so on up to 30 s.
  const delays = [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000, 15_000];
  await until(() => dials.length === 1);
  for (const [index, delay] of delays.entries()) {
    // The end of the connection is seen a little later; no time passes meanwhile.
    await until(() => clock.pending.includes(delay), `a timer of ${delay} ms`);
    await clock.pass(delay - 1, () => settled(1));
    expect(dials).toHaveLength(index + 1);
    await clock.pass(1, () => settled(1));
    await until(() => dials.length === index + 2);
  }
  expect(dials.slice(1).map((at, index) => at - dials[index])).toEqual(delays);
  expect(started).toBe(false);
  await new Promise((resolve) => nobody.close(resolve));
  const broker = await InMemoryMqttBroker.start({ port });
  await until(() => clock.pending.includes(15_000));
  await clock.pass(15_000, () => settled(1));
  await listening;
  expect(strategy.state).toBe('connected');
  expect(broker.log.received('subscribe')).toHaveLength(1);
  await app.close();
  await broker.close();
});
