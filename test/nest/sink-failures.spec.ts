import { Controller, Inject } from '@nestjs/common';
import { Ctx, EventPattern, Payload, RpcException } from '@nestjs/microservices';
import { firstValueFrom, lastValueFrom } from 'rxjs';
import { MqttClient } from '../../lib/mqtt/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type Failure } from '../../lib/nest/failure-policy.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { MqttClientProxy } from '../../lib/nest/mqtt-client.proxy.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { PulsarClientProxy } from '../../lib/nest/pulsar-client.proxy.js';
import { PulsarRecord } from '../../lib/nest/pulsar-record.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';

const failures: Failure[] = [];
const seen = (failure: Failure): 'redeliver' => {
  failures.push(failure);
  return 'redeliver';
};

@Controller()
class Handlers {
  constructor(
    @Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy,
    @Inject(MqttClientProxy) private readonly mqtt: MqttClientProxy,
  ) {}

  @MqttEvent('not-awaited', { failure: seen })
  notAwaited(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload);
  }
  @MqttEvent('awaited', { failure: seen })
  async awaited(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', payload));
  }
  @EventPattern<string>('masked', { failure: seen })
  async masked(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', payload));
  }
  @MqttEvent('not-holding', { failure: seen })
  async notHolding(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', new PulsarRecord(payload, { holdsAcknowledgement: false })));
  }
  @MqttEvent('as-cause', { failure: seen })
  async asCause(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', payload)).catch((cause: unknown) => {
      throw new Error('the reading was not stored', { cause });
    });
  }
  @MqttEvent('as-rpc-exception', { failure: seen })
  async asRpcException(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', payload)).catch((error: object) => {
      throw new RpcException(error);
    });
  }
  @MqttEvent('detached', { failure: seen })
  detached(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    const handle = context.detach();
    this.pulsar.emit('out', payload).subscribe({
      complete: () => handle.acknowledge(),
      error: (error: unknown) => handle.fail(error),
    });
  }
  @MqttEvent('wait-until', { failure: seen })
  waitUntil(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    context.waitUntil(this.pulsar.emit('out', payload));
  }
  @MqttEvent('batch', { failure: seen, batch: { size: 2, delay: 20 } })
  batch(@Payload() data: Buffer[]): void {
    for (const each of data) this.pulsar.emit('out', each);
  }
  @EventPattern<string>('masked-batch', { failure: seen, batch: { size: 2, delay: 20 } })
  async maskedBatch(@Payload() data: Buffer[]): Promise<void> {
    for (const each of data) await lastValueFrom(this.pulsar.emit('out', each));
  }
  @MqttEvent('batch-members', { failure: seen, batch: { size: 2, delay: 20 } })
  async batchMembers(@Payload() data: Buffer[], @Ctx() context: MqttBatchContext): Promise<void> {
    const outcomes = await Promise.allSettled(data.map((each) => lastValueFrom(this.pulsar.emit('out', each))));
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.status === 'rejected') context.fail(index, outcome.reason);
    }
  }

  @MqttEvent('asks', { failure: seen })
  async asks(@Payload() payload: Buffer): Promise<void> {
    await firstValueFrom(this.mqtt.send('responder', payload));
  }
  @MqttEvent('own-error', { failure: seen })
  ownError(): void {
    throw new Error('mine');
  }
  @MqttEvent('fine')
  fine(): void {
    // Needs no sink.
  }
}

let pulsar: InMemoryPulsarBroker;
let sink: PulsarClientProxy;
let requester: MqttClientProxy;
let running: RunningApp;
beforeEach(async () => {
  failures.length = 0;
  pulsar = await InMemoryPulsarBroker.start();
  sink = new PulsarClientProxy({
    url: pulsar.url,
    backoff: { initial: 5, max: 20 },
    producer: { sendTimeout: 30, batching: false },
  });
});
afterEach(async () => {
  await running.close();
  await requester.close();
  await sink.close();
  await pulsar.close();
});
const start = async (redeliverAfter = 20): Promise<void> => {
  const broker = await InMemoryMqttBroker.start();
  requester = new MqttClientProxy({ url: broker.url, clientId: 'requester', requestTimeout: 30 });
  running = await startApp([Handlers], {
    broker,
    providers: [
      { provide: PulsarClientProxy, useValue: sink },
      { provide: MqttClientProxy, useValue: requester },
    ],
    strategy: { redeliverAfter },
  });
  const { close } = running;
  running = { ...running, close: () => close().then(() => broker.close()) };
};
const client = (): MqttClient => running.strategy.unwrap<MqttClient>();
const reading = (): boolean => !client().status.readingPaused;
const stored = (): number => pulsar.topic('persistent://public/default/out').messages.length;

it.each([
  'not-awaited',
  'awaited',
  'masked',
  'not-holding',
  'as-cause',
  'as-rpc-exception',
  'detached',
  'wait-until',
  'batch',
  'masked-batch',
  'batch-members',
])(
  '%s: an unreachable sink with a sendTimeout leads to no reconnect; intake pauses, and all go on when it is back',
  async (topic) => {
    await start();
    for (const payload of ['0', '1']) running.broker.publish(topic, payload, { qos: 1 });
    await running.broker.log.waitForReceived('puback', 2);
    pulsar.refuse();
    pulsar.cut();
    for (const payload of ['2', '3']) running.broker.publish(topic, payload, { qos: 1 });
    await until(() => running.strategy.stats.held >= 2);
    await until(() => !reading());
    expect(running.strategy.state).toBe('stalled');
    // Some have tried it in vain.
    await until(() => running.strategy.stats.held >= 5);
    expect(running.broker.log.received('puback')).toHaveLength(2);
    expect(failures.length).toBeGreaterThanOrEqual(5);

    pulsar.refuse(false);
    await running.broker.log.waitForReceived('puback', 4);
    await until(reading);
    await until(() => running.strategy.state === 'connected');
    expect(stored()).toBeGreaterThanOrEqual(4);
    expect(running.strategy.stats.reconnects).toBe(0);
    expect(running.broker.log.received('connect')).toHaveLength(1);
    expect(client().stats.deliveries.failed).toBe(0);
  },
);

it('QoS 0: what an unreachable sink did not take is discarded, counted, and stops nothing', async () => {
  await start();
  running.broker.publish('not-awaited', '0', { qos: 0 });
  await until(() => running.strategy.stats.succeeded === 1);
  pulsar.refuse();
  pulsar.cut();
  running.broker.publish('not-awaited', '1', { qos: 0 });
  await until(() => running.strategy.stats.discarded === 1);
  expect(running.strategy.stats.held).toBe(0);
  expect(reading()).toBe(true);
  running.broker.publish('fine', 'x', { qos: 1 });
  await running.broker.log.waitForReceived('puback', 1);
});

it('a request that nobody answers: no reconnect, nothing pauses, and what waits goes on with the first that is answered', async () => {
  await start();
  const answers: string[] = [];
  for (const payload of ['1', '2', '3']) running.broker.publish('asks', payload, { qos: 1 });
  await until(() => running.strategy.stats.held >= 5);
  expect(failures.every(({ error }) => (error as { code: string }).code === 'ERR_TIMEOUT')).toBe(true);
  expect(reading()).toBe(true);
  running.broker.publish('fine', 'x', { qos: 1 });
  await until(() => running.strategy.stats.succeeded === 1);
  // It stands behind them.
  await settled();
  expect(running.broker.log.received('puback').length).toBe(0);

  const responder = new MqttClient({ url: running.broker.url, clientId: 'responder' });
  responder.onDelivery = (delivery) => {
    const { payload, properties } = delivery.message;
    answers.push(payload.toString());
    responder.acknowledge(delivery);
    void responder.publish({
      topic: properties!.responseTopic!,
      payload: '"yes"',
      qos: 1,
      properties: { correlationData: properties!.correlationData! },
    });
  };
  await responder.connect();
  await responder.subscribe([{ filter: 'responder', qos: 1 }]);
  await until(() => running.strategy.stats.succeeded === 4);
  expect(new Set(answers)).toEqual(new Set(['1', '2', '3']));
  expect(running.strategy.stats.reconnects).toBe(0);
  await until(() => running.strategy.state === 'connected');
  await responder.close();
});

it("an error of the user's own is redelivered by a reconnect", async () => {
  await start();
  running.broker.publish('own-error', 'x', { qos: 1 });
  await until(() => running.strategy.stats.reconnects >= 2);
  expect(reading()).toBe(true);
});

it('while the sink is down a lost link brings nothing to run: only the probes do', async () => {
  await start(60_000);
  running.broker.publish('awaited', '0', { qos: 1 });
  await running.broker.log.waitForReceived('puback', 1);
  pulsar.refuse();
  pulsar.cut();
  for (let i = 1; i <= 30; i += 1) running.broker.publish('awaited', String(i), { qos: 1 });
  await until(() => running.strategy.stats.held >= 30);
  await until(() => !reading());
  running.broker.cut();
  await running.broker.waitForClient('app');
  await until(() => running.broker.log.sent('publish', { connection: running.broker.connection!.number }).length >= 30);
  await settled();
  // All of them came again; the first probe is a minute away.
  expect(failures).toHaveLength(30);
  expect(running.strategy.stats.reconnects).toBe(0);
});
