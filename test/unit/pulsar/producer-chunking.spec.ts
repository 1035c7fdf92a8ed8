import { type InMemoryPulsarBroker } from '../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** Messages larger than a chunk may be, through the whole client; permits and memory: go-client-bugs/permits. */
describe('chunked messages', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());
  const CHUNKED = { topic: 'unit', batching: false, chunking: true, maxChunkBytes: 2_000 } as const;
  const large = (bytes: number, fill = 'x'): { readonly payload: Buffer } => ({ payload: Buffer.alloc(bytes, fill) });
  const assembled = (broker: InMemoryPulsarBroker): string[] =>
    broker.topic('unit').assembled.map(({ payload }) => `${payload!.length} ${payload!.toString().slice(0, 1)}`);

  it('are put together again, among ordinary ones, with the place of the first and the last chunk', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ ...CHUNKED, batching: true });
    const [, chunked] = await Promise.all([
      producer.send(text('before')),
      producer.send({ ...large(7_000), key: 'device', properties: { a: 'b' } }),
      producer.send(text('behind')),
    ]);
    expect(assembled(broker)).toEqual(['6 b', '7000 x', '6 b']);
    const chunks = broker.topic('unit').messages.filter(({ chunk }) => chunk !== undefined);
    expect(new Set(chunks.map(({ chunk }) => chunk!.uuid)).size).toBe(1);
    expect(chunks.map(({ chunk }) => chunk!.id)).toEqual([...chunks.keys()]);
    expect(chunks.every(({ key, properties }) => key === 'device' && properties['a'] === 'b')).toBe(true);
    expect(chunked.messageId.entryId).toBe(chunks.at(-1)!.entryId);
    expect(chunked.messageId.firstChunk!.entryId).toBe(chunks[0].entryId);
  });

  it('fail with both sizes where chunking is off, and nothing is written', async () => {
    const broker = await world.broker({ maxMessageSize: 4_000 });
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await expect(producer.send(large(7_000))).rejects.toMatchObject({
      code: 'ERR_MESSAGE_TOO_LARGE',
      limit: 4_000,
      ambiguous: false,
    });
    expect(received(broker, 'send')).toBe(0);
  });

  it.each([false, true])(
    'survive a cut between their chunks (deduplication: %s), complete and in order',
    async (on) => {
      const broker = await world.broker();
      broker.cluster.deduplication = on;
      const producer = await world.client(broker).createProducer({ ...CHUNKED, name: 'gateway' });
      let sends = 0;
      broker.onReceive((type, _body, connection) => {
        if (type !== 'send' || ++sends !== 7) return undefined;
        connection.cut();
        return 'ignore';
      });
      const results = await Promise.all([
        producer.send(large(7_000, 'a')),
        producer.send(large(7_000, 'b')),
        producer.send(text('c')),
      ]);
      expect(results.map(({ sequenceId }) => sequenceId)).toEqual([0, 1, 2]);
      const whole = assembled(broker);
      expect(on ? whole : whole.filter((value, index) => whole.indexOf(value) === index)).toEqual([
        '7000 a',
        '7000 b',
        '1 c',
      ]);
      expect(producer.stats).toMatchObject({ connects: 2, pendingMessages: 0, pendingBytes: 0, failed: 0 });
    },
  );

  it('of which the last is dropped as a duplicate settle once, though its receipt overtakes those of the others', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    const producer = await world.client(broker).createProducer({ ...CHUNKED, name: 'gateway' });
    broker.holdReceipts();
    const sends = [
      producer.send(large(7_000, 'a')),
      producer.send(text('b')),
      producer.send(large(7_000, 'c')),
      producer.send(text('d')),
    ];
    await broker.waitFor(() => received(broker, 'send') === 10);
    // Everything is stored and nothing was told. What is stored once more is told later than what is dropped.
    broker.cut();
    const late: (() => void)[] = [];
    broker.onSend((command, connection) => {
      if (command.type !== 'sendReceipt' || command.body.messageId?.ledgerId === -1) return undefined;
      late.push(() => connection.send('sendReceipt', command.body));
      return 'withhold';
    });
    await broker.waitFor(() => received(broker, 'send') === 20);
    broker.releaseReceipts();
    await broker.waitFor(() => late.length === 6);
    for (const tell of late) tell();
    const results = await Promise.all(sends);
    expect(results.map(({ deduplicated }) => deduplicated)).toEqual([true, true, true, true]);
    // Not one reconnect more: the receipts were understood.
    expect(producer.stats).toMatchObject({ connects: 2, resentFrames: 10, deduplicated: 4, pendingMessages: 0 });
    expect(assembled(broker)).toEqual(['7000 a', '1 b', '7000 c', '1 d']);
  });

  it('of a message that is torn, as a broker leaves it that loads the topic in the middle of one, are no success', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    const producer = await world.client(broker).createProducer({ ...CHUNKED, name: 'gateway' });
    await producer.send(text('a'));
    let chunks = 0;
    const ignoring = broker.onReceive((type) => (type === 'send' && ++chunks > 2 ? 'ignore' : undefined));
    broker.holdReceipts();
    const torn = producer.send(large(7_000, 'b'));
    await broker.waitFor(() => chunks === 4);
    ignoring();
    // What 4.0.7 knows after it has read the two chunks again.
    broker.topic('unit').lastSequenceIds.set('gateway', 1);
    broker.cut();
    broker.releaseReceipts();
    await expect(torn).rejects.toMatchObject({ code: 'ERR_DEDUPLICATED', ambiguous: true, retriable: true });
    expect(assembled(broker)).toEqual(['1 a']);
    // The same message once more has an id of its own.
    await expect(producer.send(large(7_000, 'b'))).resolves.toMatchObject({ deduplicated: false, sequenceId: 2 });
    expect(assembled(broker)).toEqual(['1 a', '7000 b']);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, possibleDuplicates: 1 });
  });

  it('of which several were refused are not called stored when the last is dropped afterwards', async () => {
    const broker = await world.broker();
    broker.cluster.deduplication = true;
    const producer = await world.client(broker).createProducer({ ...CHUNKED, name: 'gateway' });
    let sends = 0;
    broker.onReceive((type, body, connection) => {
      if (type !== 'send' || ![1, 4].includes(++sends)) return undefined;
      // Chunks 0 and 3; the broker names the message, so both refusals look the same.
      const { producerId, sequenceId } = body as { producerId: number; sequenceId: number };
      connection.send('sendError', { producerId, sequenceId, error: 9, message: 'Checksum failed on the broker' });
      return 'ignore';
    });
    const results = await Promise.allSettled([
      producer.send(large(7_000, 'a')),
      producer.send(text('b')),
      producer.send(text('c')),
    ]);
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: 'ERR_DEDUPLICATED', ambiguous: true } },
      { status: 'fulfilled' },
      { status: 'fulfilled' },
    ]);
    expect(assembled(broker)).toEqual(['1 b', '1 c']);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0 });
  });
});
