/** What we send while the topic is unloaded again and again, read by clients that are not ours: nothing lost, nothing torn. */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pemFiles, type ProducerMessage, type ProducerOptions, PulsarClient } from '../../lib/pulsar/index.js';
import { CrossWorld, describeWithReaders } from '../cross/world.js';
import { integrationBrokers, unique, until } from './harness.js';

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

    // A broker that loads the topic in the middle of a message may keep its beginning only; it is told, and sent once more.
    const again = new Set<number>();
    const send = async (message: ProducerMessage, index: number): Promise<unknown> => {
      try {
        return await producer.send(message);
      } catch (error) {
        if (!deduplication || options.chunking !== true) throw error;
        expect(error).toMatchObject({ code: 'ERR_DEDUPLICATED', ambiguous: true });
        again.add(index);
        return producer.send(message);
      }
    };
    const sent: Promise<unknown>[] = [];
    const digests: string[] = [];
    for (let index = 0; index < MESSAGES; index++) {
      const message = messageOf(index, large);
      digests.push(digest(message.payload!));
      sent.push(send(message, index));
      if (index % (MESSAGES / UNLOADS) === MESSAGES / UNLOADS - 1) await world.admin.unload(topic);
      else if (index % 10 === 0) await sleep(5);
    }
    await Promise.all(sent);
    expect(connects).toBeGreaterThan(0);
    expect(producer.stats).toMatchObject({
      succeeded: MESSAGES,
      failed: again.size,
      pendingMessages: 0,
      pendingBytes: 0,
    });
    await producer.close();

    const privateKeys = encrypted ? { privateKeys: { ours: join(folder, 'private.pem') } } : {};
    for (const language of ['java', 'go'] as const) {
      const found = await world.read(language, { topic, count: -1, ...privateKeys });
      const payloads = found.map(({ payload }) => Buffer.from(payload ?? '', 'base64'));
      const got = payloads.map(
        (payload) => `${payload.subarray(0, payload.indexOf(':')).toString()} ${digest(payload)}`,
      );
      const once = [...new Set(got)];
      const expected = digests.map((sum, index) => `${index} ${sum}`);
      expect([language, ...[...once].sort()]).toEqual([language, ...[...expected].sort()]);
      const inOrder = (line: string): boolean => !again.has(Number.parseInt(line, 10));
      if (deduplication) expect(got.filter(inOrder)).toHaveLength(MESSAGES - again.size);
      // Batches of one key each keep the order of the key only.
      const keyBased = typeof options.batching === 'object';
      for (let key = 0; key < (keyBased ? 7 : 1); key++) {
        const mine = (line: string): boolean => inOrder(line) && (!keyBased || Number.parseInt(line, 10) % 7 === key);
        expect([language, ...once.filter(mine)]).toEqual([language, ...expected.filter(mine)]);
      }
    }
  });

  it('a message of which the broker has the beginning when it loads the topic again is not called stored', async () => {
    const namespace = `public/${unique('torn')}`;
    await world.admin.createNamespace(namespace);
    await world.admin.setNamespaceDeduplication(namespace, true);
    const topic = `persistent://${namespace}/topic`;
    const gate = await Gate.before(integrationBrokers().pulsarPort);
    const client = new PulsarClient({ url: gate.url });
    try {
      const producer = await client.createProducer({ topic, name: 'ours', chunking: true, maxChunkBytes: 50_000 });
      await producer.send({ payload: Buffer.from('before') });
      gate.closeAfter(175_000);
      const payload = randomBytes(400_000);
      const torn = producer.send({ payload });
      await until('the cut', () => gate.closed);
      await until('some chunks', async () => (await world.admin.entries(topic)) > 2);
      await world.admin.unload(topic);
      gate.open();
      // The broker takes the chunks it has read for the whole message, and drops the last one as its duplicate.
      await expect(torn).rejects.toMatchObject({ code: 'ERR_DEDUPLICATED', ambiguous: true, retriable: true });
      const again = await producer.send({ payload });
      expect(again.deduplicated).toBe(false);
      for (const language of ['java', 'go'] as const) {
        const found = await world.read(language, { topic, count: -1 });
        const texts = found.map((message) => digest(Buffer.from(message.payload ?? '', 'base64')));
        expect([language, ...texts]).toEqual([language, digest(Buffer.from('before')), digest(payload)]);
      }
    } finally {
      await client.close();
      await gate.end();
    }
  });
});

/** Stands before the broker, lets so many bytes through to it, and then nobody any more until it is opened. */
class Gate {
  closed = false;
  private left = Infinity;
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    port: number,
  ) {
    server.on('connection', (client) => {
      if (this.closed) {
        client.destroy();
        return;
      }
      const broker = connect(port, '127.0.0.1');
      for (const socket of [client, broker]) {
        this.sockets.add(socket);
        socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
      }
      broker.pipe(client).on('close', () => broker.end());
      client.on('data', (chunk: Buffer) => {
        const passing = chunk.subarray(0, this.left);
        this.left -= passing.length;
        broker.write(passing);
        if (this.left === 0) this.close();
      });
    });
  }

  static async before(port: number): Promise<Gate> {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    return new Gate(server, port);
  }

  get url(): string {
    return `pulsar://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  closeAfter(bytes: number): void {
    this.left = bytes;
  }

  open(): void {
    this.left = Infinity;
    this.closed = false;
  }

  async end(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** What has passed still reaches the broker. */
  private close(): void {
    this.closed = true;
    for (const socket of this.sockets) socket.end();
  }
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
