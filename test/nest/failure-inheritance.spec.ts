import { Controller } from '@nestjs/common';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type FailureFunction } from '../../lib/nest/failure-policy.js';
import { type RunningApp, startApp } from './support/app.js';

let asked: [topic: string, run: number, kind: string][] = [];
const runs = new Map<string, number>();
const ran = (topic: string): never => {
  runs.set(topic, (runs.get(topic) ?? 0) + 1);
  throw new Error('no');
};
/** Permanent failures must not run again: what the function is for. */
const byFunction: FailureFunction = ({ topic, run, kind }) => {
  asked.push([topic, run, kind]);
  return run < 5 && topic !== 'code' && kind !== 'undecodable' ? 'retry' : 'reject';
};

@Controller()
class Handlers {
  @MqttEvent('nothing')
  nothing(): void {
    ran('nothing');
  }
  @MqttEvent('delays', { failure: { retry: { initialDelay: 1, maxDelay: 1 } } })
  delays(): void {
    ran('delays');
  }
  @MqttEvent('runs', { failure: { retry: { attempts: 3, initialDelay: 1, maxDelay: 1 } } })
  runs(): void {
    ran('runs');
  }
  @MqttEvent('undecodable', { payload: 'json', failure: { retry: 3 } })
  undecodable(): void {
    ran('undecodable');
  }
  @MqttEvent('code', { failure: { rejectReasonCode: 0x97 } })
  code(): void {
    ran('code');
  }
  @MqttEvent('then', { failure: { retry: { attempts: 2, initialDelay: 1 }, then: 'discard' } })
  table(): void {
    ran('then');
  }
  @MqttEvent('own', { failure: () => 'reject' })
  own(): void {
    ran('own');
  }
}

let running: RunningApp;
beforeEach(() => {
  asked = [];
  runs.clear();
});
afterEach(() => running.close());
/** @returns the reason code of its PUBACK */
const send = async (topic: string): Promise<number> => {
  running.broker.publish(topic, '{', { qos: 1 });
  const [puback] = await running.broker.log.waitForReceived('puback', 1);
  return puback.reasonCode ?? 0;
};
const questions = (topic: string, ...at: number[]): unknown => at.map((run) => [topic, run, 'handler']);

describe("the strategy's function, where a handler", () => {
  beforeEach(async () => {
    running = await startApp([Handlers], { strategy: { protocolVersion: 5, failure: byFunction } });
  });

  it('says nothing: it is asked for each failure', async () => {
    expect(await send('nothing')).toBe(0x83);
    expect(asked).toEqual(questions('nothing', 1, 2, 3, 4, 5));
  });

  it('says how long a retry waits: it is asked for each failure', async () => {
    expect(await send('delays')).toBe(0x83);
    expect(asked).toEqual(questions('delays', 1, 2, 3, 4, 5));
  });

  it('says how many runs there are: it is asked once they are used up, and may ask for more', async () => {
    expect(await send('runs')).toBe(0x83);
    expect(asked).toEqual(questions('runs', 3, 4, 5));
    expect(runs.get('runs')).toBe(5);
  });

  it('cannot decode the payload: it is asked at once', async () => {
    expect(await send('undecodable')).toBe(0x83);
    expect(asked).toEqual([['undecodable', 1, 'undecodable']]);
  });

  it('says with which code it rejects', async () => {
    expect(await send('code')).toBe(0x97);
    expect(asked).toEqual(questions('code', 1));
  });

  it('says what is done then: it is not asked', async () => {
    expect(await send('then')).toBe(0);
    expect([asked, runs.get('then'), running.strategy.stats.discarded]).toEqual([[], 2, 1]);
  });
});

it("a handler's function is asked for each failure, whatever runs the strategy's table has", async () => {
  running = await startApp([Handlers], {
    strategy: { protocolVersion: 5, failure: { retry: { attempts: 3, initialDelay: 1 }, then: 'discard' } },
  });
  expect(await send('own')).toBe(0x83);
  expect(runs.get('own')).toBe(1);
});
