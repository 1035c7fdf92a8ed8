import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { type Clock, systemClock } from '../../lib/net/index.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';

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
