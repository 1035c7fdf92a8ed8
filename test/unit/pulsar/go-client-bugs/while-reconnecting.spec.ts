import { type InMemoryPulsarBroker } from '../../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text, watch } from '../support/world.js';

/** Ends the link and keeps every new one from coming up, until the returned function is called. */
async function away(broker: InMemoryPulsarBroker, producer: { on: (event: 'disconnected', f: () => void) => unknown }) {
  const gone = new Promise<void>((resolve) => producer.on('disconnected', resolve));
  broker.refuse();
  broker.cut();
  await gone;
  return () => broker.refuse(false);
}

// Row 2 (apache/pulsar-client-go #1332, #1422): a loop that waited for the reconnect took nothing in, timed nothing out and
// called nobody back. Row 6 (#1236, #1247): every resend began the timeout anew, and a message could wait for ever.
describe('a producer whose broker is away', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('takes sends, flushes, cancels and closes in all states, and calls back', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', maxPendingMessages: 3 });
    await away(broker, producer);
    const controller = new AbortController();
    const sends = [0, 1, 2, 3, 4].map((n) => producer.send(text(`m${n}`)));
    const cancelled = producer.send(text('cancelled'), { signal: controller.signal });
    const flushed = watch(producer.flush());
    controller.abort();
    await expect(cancelled).rejects.toMatchObject({ code: 'ERR_ABORTED' });
    expect(producer.stats).toMatchObject({ pendingMessages: 3, waitingMessages: 2 });
    expect(flushed.state).toBe('pending');
    const failures = Promise.allSettled(sends);
    await producer.close({ timeout: 20 });
    for (const outcome of await failures) {
      expect(outcome).toMatchObject({ reason: { code: 'ERR_CLOSED', ambiguous: false } });
    }
    expect(flushed.state).toBe('rejected');
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
  });

  it('times messages out, those that had been written and those that had not', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', sendTimeout: 150, batching: false, maxPendingMessages: 2 });
    broker.holdReceipts();
    const written = producer.send(text('written'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    const back = await away(broker, producer);
    const sends = Promise.allSettled([written, producer.send(text('accepted')), producer.send(text('waiting'))]);
    expect(await sends).toMatchObject([
      { reason: { code: 'ERR_SEND_TIMEOUT', ambiguous: true } },
      { reason: { code: 'ERR_SEND_TIMEOUT', ambiguous: false } },
      { reason: { code: 'ERR_SEND_TIMEOUT', ambiguous: false } },
    ]);
    broker.releaseReceipts();
    back();
    await broker.waitFor(() => producer.state === 'ready');
    await producer.send(text('later'));
    expect(broker.topic('unit').texts).toEqual(['written', 'later']);
  });

  it('counts the timeout from the call, however often the message is sent again', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', sendTimeout: 400, batching: false });
    broker.withhold('sendReceipt');
    const send = producer.send(text('never answered'));
    const outcome = expect(send).rejects.toMatchObject({ code: 'ERR_SEND_TIMEOUT', timeoutMs: 400, ambiguous: true });
    const state = watch(send);
    // A link lives until it has carried the message once more: with a timeout that begins anew this would never end.
    for (let links = 1; state.state === 'pending'; links++) {
      await broker.waitFor(() => received(broker, 'send') >= links || state.state !== 'pending');
      broker.cut();
    }
    await outcome;
    expect(producer.stats.resentFrames).toBeGreaterThan(1);
  });
});
