import { type InMemoryPulsarBroker } from '../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text, watch } from './support/world.js';

interface ProducerCommand {
  readonly epoch?: unknown;
  readonly producerName?: string;
}

const producerCommands = (broker: InMemoryPulsarBroker): ProducerCommand[] =>
  broker.log.entries
    .filter(({ direction, type }) => direction === 'in' && type === 'producer')
    .map(({ packet }) => packet as ProducerCommand);

describe('access modes', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each(['shared', 'exclusive'] as const)('exclusive: fails at once where a %s producer is', async (accessMode) => {
    const broker = await world.broker();
    const first = await world.client(broker).createProducer({ topic: 'unit', accessMode });
    const second = world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive' });
    await expect(second).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    expect(received(broker, 'producer')).toBe(2);
    await first.send(text('still here'));
    expect(broker.topic('unit').texts).toEqual(['still here']);
  });

  it('exclusive: fails at once and clearly where the broker answers ProducerBusy', async () => {
    const broker = await world.broker();
    broker.failNext('producer', 'ProducerBusy', 'Topic reached max producers limit', 100);
    const created = world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive' });
    await expect(created).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false, ambiguous: false });
    await expect(created).rejects.toThrow(
      /'persistent:\/\/public\/default\/unit' has another producer.*'waitForExclusive' does.*max producers/,
    );
    expect(received(broker, 'producer')).toBe(1);
  });

  it('shared: tries ProducerBusy again, as who is there may leave', async () => {
    const broker = await world.broker();
    const first = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive' });
    const second = world.client(broker).createProducer({ topic: 'unit' });
    await broker.waitFor(() => received(broker, 'producer') >= 3);
    await first.close();
    await (await second).send(text('a'));
    expect(broker.topic('unit').texts).toEqual(['a']);
  });

  it('exclusive: keeps its place over lost connections, and over ProducerBusy of a link the broker still has', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', name: 'mine', accessMode: 'exclusive', batching: false });
    broker.holdReceipts();
    const send = producer.send(text('a'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.failNext('producer', 'ProducerBusy', "Producer with name 'mine' is already connected to topic", 3);
    broker.cut();
    await broker.waitFor(() => received(broker, 'producer') === 5);
    broker.releaseReceipts();
    await send;
    const commands = producerCommands(broker);
    expect(commands.map(({ producerName }) => producerName)).toEqual(Array(5).fill('mine'));
    const epochs = commands.map(({ epoch }) => Number(epoch));
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
  });

  it('exclusive: is not fenced by its own half-open link, which the broker takes for a living producer', async () => {
    const broker = await world.broker({ keepAliveInterval: 150 });
    const client = world.client(broker, { keepAlive: 50 });
    const producer = await client.createProducer({ topic: 'unit', accessMode: 'exclusive', batching: false });
    const ends: unknown[] = [];
    producer.on('terminated', (event) => ends.push(event));
    await producer.send(text('before'));
    broker.stall({ reads: true });
    await producer.send(text('during'));
    expect(broker.topic('unit').texts).toEqual(['before', 'during']);
    // It had been refused: at least one try in vain.
    expect(broker.log.entries.filter(({ direction, type }) => direction === 'out' && type === 'error')).not.toEqual([]);
    expect(producer.stats.connects).toBe(2);
    expect(ends).toEqual([]);
  });

  it('exclusive: is fenced at once by another name that came while it was away', async () => {
    const broker = await world.broker();
    const options = { topic: 'unit', accessMode: 'exclusive', batching: false } as const;
    const producer = await world.client(broker).createProducer({ ...options, name: 'mine' });
    broker.failNext('producer', 'ProducerFenced', 'Topic has an existing exclusive producer: yours');
    broker.cut();
    await broker.waitFor(() => producer.state === 'terminated');
    await expect(producer.send(text('late'))).rejects.toMatchObject({ code: 'ERR_FENCED' });
    expect(received(broker, 'producer')).toBe(2);
  });

  it('recovers from a half-open link: the broker lets the new one in once the old one is known to be dead', async () => {
    const broker = await world.broker({ livenessTimeout: 150 });
    const client = world.client(broker, { keepAlive: 50 });
    const producer = await client.createProducer({ topic: 'unit', name: 'mine', batching: false });
    await producer.send(text('before'));
    // The broker reads nothing any more, not even that we are gone.
    broker.stall({ reads: true });
    const send = producer.send(text('during'));
    await send;
    expect(producer.stats).toMatchObject({ connects: 2, resentFrames: 1 });
    expect(broker.topic('unit').texts).toEqual(['before', 'during']);
    const epochs = producerCommands(broker).map(({ epoch }) => Number(epoch));
    expect(epochs.at(-1)).toBeGreaterThan(epochs[0]);
  });

  it('waitForExclusive: waits without a limit of time, then sends what was submitted meanwhile', async () => {
    const broker = await world.broker();
    const first = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive' });
    const created = world
      .client(broker, { createTimeout: 100, operationTimeout: 100 })
      .createProducer({ topic: 'unit', accessMode: 'waitForExclusive' });
    const waiting = watch(created);
    await broker.waitFor(() => received(broker, 'producer') === 2);
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(waiting.state).toBe('pending');
    await first.send(text('first'));
    await first.close();
    const second = await created;
    await second.send(text('second'));
    expect(broker.topic('unit').texts).toEqual(['first', 'second']);
    expect(received(broker, 'producer')).toBe(2);
  });

  it('exclusiveWithFencing: takes over; the fenced one ends at once with everything it had, and dials no more', async () => {
    const broker = await world.broker();
    const old = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive', batching: false });
    const ends: unknown[] = [];
    old.on('terminated', ({ cause }) => ends.push(cause.code));
    const taker = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusiveWithFencing' });
    // It is told nothing: its next SEND ends its connection, and on the next one it is fenced.
    const results = await Promise.allSettled([old.send(text('x')), old.send(text('y'))]);
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: 'ERR_FENCED', retriable: false } },
      { status: 'rejected', reason: { code: 'ERR_FENCED', retriable: false } },
    ]);
    expect(ends).toEqual(['ERR_FENCED']);
    expect(old.state).toBe('terminated');
    const tries = received(broker, 'producer');
    await expect(old.send(text('z'))).rejects.toMatchObject({ code: 'ERR_FENCED', ambiguous: false });
    await taker.send(text('taken'));
    expect(broker.topic('unit').texts).toEqual(['taken']);
    expect(received(broker, 'producer')).toBe(tries);
    expect(old.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, waitingMessages: 0 });
  });

  it('exclusiveWithFencing: one that was fenced by another does not take the topic back', async () => {
    const broker = await world.broker();
    const options = { topic: 'unit', accessMode: 'exclusiveWithFencing', batching: false } as const;
    const old = await world.client(broker).createProducer({ ...options, name: 'old' });
    await old.send(text('a'));
    // Its own reconnect is no rival.
    broker.cut();
    await old.send(text('b'));
    const heir = await world.client(broker).createProducer({ ...options, name: 'heir' });
    await heir.send(text('c'));
    await expect(old.send(text('lost'))).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    expect(old.state).toBe('terminated');
    const tries = producerCommands(broker).filter(({ producerName }) => producerName === 'old').length;
    await heir.send(text('d'));
    expect(heir.state).toBe('ready');
    expect([...new Set(broker.topic('unit').texts)]).toEqual(['a', 'b', 'c', 'd']);
    expect(producerCommands(broker).filter(({ producerName }) => producerName === 'old')).toHaveLength(tries);
  });

  it('waitForExclusive: one in line is fenced by who takes the topic over', async () => {
    const broker = await world.broker();
    const first = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusive' });
    const waiting = world.client(broker).createProducer({ topic: 'unit', accessMode: 'waitForExclusive' });
    const refused = expect(waiting).rejects.toMatchObject({ code: 'ERR_FENCED', retriable: false });
    await broker.waitFor(() => received(broker, 'producer') === 2);
    const taker = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'exclusiveWithFencing' });
    await refused;
    await taker.send(text('taken'));
    await expect(first.send(text('late'))).rejects.toMatchObject({ code: 'ERR_FENCED' });
    expect(broker.topic('unit').texts).toEqual(['taken']);
  });
});
