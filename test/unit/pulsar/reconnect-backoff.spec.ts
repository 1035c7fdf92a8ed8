import { type Clock, systemClock } from '../../../lib/net/clock.js';
import { PulsarWorld, received, text } from './support/world.js';

/** The system's clock with the longest jitter and no real wait, and the delays that were asked for. */
function hastyClock(): { readonly clock: Clock; readonly delays: number[] } {
  const delays: number[] = [];
  const clock: Clock = {
    ...systemClock,
    random: () => 0.999,
    setTimer: (callback, ms, keepAlive) => {
      delays.push(ms);
      return systemClock.setTimer(callback, Math.min(ms, 20), keepAlive);
    },
  };
  return { clock, delays };
}

/** How long a client waits before it dials a broker again. */
describe('backoff of reconnects', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('begins anew after every connection that brought a receipt, however often the link is cut', async () => {
    const broker = await world.broker();
    const { clock, delays } = hastyClock();
    const options = { clock, backoff: { initial: 10, max: 9_000 }, keepAlive: 0, operationTimeout: 100_000 };
    const producer = await world.client(broker, options).createProducer({ topic: 'unit' });
    delays.length = 0;
    for (let round = 0; round < 15; round++) {
      const gone = new Promise((resolve) => producer.on('disconnected', resolve));
      await producer.send(text(`m${round}`));
      broker.cut();
      await gone;
    }
    await producer.send(text('last'));
    // Requests and the connect timeout ask for 10,000 and more; the rest are waits before a dial.
    expect(Math.max(...delays.filter((ms) => ms < 9_500))).toBeLessThanOrEqual(10);
    expect(broker.topic('unit').texts).toHaveLength(16);
  });

  it('grows while every connection ends before a receipt came', async () => {
    const broker = await world.broker();
    const { clock, delays } = hastyClock();
    const options = { clock, backoff: { initial: 10, max: 9_000 }, keepAlive: 0, operationTimeout: 100_000 };
    const producer = await world.client(broker, options).createProducer({ topic: 'unit' });
    delays.length = 0;
    const stop = broker.onReceive((type, _body, connection) => {
      if (type !== 'send') return undefined;
      connection.cut();
      return 'ignore';
    });
    const send = producer.send(text('at last'));
    await broker.waitFor(() => received(broker, 'producer') >= 9);
    stop();
    await send;
    expect(Math.max(...delays.filter((ms) => ms < 9_500))).toBeGreaterThan(1_000);
  });
});
