import { PulsarWorld, received, text } from '../support/world.js';

// Row 11 (apache/pulsar-client-go #1042, #1059, #1257): close() dropped some messages and published later ones. v0.19.0 with
// 10 sends in a batch and close(): no callback at all; with 5,000: about half. Row 12 (#1249, #1259, #495): close() blocked
// while reconnecting; flush and send after it hung or crashed. Row 13 (#1365): close() within a callback was a deadlock.
describe('closing', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());
  const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `m${n}`);

  it('settles a burst of 5,000 in order, all stored', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', maxPendingMessages: 100 });
    let calls = 0;
    let failures = 0;
    for (const value of upTo(5000)) {
      producer.submit(text(value), (error) => {
        calls++;
        if (error !== undefined) failures++;
      });
    }
    await producer.close();
    expect([calls, failures]).toEqual([5000, 0]);
    expect(broker.topic('unit').texts).toEqual(upTo(5000));
  });

  it('leaves no hole where its time is up: what is stored is how the calls began, the rest rejects', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', maxPendingMessages: 4, batching: false });
    broker.holdReceipts();
    const outcomes: string[] = [];
    const sends = upTo(30).map((value) =>
      producer.send(text(value)).then(
        () => outcomes.push(value),
        (error: { code: string }) => outcomes.push(error.code),
      ),
    );
    await broker.waitFor(() => received(broker, 'send') === 4);
    broker.releaseReceipts({ count: 4 });
    await broker.waitFor(() => received(broker, 'send') === 8);
    await producer.close({ timeout: 30 });
    await Promise.all(sends);
    expect(outcomes).toEqual([...upTo(4), ...Array<string>(26).fill('ERR_CLOSED')]);
    expect(broker.topic('unit').texts).toEqual(upTo(8));
  });

  it('resolves while a try to reconnect hangs, and everything afterwards answers at once', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    broker.silenceNext('lookupTopic', 100);
    broker.unload('unit');
    await broker.waitFor(() => received(broker, 'lookupTopic') === 2);
    const send = producer.send(text('held')).catch((error: { code: string }) => error.code);
    await producer.close({ timeout: 30 });
    expect(await send).toBe('ERR_CLOSED');
    await expect(producer.send(text('late'))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await producer.flush();
    await producer.close();
    producer.destroy();
    expect(producer.state).toBe('closed');
  });

  it('may be asked for and awaited in the callback of each of several sends', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    const closed: Promise<void>[] = [];
    const called = upTo(5).map(
      (value) =>
        new Promise<void>((resolve) => {
          producer.submit(text(value), (error) => {
            expect(error).toBeUndefined();
            closed.push(producer.close().then(resolve));
          });
        }),
    );
    await Promise.all(called);
    await Promise.all(closed);
    expect(broker.topic('unit').texts).toEqual(upTo(5));
  });
});
