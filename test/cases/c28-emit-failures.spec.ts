import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import {
  type EmitEvent,
  MessageId,
  PulsarClientProxy,
  type PulsarClientProxyOptions,
  TransportError,
} from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { settled, until } from '../nest/support/app.js';

/** Nest's emit() is hot: the failure of one that nobody subscribed to is nobody's (nestjs/nest#2718, #2651, #288). */
describe('C28', () => {
  let broker: InMemoryPulsarBroker;
  let proxy: PulsarClientProxy;
  const use = (options: Partial<PulsarClientProxyOptions>): void => {
    proxy = new PulsarClientProxy({ url: broker.url, backoff: { initial: 5, max: 10 }, ...options });
    proxy['logger'].localInstance.error = () => undefined;
  };
  const unhandled: unknown[] = [];
  const events: EmitEvent[] = [];
  const collect = (event: unknown): void => void events.push(event as EmitEvent);
  const note = (reason: unknown): void => void unhandled.push(reason);

  beforeEach(async () => {
    unhandled.length = events.length = 0;
    process.on('unhandledRejection', note);
    process.on('uncaughtException', note);
    subscribe('nestjs-mqtt-pulsar:emit', collect);
    broker = await InMemoryPulsarBroker.start();
    use({});
  });
  afterEach(async () => {
    await proxy.close();
    await broker.close();
    unsubscribe('nestjs-mqtt-pulsar:emit', collect);
    process.off('unhandledRejection', note);
    process.off('uncaughtException', note);
    expect(unhandled).toEqual([]);
  });

  it('an emit that nobody subscribed to fails without an unhandled rejection: counted, and on the channel', async () => {
    use({ createTimeout: 60 });
    broker.refuse();
    proxy.emit('t', 'x');
    await until(() => events.length === 1);
    await settled();
    expect(events[0]).toMatchObject({ pattern: 't', outcome: 'unobservedFailure', error: { retriable: true } });
    expect(events[0].error).toBeInstanceOf(TransportError);
    expect(proxy.stats).toMatchObject({ failed: 1, unobservedFailures: 1, pending: 0 });
  });

  it('the same where nothing listens at all', async () => {
    use({ createTimeout: 60 });
    await broker.close();
    proxy.emit('t', 'x');
    await until(() => events.length === 1);
    await settled();
    expect(events[0]).toMatchObject({ outcome: 'unobservedFailure', error: { code: 'ERR_CONNECTION' } });
    broker = await InMemoryPulsarBroker.start();
  });

  it('an awaited emit resolves to exactly one value, the message id, and completes', async () => {
    const values = await lastValueFrom(proxy.emit('t', 'x').pipe(toArray()));
    expect(values).toHaveLength(1);
    expect(values[0]).toBeInstanceOf(MessageId);
    const [stored] = broker.topic('t').messages;
    expect(values[0]).toMatchObject({ ledgerId: stored.ledgerId, entryId: stored.entryId });
  });

  it('or rejects with our error, also for who subscribes after it is known', async () => {
    broker.failNext('producer', 'AuthorizationError', 'not for you');
    const emit = proxy.emit('t', 'x');
    await expect(lastValueFrom(emit)).rejects.toBeInstanceOf(TransportError);
    await expect(firstValueFrom(emit)).rejects.toMatchObject({ retriable: false });
    expect(events).toMatchObject([{ outcome: 'failed' }]);
    expect(proxy.stats).toMatchObject({ failed: 1, unobservedFailures: 0 });
  });

  it('a late subscriber to a success gets the value too', async () => {
    const emit = proxy.emit('t', 'x');
    await until(() => proxy.stats.stored === 1);
    expect(await firstValueFrom(emit)).toBeInstanceOf(MessageId);
    expect(broker.topic('t').messages).toHaveLength(1);
  });
});
