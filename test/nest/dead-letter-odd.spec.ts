import { Controller } from '@nestjs/common';
import { type ClientProxy, Ctx, EventPattern, Payload, type ReadPacket } from '@nestjs/microservices';
import { MqttClientProxy } from '../../lib/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { gate, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

/** A proxy that is not ours. */
class Target extends EventClient {
  readonly taken: Record<string, unknown>[] = [];
  answer: () => Promise<unknown> = () => Promise.resolve();
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.taken.push(packet.data as Record<string, unknown>);
    return this.answer() as Promise<T>;
  }
}

let thrown: unknown;

@Controller()
class Handlers {
  @MqttEvent('fails', { failure: { then: 'deadLetter' } })
  fails(): never {
    throw thrown;
  }
}

@Controller()
class Asks {
  @EventPattern<string>('asks')
  asks(@Ctx() context: MqttMessageContext): void {
    context.deadLetter('not mine');
  }
}

const start = (target: ClientProxy, more: Partial<MqttServerOptions> = {}, broker?: InMemoryMqttBroker) =>
  startApp([Handlers], {
    ...(broker !== undefined && { broker }),
    strategy: { deadLetter: { client: target, pattern: 'dead' }, ...more },
  });

beforeEach(() => (thrown = new Error('cannot read this')));

it("a device's properties cannot take the place of the letter at a proxy that is not ours", async () => {
  const target = new Target();
  const { broker, close } = await start(target);
  const userProperties = { value: '21.5', key: 'k', payload: 'p', 'dead-letter-topic': 'x' };
  broker.publish('fails', Buffer.from([0, 0xff]), { qos: 1, properties: { userProperties } });
  await broker.log.waitForReceived('puback');
  const [letter] = target.taken;
  expect(letter).toMatchObject({
    payload: Buffer.from([0, 0xff]).toString('base64'),
    properties: userProperties,
    'dead-letter-topic': 'fails',
  });
  // Nest's Kafka client takes an object with one of these for a message of its own.
  expect(letter).not.toHaveProperty('value');
  expect(letter).not.toHaveProperty('key');
  await close();
});

const circular: { self?: unknown } = {};
circular.self = circular;

it.each<[string, unknown]>([
  ['U+0000', new Error('Unexpected token \u0000 in JSON')],
  ['half of a surrogate pair', new Error(`${'x'.repeat(999)}\u{1F600}`)],
  ['no JSON form', circular],
  ['nothing at all', undefined],
])('a letter leaves over MQTT 5 whatever was thrown: %s', async (_name, error) => {
  thrown = error;
  const broker = await InMemoryMqttBroker.start();
  const target = new MqttClientProxy({ url: broker.url });
  const { strategy, close } = await start(target, { protocolVersion: 5 }, broker);
  broker.publish('fails', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  expect(strategy.stats).toMatchObject({ deadLettered: 1, deadLetterFailures: 0 });
  await close();
  await target.close();
  await broker.close();
});

it('QoS 0 and no target: discarded, because it cannot come again', async () => {
  const { broker, strategy, close } = await startApp([Asks]);
  broker.publish('asks', 'x', { qos: 0 });
  await until(() => strategy.stats.discarded === 1);
  expect(strategy.stats.held).toBe(0);
  expect(strategy.health().status).toBe('up');
  await close();
});

it('no target: the message is held, and the log says what is missing', async () => {
  const { broker, strategy, logged, close } = await startApp([Asks]);
  broker.publish('asks', 'x', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  expect(broker.log.received('puback')).toEqual([]);
  expect(logged.filter((line) => line.includes('No deadLetter target is configured'))).toHaveLength(1);
  await close();
});

it('close() waits for the letter of a message without a handler, and acknowledges it', async () => {
  const target = new Target();
  const receipt = gate();
  target.answer = () => receipt.promise;
  const { broker, app, strategy, close } = await start(target);
  // As a filter that an earlier version has left in the session.
  await strategy.unwrap<{ subscribe(requests: object[]): Promise<unknown> }>().subscribe([{ filter: 'old', qos: 1 }]);
  broker.publish('old', 'x', { qos: 1 });
  await until(() => target.taken.length === 1);
  const closed = app.close();
  await settled();
  expect(broker.log.received('disconnect')).toEqual([]);
  receipt.open();
  await closed;
  expect(broker.log.received('puback')).toHaveLength(1);
  await close();
});

it('close() starts nothing that waits, whatever makes room and whoever calls resume() meanwhile', async () => {
  const release = gate();
  const started: string[] = [];
  @Controller()
  class Slow {
    @EventPattern<string>('slow')
    async slow(@Payload() payload: Buffer): Promise<void> {
      started.push(payload.toString());
      await release.promise;
    }
  }
  const { broker, app, strategy, close } = await startApp([Slow], { strategy: { concurrency: 1 } });
  for (let i = 0; i < 5; i += 1) broker.publish('slow', String(i), { qos: 1 });
  await until(() => strategy.gate.waitingCount === 4);
  strategy.pause();
  const closed = app.close();
  await settled();
  strategy.resume();
  release.open();
  await closed;
  expect(started).toEqual(['0']);
  expect(broker.log.received('puback')).toHaveLength(1);
  await close();
});
