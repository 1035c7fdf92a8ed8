/** What we send while the topic is unloaded again and again, read by clients that are not ours: nothing lost, nothing torn. */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pemFiles, type ProducerMessage, type ProducerOptions } from '../../lib/pulsar/index.js';
import { CrossWorld, describeWithReaders } from '../cross/world.js';
import { unique } from './harness.js';

const MESSAGES = 300;
const UNLOADS = 6;

describeWithReaders('unloads while sending, read by the Java and the Go client', () => {
  let world: CrossWorld;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cross-'));
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    writeFileSync(join(folder, 'public.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
    writeFileSync(join(folder, 'private.pem'), privateKey.export({ type: 'pkcs1', format: 'pem' }));
    world = await CrossWorld.open();
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await world?.close();
  });

  /** Every tenth one is large: several chunks where chunking is on. */
  const messageOf = (index: number, large: number): ProducerMessage => ({
    payload: Buffer.concat([Buffer.from(`${index}:`), randomBytes(index % 10 === 9 ? large : 200)]),
    key: `key-${index % 7}`,
  });

  it.each<[string, boolean, Partial<ProducerOptions>, number]>([
    ['compressed batches with deduplication', true, { compression: 'lz4' }, 1000],
    ['encrypted batches of one key each with deduplication', true, { batching: { type: 'keyBased' } }, 1000],
    ['chunks with deduplication', true, { chunking: true, maxChunkBytes: 50_000, batching: false }, 400_000],
    ['encrypted, compressed chunks', false, { chunking: true, maxChunkBytes: 50_000, compression: 'zstd' }, 400_000],
  ])('%s', async (what, deduplication, options, large) => {
    const namespace = `public/${unique('outage')}`;
    await world.admin.createNamespace(namespace);
    if (deduplication) await world.admin.setNamespaceDeduplication(namespace, true);
    const topic = `persistent://${namespace}/topic`;
    const encrypted = what.startsWith('encrypted');
    const keyReader = pemFiles({ ours: join(folder, 'public.pem') });
    const producer = await world.client.createProducer({
      topic,
      name: 'ours',
      ...(encrypted && { encryption: { keys: ['ours'], keyReader } }),
      ...options,
    });
    let connects = 0;
    producer.on('connected', () => (connects += 1));

    const sent: Promise<unknown>[] = [];
    const digests: string[] = [];
    for (let index = 0; index < MESSAGES; index++) {
      const message = messageOf(index, large);
      digests.push(digest(message.payload!));
      sent.push(producer.send(message));
      if (index % (MESSAGES / UNLOADS) === MESSAGES / UNLOADS - 1) await world.admin.unload(topic);
      else if (index % 10 === 0) await sleep(5);
    }
    await Promise.all(sent);
    expect(connects).toBeGreaterThan(0);
    expect(producer.stats).toMatchObject({ succeeded: MESSAGES, failed: 0, pendingMessages: 0, pendingBytes: 0 });
    await producer.close();

    const privateKeys = encrypted ? { privateKeys: { ours: join(folder, 'private.pem') } } : {};
    for (const language of ['java', 'go'] as const) {
      const found = await world.read(language, { topic, count: -1, ...privateKeys });
      const payloads = found.map(({ payload }) => Buffer.from(payload ?? '', 'base64'));
      const got = payloads.map(
        (payload) => `${payload.subarray(0, payload.indexOf(':')).toString()} ${digest(payload)}`,
      );
      const once = [...new Set(got)];
      if (deduplication) expect(got).toHaveLength(once.length);
      const expected = digests.map((sum, index) => `${index} ${sum}`);
      // Batches of one key each keep the order of the key only.
      const keyBased = typeof options.batching === 'object';
      for (let key = 0; key < (keyBased ? 7 : 1); key++) {
        const mine = (line: string): boolean => !keyBased || Number.parseInt(line, 10) % 7 === key;
        expect([language, ...once.filter(mine)]).toEqual([language, ...expected.filter(mine)]);
      }
    }
  });
});

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
