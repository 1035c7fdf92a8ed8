import { Controller } from '@nestjs/common';
import { EventPattern, RpcException } from '@nestjs/microservices';
import { type RunningApp, settled, startApp, until } from '../nest/support/app.js';

@Controller()
class Handlers {
  @EventPattern<string>('sync')
  sync(): void {
    throw new Error('sync boom');
  }
  @EventPattern<string>('async')
  async async(): Promise<void> {
    await Promise.resolve();
    throw new Error('async boom');
  }
  @EventPattern<string>('rpc')
  rpc(): void {
    throw new RpcException('rpc boom');
  }
}

let running: RunningApp;
const hooks: string[] = [];
const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', note);
  running = await startApp([Handlers]);
  running.strategy.setOnProcessingStartHook((_id, _context, done) => {
    hooks.push('start');
    void done();
  });
  running.strategy.setOnProcessingEndHook(() => void hooks.push('end'));
});
afterAll(async () => {
  await running.close();
  process.off('unhandledRejection', note);
});

it.each(['sync', 'async', 'rpc'])('C14: %s: no acknowledgement, alive, logged once, hooks once each', async (topic) => {
  hooks.length = running.logged.length = 0;
  const before = running.strategy.stats.held;
  running.broker.publish(topic, 'x', { qos: 1 });
  await until(() => running.strategy.stats.held > before);
  await settled();
  expect(running.broker.log.received('puback')).toEqual([]);
  expect(hooks).toEqual(['start', 'end']);
  expect(running.logged.filter((line) => line.includes('boom'))).toHaveLength(1);
  expect(unhandled).toEqual([]);
});
