import { Controller } from '@nestjs/common';
import { Ctx } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { settled, startApp, until } from './support/app.js';

const runs: string[] = [];
let failing = true;

@Controller()
class Handlers {
  @MqttEvent('t/+')
  handle(@Ctx() context: MqttMessageContext): void {
    runs.push(`${context.getTopic()} ${context.getAttempt()}`);
    if (failing) throw new Error('not yet');
  }
}

beforeEach(() => {
  runs.length = 0;
  failing = true;
});

// mosquitto drops a message whose Message Expiry Interval ends while it is under way: no reconnect brings it again.
it.each([1, 2] as const)(
  'QoS %i: a held message that the broker has forgotten runs again from our copy',
  async (qos) => {
    const { broker, strategy, close } = await startApp([Handlers], { strategy: { redeliverAfter: 30, qos } });
    broker.publish('t/forgotten', 'x', { qos });
    broker.publish('t/kept', 'x', { qos });
    await until(() => strategy.stats.held === 2);
    const [forgotten] = broker.session('app')!.inFlight.keys();
    broker.session('app')!.inFlight.delete(forgotten);
    await until(() => runs.filter((run) => run.startsWith('t/forgotten')).length >= 3);
    await until(() => strategy.state === 'stalled');
    failing = false;
    await until(() => strategy.stats.succeeded === 2);
    await until(() => strategy.state === 'connected');
    // The broker knows nothing of the first one: only the other is acknowledged.
    await broker.log.waitForReceived(qos === 1 ? 'puback' : 'pubrec');
    await settled();
    const acknowledged = broker.log.received(qos === 1 ? 'puback' : 'pubrec').map(({ messageId }) => messageId);
    expect(acknowledged).toHaveLength(1);
    expect(acknowledged).not.toContain(forgotten);
    expect(broker.violations).toEqual([]);
    await close();
  },
);

it('a session lost unseen: what was held runs again although its identifier is in use for another message', async () => {
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { redeliverAfter: 400 } });
  broker.publish('t/only-copy', 'x', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  broker.dropSession('app');
  const stop = broker.onSend((packet, connection) => {
    if (packet.cmd !== 'connack') return undefined;
    stop();
    connection.cut();
    return 'withhold';
  });
  broker.cut();
  await until(() => broker.connections.some((one) => one.number === 3 && one.session !== undefined));
  // The filters went with the session, and the client cannot know.
  await strategy.client.subscribe([{ filter: 't/new', qos: 1 }]);
  failing = false;
  broker.publish('t/new', 'x', { qos: 1 });
  await until(() => strategy.stats.succeeded === 2);
  expect(runs.filter((run) => run.startsWith('t/only-copy'))).toHaveLength(2);
  await settled();
  expect(broker.log.received('puback')).toHaveLength(1);
  await until(() => strategy.state === 'connected');
  await close();
});

it('a forgotten message is no reason for another reconnect', async () => {
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { redeliverAfter: 20 } });
  broker.publish('t/forgotten', 'x', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  broker.session('app')!.inFlight.clear();
  await until(() => runs.length >= 4);
  expect(strategy.stats.reconnects).toBe(1);
  expect(broker.log.received('connect')).toHaveLength(2);
  await close();
});

it('a copy that comes after all starts nothing twice', async () => {
  const { broker, strategy, close } = await startApp([Handlers], { strategy: { redeliverAfter: 30 } });
  broker.publish('t/late', 'x', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  // A broker that is slow to send again what is under way.
  const release = broker.withhold('publish');
  await until(() => runs.length === 2);
  release();
  failing = false;
  await until(() => strategy.stats.succeeded === 1);
  const before = runs.length;
  broker.connection!.resend(1, { dup: true });
  await broker.log.waitForReceived('puback');
  await settled();
  expect(runs).toHaveLength(before);
  expect(broker.log.received('puback')).toHaveLength(1);
  expect(broker.violations).toEqual([]);
  await close();
});
