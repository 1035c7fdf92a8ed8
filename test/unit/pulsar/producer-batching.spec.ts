import { type ProducerMessage, type PulsarProducer } from '../../../lib/pulsar/index.js';
import { openBatch } from './codec/support.js';
import { sendCommands, type StoredFrame, storedFrames } from './support/stored.js';
import { PulsarWorld, text } from './support/world.js';

/** A frame as text: `A0,A1` for a batch, `A0!` for an entry of its own, with the sequence ids as they are stored. */
function described({ metadata, payload }: StoredFrame): string {
  if (metadata.numMessagesInBatch === undefined) return `${payload.toString()}${metadata.sequenceId}!`;
  const entries = openBatch(payload);
  expect(entries).toHaveLength(metadata.numMessagesInBatch as number);
  expect(entries[0].metadata.sequenceId).toBe(metadata.sequenceId);
  expect(entries.at(-1)!.metadata.sequenceId).toBe(metadata.highestSequenceId);
  return entries.map((entry) => `${entry.payload.toString()}${entry.metadata.sequenceId}`).join(',');
}

const keyed = (key: string, sequenceId?: number): ProducerMessage => ({
  ...text(key),
  key,
  ...(sequenceId !== undefined && { sequenceId }),
});

/** All in one turn, so that they share a batch if they can. */
const sendAll = (producer: PulsarProducer, messages: readonly ProducerMessage[]): Promise<unknown> =>
  Promise.all(messages.map((message) => producer.send(message)));

describe('batches', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('name the first and the highest sequence id, in the command and in the metadata', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await sendAll(producer, [text('a'), text('b'), text('c')]);
    await sendAll(producer, [text('d')]);
    await sendAll(producer, [{ ...text('e'), sequenceId: 10 }, { ...text('f'), sequenceId: 20 }, text('g')]);
    expect(storedFrames(broker, 'unit').map(described)).toEqual(['a0,b1,c2', 'd3', 'e10,f20,g21']);
    expect(sendCommands(broker).map((send) => [send.sequenceId, send.highestSequenceId, send.numMessages])).toEqual([
      [0, 2, 3],
      [3, 3, 1],
      [10, 21, 3],
    ]);
  });

  it('carry key, properties and times of each message, and tell a tombstone from an empty payload', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await sendAll(producer, [
      { payload: Buffer.from('x'), properties: { a: '1', b: '' }, eventTime: 1_700_000_000_000 },
      { payload: null, key: 'gone' },
      { payload: Buffer.alloc(0), keyBytes: Buffer.of(0, 255) },
      { payload: Buffer.from('y'), key: 'k', orderingKey: Buffer.from('o') },
    ]);
    const [{ payload }] = storedFrames(broker, 'unit');
    expect(openBatch(payload).map((entry) => [entry.payload.toString(), entry.metadata])).toEqual([
      [
        'x',
        {
          payloadSize: 1,
          sequenceId: '0',
          eventTime: '1700000000000',
          properties: [
            { key: 'a', value: '1' },
            { key: 'b', value: '' },
          ],
        },
      ],
      ['', { payloadSize: 0, sequenceId: '1', partitionKey: 'gone', nullValue: true }],
      ['', { payloadSize: 0, sequenceId: '2', partitionKey: 'AP8=', partitionKeyB64Encoded: true }],
      ['y', { payloadSize: 1, sequenceId: '3', partitionKey: 'k', orderingKey: Buffer.from('o') }],
    ]);
  });

  it('are sealed before a message that cannot join, which goes out behind them', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: { maxBytes: 1000 } });
    const before = Date.now();
    await sendAll(producer, [
      text('a'),
      { ...text('alone'), disableBatching: true },
      text('b'),
      { ...text('at'), deliverAt: 2_000_000_000_000 },
      text('c'),
      { ...text('after'), deliverAfter: 60_000 },
      text('d'),
      { ...text('there'), replicationClusters: ['east', 'west'] },
      { ...text('nowhere'), replicationClusters: [] },
      text('e'),
      { ...text('large'.repeat(300)), key: 'large' },
      text('f'),
    ]);
    const frames = storedFrames(broker, 'unit');
    expect(frames.map(described)).toEqual([
      'a0',
      'alone1!',
      'b2',
      'at3!',
      'c4',
      'after5!',
      'd6',
      'there7!',
      'nowhere8!',
      'e9',
      `${'large'.repeat(300)}10!`,
      'f11',
    ]);
    const metadata = frames.map((frame) => frame.metadata);
    expect(metadata[3].deliverAtTime).toBe('2000000000000');
    const due = Number(metadata[5].deliverAtTime);
    expect([due >= before + 60_000, due <= Date.now() + 60_000]).toEqual([true, true]);
    expect(metadata.map(({ replicateTo }) => replicateTo as unknown)).toEqual([
      ...Array.from({ length: 7 }, () => undefined),
      ['east', 'west'],
      ['__local__'],
      ...Array.from({ length: 3 }, () => undefined),
    ]);
  });

  it('are bounded by messages and by bytes', async () => {
    const broker = await world.broker();
    const client = world.client(broker);
    const few = await client.createProducer({ topic: 'few', batching: { maxMessages: 2 } });
    await sendAll(few, ['a', 'b', 'c', 'd', 'e'].map(text));
    expect(storedFrames(broker, 'few').map(described)).toEqual(['a0,b1', 'c2,d3', 'e4']);
    const small = await client.createProducer({ topic: 'small', batching: { maxBytes: 1000 } });
    await sendAll(
      small,
      Array.from({ length: 10 }, () => ({ payload: Buffer.alloc(300) })),
    );
    for (const { metadata, payload } of storedFrames(broker, 'small')) {
      expect(payload.length).toBeLessThanOrEqual(1000);
      expect(metadata.numMessagesInBatch).toBeGreaterThan(1);
    }
  });

  it('do not exist without batching, nor have single messages anything of a batch', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    await sendAll(producer, [text('a'), { payload: null, key: 'k' }, { payload: Buffer.alloc(0) }]);
    const frames = storedFrames(broker, 'unit');
    expect(frames.map(described)).toEqual(['a0!', '1!', '2!']);
    for (const { metadata } of frames) {
      expect([metadata.numMessagesInBatch, metadata.highestSequenceId]).toEqual([undefined, undefined]);
    }
    expect(frames.map(({ metadata }) => [metadata.nullValue, metadata.partitionKey])).toEqual([
      [undefined, undefined],
      [true, 'k'],
      [undefined, undefined],
    ]);
  });
});

describe('batches by key', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('hold one key each, in the order of the calls, and say which', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: { type: 'keyBased' } });
    await sendAll(
      producer,
      ['A', 'B', 'A', 'C', 'B', 'A'].map((key) => keyed(key)),
    );
    const frames = storedFrames(broker, 'unit');
    expect(frames.map(described)).toEqual(['A0,A1,A2', 'B3,B4', 'C5']);
    expect(frames.map(({ metadata }) => metadata.partitionKey as string)).toEqual(['A', 'B', 'C']);
  });

  it('go by the ordering key before the key, by bytes as by text, and together without any', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: { type: 'keyBased' } });
    await sendAll(producer, [
      { ...text('a'), key: 'one', orderingKey: Buffer.from('o') },
      text('none'),
      { ...text('b'), key: 'two', orderingKey: Buffer.from('o') },
      { ...text('c'), key: 'o' },
      text('none'),
      { ...text('d'), keyBytes: Buffer.from('o') },
    ]);
    const frames = storedFrames(broker, 'unit');
    expect(frames.map(described)).toEqual(['a0,b1,c2,d3', 'none4,none5']);
    expect(frames[0].metadata.orderingKey).toEqual(Buffer.from('o'));
  });

  it('never have ids of the caller that lie between each other: a broker with deduplication would drop a batch', async () => {
    const broker = await world.broker();
    broker.topic('unit').deduplication = true;
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', name: 'p', batching: { type: 'keyBased' } });
    await sendAll(producer, [keyed('A', 0), keyed('B', 1), keyed('A', 2), keyed('B', 3), keyed('B', 4), keyed('B', 5)]);
    const frames = storedFrames(broker, 'unit');
    expect(frames.map(described)).toEqual(['A0', 'B1', 'A2', 'B3,B4,B5']);
    expect(broker.topic('unit').deduplicated).toBe(0);
  });

  it('are full as a whole, and sealed together before a message that cannot join', async () => {
    const broker = await world.broker();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', batching: { type: 'keyBased', maxMessages: 4 } });
    await sendAll(producer, [
      ...['A', 'B', 'A', 'B', 'A', 'B'].map((key) => keyed(key)),
      { ...keyed('A'), disableBatching: true },
      keyed('B'),
    ]);
    expect(storedFrames(broker, 'unit').map(described)).toEqual(['A0,A1', 'B2,B3', 'A4', 'B5', 'A6!', 'B7']);
  });
});
