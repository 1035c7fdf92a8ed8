import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type Failure } from '../../lib/nest/failure-policy.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { PulsarClientProxy } from '../../lib/nest/pulsar-client.proxy.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { VirtualClock } from '../model/strategy/virtual-clock.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';

const NEVER = new Promise<void>(() => undefined);
let runs: { topic: string; run: number; at: number; signal: AbortSignal }[] = [];
let failures: Failure[] = [];
let hangs: (run: number) => boolean = () => true;
let afterEmit = NEVER;
const clock = new VirtualClock(() => 0.5);

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}

  /** Its own bound. */
  @MqttEvent('own', {
    failure: { retry: { attempts: 3, initialDelay: 200, perAttemptTimeout: 1_000 }, then: 'discard' },
  })
  own(@Ctx() context: MqttMessageContext): Promise<void> | undefined {
    return this.run(context);
  }
  /** The strategy's. */
  @MqttEvent('inherited')
  inherited(@Ctx() context: MqttMessageContext): Promise<void> | undefined {
    return this.run(context);
  }
  /** None of the retries is bounded otherwise than the handler. */
  @MqttEvent('function', {
    handlerTimeout: 700,
    failure: (failure) => {
      failures.push(failure);
      return failure.run < 2 ? { action: 'retry', delayMs: 50 } : 'discard';
    },
  })
  function(@Ctx() context: MqttMessageContext): Promise<void> | undefined {
    return this.run(context);
  }
  @MqttEvent('emits', {
    failure: { retry: { attempts: 2, initialDelay: 200, perAttemptTimeout: 1_000 }, then: 'discard' },
  })
  async emits(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    void this.run(context);
    await lastValueFrom(this.pulsar.emit('out', payload));
    await afterEmit;
  }

  private run(context: MqttMessageContext): Promise<void> | undefined {
    runs.push({ topic: context.getTopic(), run: context.getRun(), at: clock.now(), signal: context.signal });
    return hangs(context.getRun()) ? NEVER : undefined;
  }
}

let running: RunningApp;
let pulsar: InMemoryPulsarBroker;
let sink: PulsarClientProxy;
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  running = await startApp([Handlers], {
    providers: [{ provide: PulsarClientProxy, useValue: sink }],
    strategy: { clock, keepAlive: 0, stalledAfter: 0, shutdownTimeout: 1, handlerTimeout: 60_000, ...strategy },
  });
};
beforeEach(async () => {
  runs = [];
  failures = [];
  hangs = () => true;
  afterEmit = NEVER;
  pulsar = await InMemoryPulsarBroker.start();
  sink = new PulsarClientProxy({ url: pulsar.url });
});
afterEach(async () => {
  let closed = false;
  const closing = running.close().then(() => (closed = true));
  for (; !closed; await settled(1)) await pass(10);
  await closing;
  await sink.close();
  await pulsar.close();
});
const pass = (ms: number): Promise<void> => clock.pass(ms, () => settled(2));
const publish = async (topic: string): Promise<number> => {
  running.broker.publish(topic, 'x', { qos: 1 });
  await until(() => runs.length === 1);
  return clock.now();
};
const at = (): number[] => runs.map((run) => run.at - runs[0].at);

it("of the handler: each run has its own, then the next one after the backoff's delay", async () => {
  await start();
  await publish('own');
  await pass(999);
  expect(runs[0].signal.aborted).toBe(false);
  await pass(1);
  expect(runs[0].signal.aborted).toBe(true);
  await pass(2_299);
  // Half of 200 ms, and half of 400 ms, between runs of 1,000 ms.
  expect(at()).toEqual([0, 1_100, 2_300]);
  expect(running.broker.log.received('puback')).toEqual([]);
  await pass(1_000);
  await running.broker.log.waitForReceived('puback');
  expect(running.strategy.stats).toMatchObject({ timedOut: 3, retries: 2, discarded: 1, succeeded: 0 });
});

it('a run that ends in time after one that did not is a success', async () => {
  await start();
  hangs = (run) => run === 1;
  await publish('own');
  await pass(1_100);
  await running.broker.log.waitForReceived('puback');
  expect(running.strategy.stats).toMatchObject({ timedOut: 1, retries: 1, discarded: 0, succeeded: 1 });
  expect(runs.map(({ signal }) => signal.aborted)).toEqual([true, false]);
});

it('of the strategy: for handlers that say nothing; the handlers that do keep theirs', async () => {
  await start({ failure: { retry: { attempts: 2, initialDelay: 200, perAttemptTimeout: 5_000 }, then: 'discard' } });
  await publish('inherited');
  await pass(10_099);
  expect(at()).toEqual([0, 5_100]);
  expect(running.strategy.stats.timedOut).toBe(1);
  await pass(1);
  await running.broker.log.waitForReceived('puback');
  expect(running.strategy.stats).toMatchObject({ timedOut: 2, discarded: 1 });
  runs = [];
  await publish('own');
  await pass(1_100);
  expect(at()).toEqual([0, 1_100]);
});

it('without one, handlerTimeout bounds every run; the policy sees what was over', async () => {
  await start();
  await publish('function');
  await pass(750);
  expect(at()).toEqual([0, 750]);
  await pass(700);
  await running.broker.log.waitForReceived('puback');
  expect(failures.map(({ kind, run }) => [kind, run])).toEqual([
    ['timeout', 1],
    ['timeout', 2],
  ]);
  expect(failures[0].error).toMatchObject({ code: 'ERR_HANDLER_TIMEOUT', timeoutMs: 700 });
});

it('the clock stands still while an emit is pending, and goes on where it stood', async () => {
  await start();
  pulsar.holdReceipts();
  const topic = pulsar.topic('persistent://public/default/out');
  await publish('emits');
  await until(() => topic.messages.length === 1);
  // Less than maxHold, whose clock goes on.
  await pass(200_000);
  expect(running.strategy.stats.timedOut).toBe(0);
  expect(runs[0].signal.aborted).toBe(false);
  pulsar.releaseReceipts();
  await settled();
  await pass(999);
  expect(running.strategy.stats.timedOut).toBe(0);
  await pass(1);
  expect(running.strategy.stats.timedOut).toBe(1);
  expect(runs[0].signal.aborted).toBe(true);
  // The next run emits again: at least once.
  afterEmit = Promise.resolve();
  await pass(100);
  await running.broker.log.waitForReceived('puback');
  expect(topic.messages).toHaveLength(2);
  expect(running.strategy.stats).toMatchObject({ timedOut: 1, succeeded: 1 });
});
