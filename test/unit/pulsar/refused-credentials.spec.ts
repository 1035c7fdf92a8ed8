import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Authentication, basicAuth, tokenAuth } from '../../../lib/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** A refusal ends the producers only where no further try can have other credentials. */
describe('refused credentials', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  const accepting =
    (...good: string[]) =>
    (_method: string, data: Buffer): boolean =>
      good.includes(data.toString());

  it('is terminal at once for a token given as text', async () => {
    const broker = await world.broker({ authenticate: accepting('good') });
    const client = world.client(broker, { auth: tokenAuth('bad-secret') });
    const error = await client.createProducer({ topic: 'unit' }).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
    expect((error as Error).message).not.toContain('bad-secret');
    expect(received(broker, 'connect')).toBe(1);
  });

  it('ends a running producer at once when a token given as text is refused at a reconnect', async () => {
    const broker = await world.broker({ authenticate: accepting('good') });
    const producer = await world.client(broker, { auth: tokenAuth('good') }).createProducer({ topic: 'unit' });
    broker.options.authenticate = () => false;
    broker.silenceNext('send');
    const send = producer.send(text('pending'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.cut();
    await expect(send).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false, ambiguous: true });
    expect(producer.state).toBe('terminated');
    expect(received(broker, 'connect')).toBe(2);
  });

  it('tries again with what a function gives next, and says that the last data was refused', async () => {
    const broker = await world.broker({ authenticate: accepting('token-3') });
    const asked: boolean[] = [];
    const auth: Authentication = {
      method: 'token',
      getAuthData: ({ fresh }) => `token-${asked.push(fresh)}`,
    };
    const client = world.client(broker, { auth });
    const failures: unknown[] = [];
    client.on('connectFailed', ({ cause }) => failures.push([cause.code, cause.retriable]));
    const producer = await client.createProducer({ topic: 'unit' });
    await producer.send(text('in'));
    expect(asked).toEqual([false, true, true]);
    expect(failures).toEqual(Array(2).fill(['ERR_AUTHENTICATION', true]));
    broker.cut();
    await broker.waitFor(() => asked.length === 4);
    expect(asked.at(-1)).toBe(false);
  });

  it('gives up after createTimeout with the last refusal, which may be cured later', async () => {
    const broker = await world.broker({ authenticate: () => false });
    const client = world.client(broker, { auth: tokenAuth(() => 'never good'), createTimeout: 150 });
    const error = await client.createProducer({ topic: 'unit' }).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: true });
    expect((error as Error).message).not.toContain('never good');
    expect(received(broker, 'connect')).toBeGreaterThan(1);
  });

  it('keeps what is pending while a function gives refused tokens, and sends it with the first good one', async () => {
    const broker = await world.broker({ authenticate: accepting('good') });
    let token = 'good';
    const client = world.client(broker, { auth: tokenAuth(() => token) });
    const producer = await client.createProducer({ topic: 'unit' });
    token = 'revoked';
    broker.silenceNext('send');
    const send = producer.send(text('kept'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.cut();
    await broker.waitFor(() => received(broker, 'connect') >= 4);
    expect(producer.state).not.toBe('terminated');
    expect(client.status.lastError).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: true });
    token = 'good';
    await send;
    expect(broker.topic('unit').texts).toEqual(['kept']);
  });

  it('reads a token file again for each try, also when it was missing or empty', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'token-'));
    const file = join(folder, 'token');
    const broker = await world.broker({ authenticate: accepting('second') });
    const client = world.client(broker, { auth: tokenAuth({ file }) });
    const failures: string[] = [];
    client.on('connectFailed', ({ cause }) => failures.push(cause.message));
    const opening = client.createProducer({ topic: 'unit' });
    await broker.waitFor(() => failures.length === 1);
    writeFileSync(file, '  \n');
    await broker.waitFor(() => failures.some((message) => message.includes('is empty')));
    writeFileSync(file, 'first\n');
    await broker.waitFor(() => received(broker, 'connect') > 0);
    writeFileSync(file, 'second\n');
    await (await opening).send(text('in'));
    expect(failures[0]).toBe(`tokenAuth: the token file '${file}' cannot be read: ENOENT`);
    expect(failures.join()).not.toContain('first');
    rmSync(folder, { recursive: true });
  });

  it('does the same for a password', async () => {
    const broker = await world.broker({ authenticate: accepting('user:right') });
    const fixed = world.client(broker, { auth: basicAuth('user', 'wrong') });
    await expect(fixed.connect()).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
    let password = 'wrong';
    const client = world.client(broker, { auth: basicAuth('user', () => password) });
    const opening = client.createProducer({ topic: 'unit' });
    await broker.waitFor(() => received(broker, 'connect') >= 3);
    password = 'right';
    await opening;
    expect(broker.log.received('connect').at(-1)).toMatchObject({ authMethodName: 'basic' });
  });

  it('reconnects with fresh data when an answer to AUTH_CHALLENGE is refused', async () => {
    const broker = await world.broker({ authenticate: accepting('good-1', 'good-3') });
    let calls = 0;
    const client = world.client(broker, { auth: tokenAuth(() => `${++calls === 2 ? 'bad' : 'good'}-${calls}`) });
    const producer = await client.createProducer({ topic: 'unit' });
    const causes: unknown[] = [];
    client.on('disconnected', ({ cause }) => causes.push(cause.code));
    broker.authChallenge();
    await broker.waitFor(() => received(broker, 'connect') === 2);
    await producer.send(text('after'));
    expect(causes).toEqual(['ERR_AUTHENTICATION']);
    expect(producer.state).toBe('ready');
  });

  it.each(['partitionMetadata', 'lookupTopic', 'producer'] as const)(
    'renews the connection when %s on it is refused with AuthenticationError, with a fixed token it is the end',
    async (command) => {
      const broker = await world.broker();
      let calls = 0;
      const client = world.client(broker, { auth: tokenAuth(() => `token-${++calls}`) });
      const other = await client.createProducer({ topic: 'other', batching: false });
      broker.silenceNext('send');
      const pending = other.send(text('pending'));
      await broker.waitFor(() => received(broker, 'send') === 1);
      broker.failNext(command, 'AuthenticationError');
      const producer = await client.createProducer({ topic: 'unit' });
      await Promise.all([pending, producer.send(text('in'))]);
      expect(broker.log.received('connect').map(({ authData }) => String(authData))).toEqual(['token-1', 'token-2']);
      expect([broker.topic('other').texts, broker.topic('unit').texts]).toEqual([['pending'], ['in']]);
      const fixed = world.client(broker, { auth: tokenAuth('fixed') });
      broker.failNext(command, 'AuthenticationError');
      await expect(fixed.createProducer({ topic: 'unit' })).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION' });
    },
  );

  it('gives up a connection whose function never answers, without taking that for the end', async () => {
    const broker = await world.broker({ authenticate: accepting('good') });
    let calls = 0;
    const auth = tokenAuth(() => (++calls === 1 ? new Promise<string>(() => undefined) : 'good'));
    const client = world.client(broker, { auth, connectTimeout: 100 });
    const failures: string[] = [];
    client.on('connectFailed', ({ cause }) => failures.push(cause.message));
    await client.createProducer({ topic: 'unit' });
    expect(failures).toEqual([`${broker.url}: no authentication data within 100 ms`]);
  });
});
