import { Controller } from '@nestjs/common';
import { Ctx } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttPulsarHealth } from '../../lib/nest/health.js';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

const NEVER = 60_000;
let end = gate();
let started: string[] = [];

@Controller()
class Handlers {
  @MqttEvent('halts', { failure: { then: 'halt' } })
  halts(): void {
    throw new Error('no');
  }
  @MqttEvent('fails/+')
  fails(): void {
    throw new Error('no');
  }
  @MqttEvent('waits/+')
  waits(payload: Buffer): Promise<void> {
    started.push(String(payload));
    return end.promise;
  }
  @MqttEvent('detached')
  detached(_payload: Buffer, @Ctx() context: MqttMessageContext): void {
    context.detach();
  }
}

let running: RunningApp;
let statuses: string[] = [];
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  running = await startApp([Handlers], { strategy: { protocolVersion: 5, ...strategy } });
  running.strategy.status.subscribe((status) => statuses.push(status));
};
beforeEach(() => {
  end = gate();
  started = [];
  statuses = [];
});
afterEach(() => running.close());
const publish = (topic: string): void => running.broker.publish(topic, 'x', { qos: 1 });

describe('after close()', () => {
  it('while halted: status and health say closed', async () => {
    await start();
    publish('halts');
    await until(() => running.strategy.state === 'halted');
    await running.strategy.close();
    expect(running.strategy.state).toBe('closed');
    expect(statuses.at(-1)).toBe('closed');
    expect(running.strategy.health()).toMatchObject({ status: 'down', reason: 'not connected (closed)' });
  });

  it('while paused, and destroy() while halted: the same', async () => {
    await start();
    running.strategy.pause();
    await running.strategy.close();
    expect([running.strategy.state, statuses.at(-1)]).toEqual(['closed', 'closed']);
    expect(running.strategy.health()).toMatchObject({ status: 'down', reason: 'not connected (closed)' });
    await running.close();
    await start();
    publish('halts');
    await until(() => running.strategy.state === 'halted');
    running.strategy.destroy();
    expect([running.strategy.state, statuses.at(-1)]).toEqual(['closed', 'closed']);
  });

  it('while it closes: closing, and the health is down', async () => {
    await start({ shutdownTimeout: NEVER });
    publish('waits/1');
    await until(() => started.length === 1);
    const closing = running.strategy.close();
    await until(() => running.strategy.state === 'closing');
    expect(running.strategy.health()).toMatchObject({ status: 'down', reason: 'closing: nothing new starts' });
    end.open();
    await closing;
    expect(statuses).toEqual(['connected', 'closing', 'closed']);
  });
});

describe('without a connection', () => {
  it('given up after a takeover: the health says what for', async () => {
    await start({ maxTakeovers: 0 });
    running.broker.connection!.disconnect(0x8e);
    await until(() => running.strategy.state === 'failed');
    const { status, reason } = running.strategy.health();
    expect(status).toBe('down');
    expect(reason).toMatch(/^not connected \(failed\): .*[Ss]ession taken over \(0x8e\)/);
  });

  it('a broker that is away: the health says what the last try met, without the password', async () => {
    await start({ password: 'secret-password', username: 'u', reconnect: { initial: 5, max: 10 } });
    await running.broker.stopListening();
    running.broker.cut();
    await until(() => /ECONNREFUSED/.test(running.strategy.health().reason ?? ''));
    expect(running.strategy.health().reason).toMatch(/^not connected \(reconnecting\): /);
    expect(JSON.stringify(running.strategy.health())).not.toContain('secret-password');
  });

  it('a reconnect of our own names itself, not an error of before', async () => {
    await start({ reconnect: { initial: 5, max: 10 } });
    running.broker.cut();
    await until(() => running.broker.log.received('connect').length === 2 && running.strategy.state === 'connected');
    const reasons: (string | undefined)[] = [];
    running.strategy.on('status', ({ state }) => {
      if (state === 'reconnecting') reasons.push(running.strategy.health().reason);
    });
    running.strategy.client.reconnect('wanted');
    await until(() => running.broker.log.received('connect').length === 3 && running.strategy.state === 'connected');
    expect(reasons).toEqual(['not connected (reconnecting): Reconnecting: wanted']);
  });
});

describe('stalled', () => {
  it('the reason counts what is held and names the topic that all wait for', async () => {
    await start();
    publish('fails/1');
    await until(() => running.strategy.state === 'stalled');
    expect(running.strategy.health()).toMatchObject({
      status: 'down',
      reason: "stalled: 1 failed message is held, the oldest that is not acknowledged is on 'fails/1'",
    });
    publish('fails/2');
    await until(() => running.strategy.stats.held === 2);
    expect(running.strategy.health().reason).toBe(
      "stalled: 2 failed messages are held, the oldest that is not acknowledged is on 'fails/1'",
    );
  });
});

describe('pause() and drain()', () => {
  it('the status is paused, the health degraded, and resume() ends both', async () => {
    await start();
    const health = new MqttPulsarHealth({ mqtt: running.strategy });
    expect(running.strategy.health()).toMatchObject({ status: 'up', details: { paused: false } });
    running.strategy.pause();
    expect(running.strategy.state).toBe('paused');
    expect(running.strategy.health()).toMatchObject({
      status: 'degraded',
      reason: 'paused: nothing new starts until resume()',
      details: { paused: true },
    });
    expect(health.check().status).toBe('degraded');
    publish('waits/1');
    await settled();
    expect(started).toEqual([]);
    running.strategy.resume();
    await until(() => started.length === 1);
    end.open();
    expect(running.strategy.health()).toMatchObject({ status: 'up', details: { paused: false } });
    expect(statuses).toEqual(['connected', 'paused', 'connected']);
  });

  it('drain() is paused from its begin, and after it', async () => {
    await start();
    publish('waits/1');
    await until(() => started.length === 1);
    const draining = running.strategy.drain();
    expect(running.strategy.state).toBe('paused');
    end.open();
    await draining;
    expect(running.strategy.state).toBe('paused');
    expect(running.strategy.health().status).toBe('degraded');
  });

  it('what is worse goes first: stalled, reconnecting, halted', async () => {
    await start({ stalledAfter: 40, shutdownTimeout: 20, reconnect: { initial: NEVER, max: NEVER } });
    publish('detached');
    await until(() => running.strategy.stats.received === 1);
    running.strategy.pause();
    await until(() => running.strategy.state === 'stalled');
    expect(running.strategy.health()).toMatchObject({ status: 'down', details: { paused: true } });
    running.broker.cut();
    await until(() => running.strategy.state === 'reconnecting');
    expect(running.strategy.health().status).toBe('down');
    expect(statuses).toEqual(['connected', 'paused', 'stalled', 'reconnecting']);
  });

  it('a pause while halted stays halted; resume() ends both', async () => {
    await start();
    publish('halts');
    await until(() => running.strategy.state === 'halted');
    running.strategy.pause();
    expect(running.strategy.state).toBe('halted');
    expect(running.strategy.health()).toMatchObject({
      status: 'down',
      reason: 'halted by a failure policy',
      details: { paused: true },
    });
    running.strategy.resume();
    await until(() => running.strategy.stats.held + running.strategy.stats.failedRuns >= 2);
    await until(() => running.strategy.state === 'halted');
    expect(running.strategy.health().details['paused']).toBe(false);
  });
});

// Where messages stand in front of the end of the stream and nobody reads, only a ping meets the dead socket.
it('a broker that is gone while reading is paused is noticed by the keep alive, and nothing is lost', async () => {
  await start({ keepAlive: 1, reconnect: { initial: 5, max: 10 } });
  running.strategy.pause();
  for (let i = 0; i < 50; i += 1) running.broker.publish('waits/1', Buffer.alloc(2_000, String(i % 10)), { qos: 1 });
  await until(() => running.broker.log.sent('publish').length === 50);
  running.broker.cut();
  await until(() => running.broker.log.received('connect').length === 2);
  running.strategy.resume();
  end.open();
  await until(() => new Set(running.broker.log.received('puback').map(({ messageId }) => messageId)).size === 50);
  expect(started).toHaveLength(50);
});
