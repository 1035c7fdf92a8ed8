import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { startApp, until } from '../nest/support/app.js';
import { cutAndReconnect, handedOut, startPair } from '../unit/mqtt/harness.js';

@Controller()
class Handlers {
  @EventPattern<string>('t/+')
  handle(): void {}
}

describe.each([5, 4] as const)('C52: MQTT %i', (protocolVersion) => {
  it('sends no SUBSCRIBE on a resumed session', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    await cutAndReconnect(broker);
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    expect(broker.log.received('subscribe')).toHaveLength(1);
  });

  it('subscribes to everything again on a new session, before anything else', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    await client.subscribe([{ filter: 'u/+', qos: 1 }]);
    const since = broker.log.position;
    broker.cut();
    broker.dropSession('client');
    await broker.log.waitForReceived('subscribe', 1, { since });
    const filters = broker.log
      .received('subscribe', { since })
      .flatMap(({ subscriptions }) => subscriptions.map(({ topic, qos }) => `${topic} ${qos}`));
    expect(filters).toEqual(['t/# 2', 'u/+ 1']);
    expect(broker.log.summary({ since }).filter((entry) => entry.startsWith('>'))).toEqual([
      '>close',
      '>open',
      '>connect',
      '>subscribe',
    ]);
    expect(client.stats.sessionsLost).toBe(1);
  });

  it('sends only what changed meanwhile on a resumed session', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    await client.subscribe([{ filter: 'u', qos: 1 }]);
    await broker.stopListening();
    broker.cut();
    await broker.log.waitFor(() => client.status.state === 'reconnecting');
    const dropped = client.unsubscribe(['u']);
    const added = client.subscribe([{ filter: 'v', qos: 1 }]);
    const since = broker.log.position;
    await broker.listen();
    expect(await dropped).toEqual([{ filter: 'u', reasonCode: 0 }]);
    expect(await added).toMatchObject([{ filter: 'v', reasonCode: 1 }]);
    expect(broker.log.received('subscribe', { since }).flatMap(({ subscriptions }) => subscriptions)).toMatchObject([
      { topic: 'v' },
    ]);
    expect(broker.log.received('unsubscribe', { since })).toMatchObject([{ unsubscriptions: ['u'] }]);
  });

  it('reports a filter that the broker does not grant again', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    broker.options.subackCode = () => 0x80;
    broker.cut();
    broker.dropSession('client');
    await broker.log.waitFor(() => client.errors.length > 0);
    expect(client.errors[0]).toMatchObject({
      code: 'ERR_SUBSCRIPTION',
      refused: [{ filter: 't/#', reasonCode: 0x80 }],
    });
    expect(client.status.notes.join()).toContain("'t/#'");
    expect(client.status.refusedFilters).toEqual(['t/#']);
    // The next connection tries it once more.
    broker.options.subackCode = () => undefined;
    await cutAndReconnect(broker);
    await broker.log.waitFor(() => client.status.refusedFilters.length === 0 || undefined);
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
  });

  it('the health of a strategy is down while a filter is not granted again', async () => {
    const { broker, strategy, close } = await startApp([Handlers], { strategy: { protocolVersion } });
    expect(strategy.health().status).toBe('up');
    broker.options.subackCode = () => 0x80;
    broker.dropSession('app');
    broker.cut();
    await until(() => strategy.health().reason?.includes('not subscribed') === true);
    expect(strategy.health()).toMatchObject({ status: 'down', reason: expect.stringContaining('t/+') });
    broker.options.subackCode = () => undefined;
    broker.cut();
    await until(() => strategy.health().status === 'up');
    await close();
  });
});
