import { Controller } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { gate, settled, startApp, until } from './support/app.js';

let work = gate();
let fails = 0;
const runs: string[] = [];

@Controller()
class Handlers {
  @MqttEvent('redelivered')
  async redelivered(@Payload() payload: Buffer): Promise<void> {
    runs.push(String(payload));
    await work.promise;
    if (fails-- > 0) throw new Error('no');
  }
  @MqttEvent('halting', { failure: { then: 'halt' } })
  halting(@Payload() payload: Buffer): Promise<void> {
    return this.redelivered(payload);
  }
}

beforeEach(() => {
  work = gate();
  fails = 1;
  runs.length = 0;
});

// A broker that does not mark copies, or one that was restored from an older state (mosquitto's last autosave).
describe.each(['topic', 'none'] as const)('a message that came again without DUP while it ran, order %s', (order) => {
  it('and then fails: nothing is held for it, its key is free, the copy runs', async () => {
    const running = await startApp([Handlers], {
      broker: { dupOnResend: false },
      strategy: { order, protocolVersion: 4, redeliverAfter: 30, reconnect: { initial: 2, max: 10 } },
    });
    running.broker.publish('redelivered', 'first');
    await until(() => runs.length === 1);
    running.broker.cut();
    await until(() => running.strategy.client.stats.superseded === 1);
    work.open();
    running.broker.publish('redelivered', 'second');
    await running.broker.log.waitForReceived('puback', 2);
    await settled();
    expect([...runs].sort()).toEqual(['first', 'first', 'second']);
    expect(running.strategy.state).toBe('connected');
    expect(running.strategy.stats.reconnects).toBe(0);
    expect(running.strategy.gate).toMatchObject({ keyCount: 0, waitingCount: 0, runningCount: 0 });
    await running.close();
  });
});

describe.each([
  [1, 'received'],
  [1, 'reversed'],
  [2, 'received'],
] as const)('messages that come again without DUP, QoS %i, resent as %s', (qos, resendOrder) => {
  it('take the places of those that failed or wait: each succeeds once, in received order', async () => {
    const running = await startApp([Handlers], {
      broker: { dupOnResend: false, resendOrder },
      strategy: {
        qos,
        order: 'topic',
        concurrency: 1,
        protocolVersion: 4,
        redeliverAfter: 30,
        reconnect: { initial: 2, max: 10 },
      },
    });
    for (const payload of ['1', '2', '3', '4']) running.broker.publish('redelivered', payload, { qos });
    await until(() => running.strategy.client.stats.received === 4);
    work.open();
    await running.broker.log.waitForReceived(qos === 1 ? 'puback' : 'pubrec', 4);
    await settled();
    expect(runs).toEqual(['1', '1', '2', '3', '4']);
    expect(running.strategy.stats).toMatchObject({ succeeded: 4, failedRuns: 1 });
    expect(running.strategy.state).toBe('connected');
    expect(running.strategy.gate).toMatchObject({ keyCount: 0, waitingCount: 0, runningCount: 0 });
    expect(running.strategy.client.stats.deliveries).toMatchObject({ waiting: 0, running: 0, failed: 0, succeeded: 0 });
    await running.close();
  });
});

it('attempts go on: a policy that counts them ends', async () => {
  const attempts: number[] = [];
  @Controller()
  class Counting {
    @MqttEvent('poison', {
      failure: ({ attempt }) => {
        attempts.push(attempt);
        return attempt === 3 ? 'discard' : 'redeliver';
      },
    })
    poison(): void {
      throw new Error('no');
    }
  }
  const running = await startApp([Counting], {
    broker: { dupOnResend: false },
    strategy: { protocolVersion: 4, redeliverAfter: 10, reconnect: { initial: 2, max: 5 } },
  });
  running.broker.publish('poison', 'x');
  await running.broker.log.waitForReceived('puback', 1);
  expect(attempts).toEqual([1, 2, 3]);
  await running.close();
});

it('what is done of it stays done: a handler that had succeeded does not run again for a failed one beside it', async () => {
  let fine = 0;
  let failing = 0;
  @Controller()
  class Two {
    @MqttEvent('both')
    fine(): void {
      fine += 1;
    }
    @MqttEvent('+')
    failing(): void {
      failing += 1;
      if (failing < 3) throw new Error('no');
    }
  }
  const running = await startApp([Two], {
    broker: { dupOnResend: false },
    strategy: { protocolVersion: 4, redeliverAfter: 10, reconnect: { initial: 2, max: 5 } },
  });
  running.broker.publish('both', 'x');
  await running.broker.log.waitForReceived('puback', 1);
  expect([fine, failing]).toEqual([1, 3]);
  await running.close();
});

describe('a halt', () => {
  it('starts nothing with the place that it leaves, and resume() goes on in received order', async () => {
    const running = await startApp([Handlers], { strategy: { concurrency: 1 } });
    for (let index = 0; index < 4; index++) running.broker.publish('halting', String(index));
    await until(() => running.strategy.gate.waitingCount === 3);
    work.open();
    await until(() => running.strategy.state === 'halted');
    await settled();
    expect(runs).toEqual(['0']);
    running.strategy.resume();
    await running.broker.log.waitForReceived('puback', 4);
    expect(runs).toEqual(['0', '0', '1', '2', '3']);
    await running.close();
  });
});
