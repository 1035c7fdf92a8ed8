import { randomBytes } from 'node:crypto';
import { inflateSync } from 'node:zlib';
import { type CryptoKeyReader, type ProducerEvents, type PulsarProducer, pemKeys } from '../../../lib/pulsar/index.js';
import { batchTexts, decrypt, rsaPair, storedFrames } from './support/stored.js';
import { PulsarWorld, received, text } from './support/world.js';

const ours = rsaPair();
const theirs = rsaPair();
const keyReader = pemKeys({ ours: ours.publicKey, theirs: theirs.publicKey });

/** A key reader that works when it is told to. */
function vault(): CryptoKeyReader & { open: boolean; reads: number } {
  return {
    open: true,
    reads: 0,
    async getPublicKey() {
      this.reads += 1;
      if (!this.open) throw new Error('the vault is closed');
      return { key: ours.publicKey };
    },
  };
}

function failures(producer: PulsarProducer): ProducerEvents['encryptionFailed'][] {
  const seen: ProducerEvents['encryptionFailed'][] = [];
  producer.on('encryptionFailed', (event) => seen.push(event));
  return seen;
}

describe('encryption of a producer', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('is announced, and seals batches and messages for each of the keys', async () => {
    const broker = await world.broker();
    broker.topic('unit').encryptionRequired = true;
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', encryption: { keys: ['ours', 'theirs'], keyReader }, compression: 'zlib' });
    const messages = ['a', 'b'].map((value) => producer.send({ ...text(value), properties: { in: 'the clear?' } }));
    await Promise.all([...messages, producer.send({ ...text('alone'), key: 'k', disableBatching: true })]);
    const [batch, single] = storedFrames(broker, 'unit');
    for (const [name, pair] of [['ours', ours] as const, ['theirs', theirs] as const]) {
      expect(batchTexts(inflateSync(decrypt(batch, name, pair)))).toEqual(['a', 'b']);
      expect(inflateSync(decrypt(single, name, pair)).toString()).toBe('alone');
    }
    expect(batch.metadata).toMatchObject({ compression: 2, numMessagesInBatch: 2, highestSequenceId: '1' });
    expect(batch.metadata.uncompressedSize).toBe(inflateSync(decrypt(batch, 'ours', ours)).length);
    expect(broker.violations).toEqual([]);
  });

  it('seals each chunk of a large message, and takes the keys into account for their size', async () => {
    const broker = await world.broker({ maxMessageSize: 4096 });
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      chunking: true,
      encryption: { keys: ['ours', 'theirs'], keyReader },
    });
    // The last one fits into a frame, but not beside its keys.
    const payloads = [randomBytes(20_000), randomBytes(3500)];
    await Promise.all(payloads.map((payload) => producer.send({ payload })));
    const frames = storedFrames(broker, 'unit');
    const chunks = (id: string): typeof frames => frames.filter(({ metadata }) => metadata.uuid === id);
    for (const [index, payload] of payloads.entries()) {
      const parts = chunks(`${producer.name}-${index}`);
      expect(parts.length).toBeGreaterThan(1);
      expect(parts.map(({ metadata }) => metadata.uncompressedSize)).toEqual(parts.map(() => payload.length));
      expect(Buffer.concat(parts.map((part) => decrypt(part, 'theirs', theirs)))).toEqual(payload);
    }
    expect(producer.stats).toMatchObject({ pendingMessages: 0, pendingBytes: 0, succeeded: 2 });
    expect(broker.violations).toEqual([]);
  });

  it('does not make the producer if a key cannot be had, and connects to nobody', async () => {
    const broker = await world.broker();
    const creating = world
      .client(broker)
      .createProducer({ topic: 'unit', encryption: { keys: ['ours', 'missing'], keyReader } });
    await expect(creating).rejects.toMatchObject({
      code: 'ERR_ENCRYPTION',
      message: expect.stringContaining("'missing' cannot be used: No key 'missing'"),
    });
    expect(broker.allConnections).toEqual([]);
  });

  it('takes a new data key and the newest public keys every rotateAfter', async () => {
    const broker = await world.broker();
    let current = ours;
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      encryption: { keys: ['k'], keyReader: { getPublicKey: () => ({ key: current.publicKey }) }, rotateAfter: 20 },
    });
    await producer.send(text('first'));
    current = theirs;
    await eventually(async () => {
      await producer.send(text('second'));
      const last = storedFrames(broker, 'unit').at(-1)!;
      expect(batchTexts(decrypt(last, 'k', theirs))).toEqual(['second']);
    });
    const [first] = storedFrames(broker, 'unit');
    expect(batchTexts(decrypt(first, 'k', ours))).toEqual(['first']);
  });

  it('keeps the old keys while a rotation fails, tells so, and tries again', async () => {
    const broker = await world.broker();
    const reader = vault();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', encryption: { keys: ['k'], keyReader: reader, rotateAfter: 10 } });
    const seen = failures(producer);
    reader.open = false;
    await eventually(async () => expect(seen.length).toBeGreaterThan(1));
    expect(seen[0]).toMatchObject({
      inTheClear: false,
      cause: { code: 'ERR_ENCRYPTION', message: expect.stringContaining('the vault is closed') },
    });
    await producer.send(text('sealed'));
    expect(batchTexts(decrypt(storedFrames(broker, 'unit')[0], 'k', ours))).toEqual(['sealed']);
  });

  it('sends in the clear, where that is asked for, until the keys are there', async () => {
    const broker = await world.broker();
    const reader = vault();
    reader.open = false;
    const producer = await world.client(broker).createProducer({
      topic: 'unit',
      encryption: { keys: ['k'], keyReader: reader, failureAction: 'send', rotateAfter: 60_000 },
    });
    const seen = failures(producer);
    await producer.send(text('open'));
    // The first failure is heard too, though it happened before anybody could listen.
    await eventually(async () => expect(seen).toMatchObject([{ inTheClear: true, cause: { retriable: true } }]));
    expect(reader.reads).toBe(1);
    reader.open = true;
    await eventually(async () => {
      await producer.send(text('sealed'));
      expect(storedFrames(broker, 'unit').at(-1)!.metadata.encryptionKeys).toBeDefined();
    });
    const frames = storedFrames(broker, 'unit');
    expect(batchTexts(frames[0].payload)).toEqual(['open']);
    expect(batchTexts(decrypt(frames.at(-1)!, 'k', ours))).toEqual(['sealed']);
  });

  it('announces no encryption that it does not have: a topic that requires it refuses the producer, not each message', async () => {
    const broker = await world.broker();
    const announced = (): unknown[] =>
      broker.log.entries
        .filter(({ direction, type }) => direction === 'in' && type === 'producer')
        .map(({ packet }) => (packet as { encrypted?: boolean }).encrypted);
    const client = world.client(broker);
    const reader = vault();
    const encryption = { keys: ['k'], keyReader: reader, failureAction: 'send' as const };
    await client.createProducer({ topic: 'with', encryption });
    reader.open = false;
    await client.createProducer({ topic: 'without', encryption });
    await client.createProducer({ topic: 'none' });
    expect(announced().map((value) => value ?? false)).toEqual([true, false, false]);
  });

  it('reads no keys any more once it is closed', async () => {
    const broker = await world.broker();
    const reader = vault();
    const producer = await world
      .client(broker)
      .createProducer({ topic: 'unit', encryption: { keys: ['k'], keyReader: reader, rotateAfter: 5 } });
    await eventually(async () => expect(reader.reads).toBeGreaterThan(2));
    await producer.close();
    const { reads } = reader;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(reader.reads - reads).toBeLessThanOrEqual(1);
    expect(received(broker, 'closeProducer')).toBe(1);
  });
});

/** Until it no longer throws. */
async function eventually(check: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 15_000; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}
