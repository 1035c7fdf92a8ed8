import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let contexts: MqttMessageContext[] = [];
let end = gate();

@Controller()
class Handlers {
  @MqttEvent('t/+', { failure: { then: 'discard' } })
  async t(@Payload() _payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    contexts.push(context);
    await end.promise;
  }
}

let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions>): Promise<void> => {
  running = await startApp([Handlers], { strategy });
};
beforeEach(() => {
  contexts = [];
  end = gate();
});
afterEach(async () => {
  end.open();
  await running.close();
});

it('a message older than stalledAfter: status, health and one log line with topic, age, attempt, window and paused time', async () => {
  await start({ stalledAfter: 80, receiveMaximum: 8 });
  const statuses: string[] = [];
  running.strategy.status.subscribe((status) => statuses.push(status));
  running.broker.publish('t/slow', 'x', { qos: 1 });
  running.broker.publish('t/slow', 'y', { qos: 2 });
  await until(() => running.strategy.state === 'stalled');
  expect(running.strategy.health()).toMatchObject({
    status: 'down',
    reason: "stalled: a message on 't/slow' is not acknowledged",
    details: { oldestTopic: 't/slow', window: { used: 2, size: 8 }, readingPaused: false, readingPausedMs: 0 },
  });
  expect(running.strategy.health().details['oldestAgeMs']).toBeGreaterThanOrEqual(80);
  await settled(100);
  const lines = running.logged.filter((line) => line.startsWith('Stalled'));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/'t\/slow'.*age \d+ ms, attempt 1; 2 of 8 places.*paused for 0 ms/);
  end.open();
  await until(() => running.strategy.state === 'connected');
  expect(running.strategy.health().status).toBe('up');
  expect(statuses).toEqual(['connected', 'stalled', 'connected']);
});

it('stalledAfter: 0 never says so', async () => {
  await start({ stalledAfter: 0 });
  running.broker.publish('t/slow', 'x', { qos: 1 });
  await until(() => contexts.length === 1);
  await settled(60);
  expect(running.strategy.state).toBe('connected');
});

it.each(['strategy', 'client'] as const)(
  'destroy() of the %s: signals abort, nothing is acknowledged, close() is over',
  async (what) => {
    await start({ shutdownTimeout: 60_000 });
    running.broker.publish('t/1', 'x', { qos: 1 });
    await until(() => contexts.length === 1);
    const { signal } = contexts[0];
    expect(signal.aborted).toBe(false);
    if (what === 'strategy') running.strategy.destroy();
    else running.strategy.unwrap<MqttClient>().destroy();
    await until(() => signal.aborted);
    expect(signal.reason).toMatchObject({ code: 'ERR_ABORTED' });
    expect(running.strategy.state).toBe('closed');
    await running.strategy.close();
    await until(() => running.broker.connections.length === 0);
    expect(running.broker.log.received('puback')).toEqual([]);
  },
);

it('the signal does not abort when the connection or the session is lost, and does at the end of shutdownTimeout', async () => {
  await start({ shutdownTimeout: 50 });
  running.broker.publish('t/1', 'x', { qos: 1 });
  await until(() => contexts.length === 1);
  const { signal } = contexts[0];
  running.broker.cut();
  await running.broker.waitForClient('app');
  running.broker.dropSession('app');
  running.broker.cut();
  await until(() => running.logged.some((line) => line.includes('lost our session')));
  await settled();
  expect(signal.aborted).toBe(false);
  await running.strategy.close();
  expect(signal.reason).toMatchObject({ code: 'ERR_ABORTED' });
});

it('close() counts everything that it leaves un-acknowledged: what runs, what waits, what is done behind it', async () => {
  await start({ shutdownTimeout: 60, concurrency: 2 });
  for (let i = 0; i < 6; i += 1) running.broker.publish('t/1', String(i), { qos: 1 });
  await until(() => running.strategy.gate.waitingCount === 4);
  await running.strategy.close();
  expect(running.logged.filter((line) => line.startsWith('Closing'))).toEqual([
    'Closing with 6 unfinished deliveries (2 running, 4 waiting): they are not acknowledged, the broker sends them again',
  ]);
  expect(running.broker.log.received('puback')).toEqual([]);
  expect(running.broker.log.received('unsubscribe')).toEqual([]);
  expect(running.broker.log.received('disconnect')).toHaveLength(1);
});
