import { Controller } from '@nestjs/common';
import { Ctx, Payload, RpcException } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let contexts: MqttMessageContext[] = [];
let failing = true;
let failedRuns = 0;
let end = gate();

@Controller()
class Handlers {
  @MqttEvent('t/+', { failure: { then: 'discard' } })
  async t(@Payload() _payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    contexts.push(context);
    await end.promise;
  }
  @MqttEvent('failing/+')
  failing(): void {
    if (!failing) return;
    failedRuns += 1;
    // As Nest does for errors that are meant for the other side: it logs none of them.
    throw new RpcException('not now');
  }
  /** Runs again from our copy: no reconnect changes the status in between. */
  @MqttEvent('undecodable', { payload: () => decode() })
  undecodable(): void {
    // Once it can be decoded.
  }
}
const decode = (): string => {
  if (!failing) return 'text';
  failedRuns += 1;
  throw new Error('no');
};

let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions>): Promise<void> => {
  running = await startApp([Handlers], { strategy });
};
beforeEach(() => {
  contexts = [];
  failing = true;
  failedRuns = 0;
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

it('2,000 failures at once are one line, which names topic, age and attempt; their end is seen', async () => {
  await start({ receiveMaximum: 65_535, redeliverAfter: 200 });
  for (let i = 0; i < 2_000; i += 1) running.broker.publish('failing/1', String(i), { qos: 1 });
  await until(() => running.strategy.stats.held >= 2_000);
  expect(running.strategy.state).toBe('stalled');
  expect(running.strategy.health()).toMatchObject({ status: 'down', details: { held: 2_000 } });
  // And they fail again.
  await until(() => running.strategy.stats.held >= 4_000, 'all have failed again', 20_000);
  const held = running.logged.filter((line) => line.startsWith('Held'));
  expect(held).toHaveLength(1);
  expect(held[0]).toMatch(/^Held: a message on 'failing\/1' is not acknowledged, age \d+ ms, attempt 1; /);
  failing = false;
  await running.broker.log.waitForReceived('puback', 2_000, {}, 20_000);
  await until(() => running.strategy.state === 'connected');
  expect(running.strategy.health()).toMatchObject({ status: 'up', details: { held: 0 } });
  expect(running.strategy.stats.reconnects).toBeLessThanOrEqual(4);
  expect(running.broker.violations).toEqual([]);
});

it('while a message fails again and again the status stays stalled, and is connected once it is settled', async () => {
  await start({ redeliverAfter: 5, stalledAfter: 20 });
  const statuses: string[] = [];
  running.strategy.status.subscribe((status) => statuses.push(status));
  running.broker.publish('undecodable', 'x', { qos: 1 });
  await until(() => failedRuns >= 5);
  // Older than stalledAfter as well: that is no second stall, and no second line.
  await until(() => (running.strategy.health().details['oldestAgeMs'] as number) >= 60);
  await settled(40);
  expect(statuses).toEqual(['connected', 'stalled']);
  failing = false;
  await until(() => running.strategy.state === 'connected');
  expect(statuses).toEqual(['connected', 'stalled', 'connected']);
  expect(running.logged.filter((line) => line.startsWith('Held') || line.startsWith('Stalled'))).toHaveLength(1);
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
