import { PulsarWorld, received, text } from '../support/world.js';

// Row 20 (apache/pulsar-client-go #1051, #1055, #1448, apache/pulsar #13454, #16837, #17795): permits and memory of chunks
// were not given back after a failure; a message with more chunks than permits waited for ever, and everybody behind it.
describe('permits and memory of chunks', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());
  const CHUNKED = { topic: 'unit', batching: false, chunking: true, maxChunkBytes: 2_000 } as const;
  const large = (bytes: number): { readonly payload: Buffer } => ({ payload: Buffer.alloc(bytes, 7) });

  it('a message with more chunks than permits is refused at once, and nobody waits behind it', async () => {
    const broker = await world.broker();
    const client = world.client(broker);
    const producer = await client.createProducer({ ...CHUNKED, maxPendingMessages: 4 });
    const sends = [producer.send(text('before')), producer.send(large(20_000)), producer.send(text('behind'))];
    const [before, refused, behind] = await Promise.allSettled(sends);
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'ERR_MESSAGE_TOO_LARGE' } });
    expect([before.status, behind.status]).toEqual(['fulfilled', 'fulfilled']);
    expect(broker.topic('unit').texts).toEqual(['before', 'behind']);
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    expect(client.memory.used).toBe(0);
  });

  it('two messages that need all permits each take turns: all or none, no deadlock', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ ...CHUNKED, maxPendingMessages: 6 });
    const sends = Array.from({ length: 6 }, () => producer.send(large(5_500)));
    await Promise.all(sends);
    expect(broker.topic('unit').assembled).toHaveLength(6);
    // The chunks of one message stand together.
    const order = broker.topic('unit').messages.map(({ chunk }) => chunk!.uuid);
    expect(order).toEqual([...order].sort((a, b) => order.indexOf(a) - order.indexOf(b)));
  });

  it.each([
    ['a refusal of the broker', 'NotAllowedError'],
    ['the end of the topic', 'TopicTerminatedError'],
  ] as const)('everything is given back after %s in the middle of the chunks', async (_name, error) => {
    const broker = await world.broker();
    const client = world.client(broker);
    const producer = await client.createProducer({ ...CHUNKED, maxPendingMessages: 10 });
    let chunks = 0;
    broker.onReceive((type, body, connection) => {
      if (type !== 'send' || ++chunks !== 3) return undefined;
      const { producerId, sequenceId } = body as { producerId: number; sequenceId: number };
      const code = error === 'NotAllowedError' ? 22 : 15;
      connection.send('sendError', { producerId, sequenceId, error: code, message: 'scripted' });
      return 'ignore';
    });
    broker.holdReceipts();
    const send = producer.send(large(8_000));
    await expect(send).rejects.toMatchObject({ code: error === 'NotAllowedError' ? 'ERR_BROKER' : 'ERR_TERMINATED' });
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    expect(client.memory.used).toBe(0);
  });

  it('everything is given back after a timeout and after close(), and later messages have room', async () => {
    const broker = await world.broker();
    const client = world.client(broker);
    const producer = await client.createProducer({ ...CHUNKED, maxPendingMessages: 6, sendTimeout: 100 });
    const restore = broker.withhold('sendReceipt');
    await expect(producer.send(large(8_000))).rejects.toMatchObject({ code: 'ERR_SEND_TIMEOUT' });
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0 });
    restore();
    await producer.send(large(8_000));
    broker.withhold('sendReceipt');
    const failed = expect(producer.send(large(8_000))).rejects.toMatchObject({ ambiguous: true });
    await broker.waitFor(() => received(broker, 'send') >= 15);
    await producer.close({ timeout: 10 });
    await failed;
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
    expect(client.memory.used).toBe(0);
  });
});
