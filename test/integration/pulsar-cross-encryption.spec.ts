/** What we encrypt, decrypted by clients that are not ours. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pemFiles, type ProducerMessage, type ProducerOptions, PulsarClient } from '../../lib/pulsar/index.js';
import { CrossWorld, describeWithReaders } from '../cross/world.js';
import { integrationBrokers, unique, until } from './harness.js';

describeWithReaders('end-to-end encryption, read by the Java and the Go client', () => {
  let world: CrossWorld;
  let folder: string;
  const file = (name: string): string => join(folder, `${name}.pem`);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cross-'));
    for (const name of ['ours', 'theirs']) {
      const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
      writeFileSync(file(`${name}-public`), publicKey.export({ type: 'spki', format: 'pem' }));
      writeFileSync(file(name), privateKey.export({ type: 'pkcs1', format: 'pem' }));
    }
    world = await CrossWorld.open();
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await world?.close();
  });

  const keyReader = (): ReturnType<typeof pemFiles> =>
    pemFiles({ ours: file('ours-public'), theirs: file('theirs-public') });

  // Not an empty payload: the Go client hands out its ciphertext (its size before encryption is 0).
  const small: readonly ProducerMessage[] = [
    { payload: Buffer.from('first'), properties: { seen: 'by the broker' }, eventTime: 1_700_000_000_000 },
    { payload: Buffer.from('second'), key: 'k', orderingKey: Buffer.from('o') },
    { payload: randomBytes(900) },
  ];
  const large: ProducerMessage = { payload: randomBytes(1_200_000), key: 'large', properties: { a: 'b' } };

  it.each<[string, readonly ProducerMessage[], Partial<ProducerOptions>]>([
    ['single messages', small, { batching: false }],
    ['batches', small, {}],
    ['batches of one key each', small, { batching: { type: 'keyBased' } }],
    ['compressed batches', small, { compression: 'zstd' }],
    ['chunks', [...small, large], { chunking: true, maxChunkBytes: 100_000, batching: false }],
    ['compressed chunks', [...small, large], { chunking: true, maxChunkBytes: 100_000, compression: 'zlib' }],
  ])('of %s', async (_what, messages, options) => {
    const produced = await world.produce(
      { encryption: { keys: ['ours', 'theirs'], keyReader: keyReader() }, ...options },
      messages,
    );
    // Each of the keys alone opens them.
    const found = await world.verify(produced, messages, { privateKeys: { ours: file('ours') } });
    for (const { encryptedFor } of found) expect([...(encryptedFor ?? [])].sort()).toEqual(['ours', 'theirs']);
    await world.verify(produced, messages, { privateKeys: { theirs: file('theirs') } });
  });

  it('of an empty payload and a tombstone, by the Java client (the Go client hands out ciphertext where there was nothing)', async () => {
    const messages = [
      { payload: Buffer.alloc(0), key: 'a' },
      { payload: null, key: 'a' },
    ];
    const encryption = { keys: ['ours'], keyReader: keyReader() };
    for (const batching of [true, false]) {
      const { topic } = await world.produce({ encryption, batching }, messages);
      const found = await world.read('java', { topic, count: 2, privateKeys: { ours: file('ours') } });
      expect(found.map(({ payload }) => payload)).toEqual(['', null]);
    }
  });

  it('cannot be read without a key', async () => {
    const { topic } = await world.produce({ encryption: { keys: ['ours'], keyReader: keyReader() } }, [
      { payload: Buffer.from('secret') },
    ]);
    const entry = await world.admin.send(
      'GET',
      `/admin/v2/${topic.replace('://', '/')}/ledger/${(await world.admin.ledgers(topic))[0]}/entry/0`,
    );
    expect(entry.text).not.toContain('secret');
  });

  it('goes over a rotation: what comes after has another data key, and one private key opens both', async () => {
    const topic = `persistent://public/default/${unique('rotated')}`;
    let reads = 0;
    const files = keyReader();
    const counting = { getPublicKey: (name: string) => (reads++, files.getPublicKey(name)) };
    const producer = await world.client.createProducer({
      topic,
      encryption: { keys: ['ours'], keyReader: counting, rotateAfter: 200 },
    });
    const messages = [{ payload: Buffer.from('before') }, { payload: Buffer.from('after') }];
    const first = await producer.send(messages[0]);
    const readsBefore = reads;
    // The second rotation after it begins only when the first has ended.
    await until('a rotation', () => reads > readsBefore + 1);
    const second = await producer.send(messages[1]);
    await producer.close();
    const produced = { topic, producerName: producer.name, results: [first, second] };
    await world.verify(produced, messages, { privateKeys: { ours: file('ours') } });
  });

  it('is what a namespace that requires it accepts, and nothing else is', async () => {
    const namespace = `public/${unique('sealed')}`;
    await world.admin.createNamespace(namespace);
    await world.admin.call('POST', `/admin/v2/namespaces/${namespace}/encryptionRequired`, true);
    const topic = `persistent://${namespace}/topic`;
    const encryption = { keys: ['ours'], keyReader: keyReader() };
    const produced = await world.produce({ topic, encryption }, small);
    await world.verify(produced, small, { privateKeys: { ours: file('ours') } });
    const impatient = new PulsarClient({ url: integrationBrokers().pulsarUrl, createTimeout: 1500 });
    try {
      await expect(impatient.createProducer({ topic })).rejects.toThrow(/Encryption is required/);
      const inTheClear = { keys: ['missing'], keyReader: keyReader(), failureAction: 'send' as const };
      await expect(impatient.createProducer({ topic, encryption: inTheClear })).rejects.toThrow(
        /Encryption is required/,
      );
    } finally {
      await impatient.close();
    }
  });

  it('sends in the clear where that is asked for and no key can be had', async () => {
    const encryption = { keys: ['missing'], keyReader: keyReader(), failureAction: 'send' as const };
    const produced = await world.produce({ encryption }, small);
    await world.verify(produced, small);
  });
});
