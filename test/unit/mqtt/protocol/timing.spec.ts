import { KeepAlive } from '../../../../lib/mqtt/protocol/keep-alive.js';
import { type SessionConfig } from '../../../../lib/mqtt/protocol/config.js';
import { type Ending, ReconnectPlan } from '../../../../lib/mqtt/protocol/reconnect-plan.js';
import { MqttClient } from '../../../../lib/mqtt/index.js';
import { parseMqttClientOptions } from '../../../../lib/mqtt/options.js';
import { sessionConfig } from '../../../../lib/mqtt/session-config.js';

function config(change: Partial<SessionConfig> = {}): SessionConfig {
  return { ...sessionConfig(parseMqttClientOptions({ clientId: 'c' }), 'c'), ...change };
}

describe('ReconnectPlan', () => {
  const half = (plan: ReconnectPlan, ending: Ending, now = 0): number | undefined => plan.next(ending, now, 0.5);

  it('doubles the bound of each try up to the maximum, and begins anew after a stable connection', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 5 }));
    const delays = Array.from({ length: 11 }, () => half(plan, 'retry'));
    expect(delays).toEqual([50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    plan.connected(5, 0);
    expect(half(plan, 'retry', 9999)).toBe(15_000);
    plan.connected(5, 0);
    expect(half(plan, 'retry', 10_000)).toBe(50);
  });

  it('never dials at once, whatever the random number', () => {
    expect(new ReconnectPlan(config({ protocolVersion: 5 })).next('retry', 0, 0)).toBe(10);
  });

  it('a controlled reconnect is short and counts as no failure', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 5 }));
    for (let i = 0; i < 3; i++) expect(half(plan, 'controlled')).toBe(50);
    expect(plan.failures).toBe(0);
  });

  it('waits long for quotas and takeovers, and gives up after some takeovers in a row', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 5, maxTakeovers: 2 }));
    expect(half(plan, 'longBackoff')).toBe(5000);
    expect(half(plan, 'takeover')).toBe(10_000);
    expect(half(plan, 'takeover')).toBe(20_000);
    expect(half(plan, 'takeover')).toBeUndefined();
    expect(half(plan, 'giveUp')).toBeUndefined();
  });

  it('takeovers count as in a row until a connection was left alone for ten minutes', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 5, maxTakeovers: 2 }));
    let now = 0;
    const takenOverAfter = (ms: number): number | undefined => {
      plan.connected(5, now);
      now += ms;
      return half(plan, 'takeover', now);
    };
    expect(takenOverAfter(50)).toBeGreaterThan(0);
    // The other one waited out a long delay before it came back: that is no stable connection.
    expect(takenOverAfter(120_000)).toBeGreaterThan(0);
    expect(takenOverAfter(120_000)).toBeUndefined();
    expect(takenOverAfter(600_000)).toBeGreaterThan(0);
  });

  it('connections that are closed without a reason are warned of, at 5, 10, 20 and so on', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 4 }));
    const warned: number[] = [];
    for (let time = 1; time <= 45; time += 1) {
      plan.connected(4, time * 1000);
      const warning = plan.closedSilently('twice', time * 1000 + 500);
      if (warning !== undefined) {
        expect(warning).toContain(`${time} connections in a row`);
        expect(warning).toContain("'twice'");
        warned.push(time);
      }
      half(plan, 'retry', time * 1000 + 500);
    }
    expect(warned).toEqual([5, 10, 20, 40]);
    plan.connected(4, 50_000);
    for (const later of [700_000, 700_001, 700_002, 700_003, 700_004]) {
      expect(plan.closedSilently('twice', later)).toBeUndefined();
      half(plan, 'retry', later);
      plan.connected(4, later);
    }
    expect(plan.closedSilently('twice', 700_005)).toContain('5 connections');
  });

  it('refused credentials: soon where new ones can come, else long', () => {
    expect(half(new ReconnectPlan(config({ protocolVersion: 5, renewsCredentials: true })), 'credentials')).toBe(50);
    expect(half(new ReconnectPlan(config({ protocolVersion: 5 })), 'credentials')).toBe(5000);
  });

  it('goes through the servers, but first back to the one that was good', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 5, servers: ['a', 'b', 'c'] }));
    const servers: number[] = [plan.server];
    for (let i = 0; i < 3; i++) {
      half(plan, 'retry');
      servers.push(plan.server);
    }
    plan.connected(5, 0);
    half(plan, 'retry');
    servers.push(plan.server);
    half(plan, 'retry');
    servers.push(plan.server);
    expect(servers).toEqual([0, 1, 2, 0, 0, 1]);
  });

  it('auto: 3.1.1 at once after 5 was refused, then 5 again after the usual delay; fixed once it stood', () => {
    const plan = new ReconnectPlan(config({ protocolVersion: 'auto' }));
    expect(plan.version).toBe(5);
    expect(half(plan, 'version')).toBe(0);
    expect(plan.version).toBe(4);
    expect(half(plan, 'closedBeforeConnack')).toBe(50);
    expect(plan.version).toBe(5);
    expect(half(plan, 'closedBeforeConnack')).toBe(0);
    plan.connected(4, 0);
    expect(half(plan, 'closedBeforeConnack')).toBe(100);
    expect(plan.version).toBe(4);
    // Only a refusal of the version itself opens the question again.
    expect(half(plan, 'version')).toBe(200);
    expect(plan.version).toBe(5);
  });

  it('auto: whatever fails after the fallback, 5 is next', () => {
    for (const ending of ['retry', 'closedBeforeConnack', 'version', 'credentials', 'longBackoff'] as const) {
      const plan = new ReconnectPlan(config());
      half(plan, 'closedBeforeConnack');
      expect(plan.version).toBe(4);
      expect(half(plan, ending)).toBeGreaterThan(0);
      expect(plan.version).toBe(5);
    }
  });
});

describe('KeepAlive', () => {
  it('pings after silence in either direction, and calls the link dead when nothing comes', () => {
    const keepAlive = new KeepAlive();
    keepAlive.start(10, 2000, 0);
    expect(keepAlive.nextDeadline()).toBe(9000);
    keepAlive.sent(5000);
    // Nothing received since 0: the server may be gone although we write.
    expect(keepAlive.nextDeadline()).toBe(9000);
    keepAlive.received(6000);
    expect(keepAlive.nextDeadline()).toBe(14_000);
    expect(keepAlive.check(13_999)).toBeUndefined();
    expect(keepAlive.check(14_000)).toBe('ping');
    expect(keepAlive.nextDeadline()).toBe(16_000);
    expect(keepAlive.check(15_999)).toBeUndefined();
    expect(keepAlive.check(16_000)).toBe('dead');
  });

  it('a few bytes of a packet that does not end are no sign of life, a large one that comes slowly is', () => {
    const keepAlive = new KeepAlive();
    keepAlive.start(10, 2000, 0);
    expect(keepAlive.check(9000)).toBe('ping');
    keepAlive.received(9500, 2);
    expect(keepAlive.check(11_000)).toBe('dead');
    keepAlive.start(10, 2000, 0);
    expect(keepAlive.check(9000)).toBe('ping');
    for (let now = 9001; now <= 9200; now += 1) keepAlive.received(now, 20);
    expect(keepAlive.check(11_000)).toBeUndefined();
  });

  it('any packet is a sign of life', () => {
    const keepAlive = new KeepAlive();
    keepAlive.start(10, 2000, 0);
    expect(keepAlive.check(9000)).toBe('ping');
    keepAlive.received(10_000);
    expect(keepAlive.check(11_000)).toBeUndefined();
    expect(keepAlive.nextDeadline()).toBe(18_000);
  });

  it('while reading is paused it pings on and waits for nothing', () => {
    const keepAlive = new KeepAlive();
    keepAlive.start(10, 2000, 0);
    keepAlive.setPaused(true, 0);
    expect(keepAlive.check(9000)).toBe('ping');
    expect(keepAlive.check(12_000)).toBeUndefined();
    expect(keepAlive.check(18_000)).toBe('ping');
    keepAlive.setPaused(false, 20_000);
    expect(keepAlive.check(21_000)).toBeUndefined();
    expect(keepAlive.check(22_000)).toBe('dead');
  });

  it('0 is off', () => {
    const keepAlive = new KeepAlive();
    keepAlive.start(0, undefined, 0);
    expect(keepAlive.nextDeadline()).toBeUndefined();
    expect(keepAlive.check(1e9)).toBeUndefined();
  });

  it.each([
    [1, 1000],
    [10, 5000],
    [60, 10_000],
  ])('a keep alive of %i s has a ping timeout of %i ms', (seconds, expected) => {
    const keepAlive = new KeepAlive();
    keepAlive.start(seconds, undefined, 0);
    expect(keepAlive.silence).toBe(expected);
  });
});

it('every name of the public class is there before anything connects', () => {
  const client = new MqttClient({ clientId: 'c' });
  expect(client.status).toEqual({
    state: 'idle',
    server: 'tcp://localhost:1883',
    lastError: undefined,
    nextDialIn: undefined,
    readingPaused: false,
    notes: [],
    refusedFilters: [],
  });
  expect(client.protocolVersion).toBeUndefined();
  expect(client.connection).toBeUndefined();
});
