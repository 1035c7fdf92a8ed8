import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { from } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { PulsarClientProxy } from '../../lib/nest/pulsar-client.proxy.js';
import { InMemoryPulsarBroker, type PulsarTopic } from '../../lib/testing/index.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';

let runs: string[] = [];

@Controller()
class Handlers {
  constructor(
    @Inject('FIRST') private readonly first: PulsarClientProxy,
    @Inject('SECOND') private readonly second: PulsarClientProxy,
  ) {}
  @MqttEvent('in/+')
  store(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    const [sink] = context.getParams();
    runs.push(sink);
    (sink === 'second' ? this.second : this.first).emit(sink, payload);
  }
}

let pulsar: InMemoryPulsarBroker;
let other: InMemoryPulsarBroker;
let proxies: PulsarClientProxy[];
let running: RunningApp;
const start = async (strategy: Partial<MqttServerOptions> = {}): Promise<void> => {
  pulsar = await InMemoryPulsarBroker.start();
  other = await InMemoryPulsarBroker.start();
  proxies = [pulsar, other].map(
    ({ url }) =>
      new PulsarClientProxy({
        url,
        backoff: { initial: 5, max: 20 },
        producer: { batching: false, sendTimeout: url === other.url ? 30 : 0 },
      }),
  );
  running = await startApp([Handlers], {
    providers: ['FIRST', 'SECOND'].map((provide, index) => ({ provide, useValue: proxies[index] })),
    strategy: { redeliverAfter: 20, ...strategy },
  });
};
beforeEach(() => {
  runs = [];
});
afterEach(async () => {
  await running.close();
  for (const each of [...proxies, pulsar, other]) await each.close();
});
const topic = (name: string): PulsarTopic => pulsar.topic(`persistent://public/default/${name}`);
const publish = (sink: string, payload: string, qos: 1 | 2 = 1): void =>
  running.broker.publish(`in/${sink}`, payload, { qos });
const paused = (): boolean => running.strategy.client.status.readingPaused;

it('one topic that refuses for good stops the intake for all, loudly; it is tried seldom, and nothing reconnects', async () => {
  await start();
  pulsar.terminate('persistent://public/default/over');
  for (let i = 0; i < 3; i += 1) publish('over', String(i));
  await until(() => running.strategy.stats.held >= 3);
  await until(paused);
  const before = running.strategy.stats.received;
  publish('fine', '1');
  await settled(200);
  expect(running.strategy.stats.received).toBe(before);
  expect(running.strategy.state).toBe('stalled');
  expect(running.strategy.health().status).toBe('down');
  // In 200 ms or more: rounds after 20, 60, 140, 300, 620 ms, of at most all three.
  expect(runs.filter((sink) => sink === 'over').length).toBeLessThan(3 + 3 * 10);
  expect(running.strategy.stats.reconnects).toBe(0);
  expect(running.broker.log.received('puback')).toEqual([]);
});

it('messages of another sink have their turn although one never recovers, and the intake goes on with them', async () => {
  await start({ qos: 2 });
  const stored = (): number => other.topic('persistent://public/default/second').messages.length;
  // QoS 2 has a lane of its own: what is stored is acknowledged although nothing of QoS 1 can be.
  publish('second', '0', 2);
  await running.broker.log.waitForReceived('pubrec', 1);
  pulsar.terminate('persistent://public/default/over');
  other.refuse();
  other.cut();
  for (let i = 0; i < 40; i += 1) publish('over', String(i));
  publish('second', '1', 2);
  await until(() => running.strategy.stats.held >= 41 && paused());
  // These wait at the broker.
  publish('second', '2', 2);
  publish('second', '3', 2);
  await until(() => runs.filter((sink) => sink === 'over').length >= 60);
  other.refuse(false);
  await running.broker.log.waitForReceived('pubrec', 4, {}, 20_000);
  expect(stored()).toBeGreaterThanOrEqual(4);
  expect(running.broker.log.received('puback')).toEqual([]);
  expect(running.strategy.stats.reconnects).toBe(0);
  expect(running.strategy.state).toBe('stalled');
});

it('a policy that ends what a sink refuses for good keeps everything else going', async () => {
  const deadLetters = new (class {
    readonly taken: unknown[] = [];
    emit(_pattern: unknown, letter: unknown): Promise<void> {
      this.taken.push(letter);
      return Promise.resolve();
    }
  })();
  await start({
    deadLetter: {
      client: { emit: (pattern: unknown, letter: unknown) => from(deadLetters.emit(pattern, letter)) } as never,
      pattern: 'dead',
    },
    failure: ({ error }) => ((error as { code?: string }).code === 'ERR_TERMINATED' ? 'deadLetter' : 'redeliver'),
  });
  pulsar.terminate('persistent://public/default/over');
  for (let i = 0; i < 20; i += 1) publish(i % 2 === 0 ? 'over' : 'fine', String(i));
  await running.broker.log.waitForReceived('puback', 20);
  expect(topic('fine').messages).toHaveLength(10);
  expect(deadLetters.taken).toHaveLength(10);
  expect(paused()).toBe(false);
  expect(running.strategy.stats).toMatchObject({ held: 0, deadLettered: 10, succeeded: 10 });
});
