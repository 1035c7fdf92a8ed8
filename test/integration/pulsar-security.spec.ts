import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lastValueFrom } from 'rxjs';
import {
  type Authentication,
  basicAuth,
  oauth2Auth,
  PulsarClient,
  type PulsarClientOptions,
  PulsarClientProxy,
  tlsAuth,
  tokenAuth,
} from '../../lib/index.js';
import { Pulsar, type PulsarSecurity, scratchFolder } from '../brokers/index.js';
import { TokenServer } from '../unit/pulsar/support/token-server.js';
import { describeWithBrokers, unique, until } from './harness.js';

const PROVIDERS = 'org.apache.pulsar.broker.authentication.AuthenticationProvider';
const PASSWORD = 'correct horse';

/** A broker with TLS, tokens, passwords and client certificates; it asks for fresh credentials every 3 s once they ran out. */
describeWithBrokers('TLS and authentication on a real broker', () => {
  let pulsar: Pulsar;
  let security: PulsarSecurity;
  let ca: string;
  const ends: (() => unknown)[] = [];
  beforeAll(async () => {
    const file = join(scratchFolder('passwords'), 'passwords');
    const hash = execFileSync('openssl', ['passwd', '-apr1', PASSWORD], { encoding: 'utf8' }).trim();
    writeFileSync(file, `app:${hash}\n`);
    pulsar = await Pulsar.start({
      secure: true,
      settings: {
        authenticationProviders: ['Token', 'Tls', 'Basic'].map((name) => PROVIDERS + name).join(','),
        basicAuthConf: `file://${file}`,
      },
    });
    security = pulsar.security!;
    ca = readFileSync(security.certificates.ca, 'utf8');
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });
  afterAll(() => pulsar?.stop());

  const connect = (auth: Authentication | undefined, changes: Partial<PulsarClientOptions> = {}): PulsarClient => {
    const client = new PulsarClient({
      url: security.tlsUrl,
      tls: { ca },
      ...(auth !== undefined && { auth }),
      backoff: { initial: 50, max: 500 },
      ...changes,
    });
    ends.push(() => client.close());
    return client;
  };
  const topicName = (): string => `persistent://public/default/${unique('secure')}`;
  /** Sends one message and asks the broker how many it has. */
  const sendOne = async (client: PulsarClient): Promise<number> => {
    const topic = topicName();
    const producer = await client.createProducer({ topic });
    await producer.send({ payload: Buffer.from('secret matter') });
    return pulsar.admin.entries(topic);
  };
  const refusal = (client: PulsarClient): Promise<unknown> =>
    client.createProducer({ topic: topicName() }).then(
      () => undefined,
      (error: unknown) => error,
    );

  it('stores over verified TLS with a token, by name and by address', async () => {
    const auth = tokenAuth(security.tokens.app);
    expect(await sendOne(connect(auth))).toBe(1);
    expect(await sendOne(connect(auth, { url: security.tlsUrl.replace('localhost', '127.0.0.1') }))).toBe(1);
  });

  it('verifies by default: an authority that is not known ends the try before anything is said', async () => {
    const auth = tokenAuth(security.tokens.app);
    const otherCa = readFileSync(security.certificates.otherCa, 'utf8');
    const own = new PulsarClient({ url: security.tlsUrl, auth });
    ends.push(() => own.close());
    for (const client of [own, connect(auth, { tls: { ca: otherCa } })]) {
      await expect(client.connect()).rejects.toMatchObject({
        code: 'ERR_AUTHENTICATION',
        message: expect.stringContaining("the certificate for 'localhost' is not trusted") as string,
      });
    }
    await expect(connect(auth, { tls: { ca, servername: 'pulsar.example' } }).connect()).rejects.toMatchObject({
      message: expect.stringContaining("not valid for the host name 'pulsar.example'") as string,
    });
  });

  it('is the role of its client certificate (mTLS)', async () => {
    const { certificate, key } = security.certificates.client;
    const tls = { ca, cert: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
    expect(await sendOne(connect(tlsAuth(), { tls }))).toBe(1);
    expect(await refusal(connect(undefined))).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
  });

  it('logs in with user and password', async () => {
    expect(await sendOne(connect(basicAuth('app', PASSWORD)))).toBe(1);
    const error = await refusal(connect(basicAuth('app', 'wrong battery')));
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
    expect((error as Error).message).not.toContain('battery');
  });

  it('ends at once with a token given as text that is expired, or may not use the topic', async () => {
    const expired = await refusal(connect(tokenAuth(security.tokens.expired)));
    expect(expired).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
    expect((expired as Error).message).not.toContain(security.tokens.expired);
    const stranger = await refusal(connect(tokenAuth(security.tokens.stranger)));
    expect(stranger).toMatchObject({ code: 'ERR_AUTHORIZATION', retriable: false });
  });

  it('goes on with the next token of a function after refused ones', async () => {
    const tokens = [security.tokens.expired, security.tokens.expired];
    const client = connect(tokenAuth(() => tokens.shift() ?? security.tokens.app));
    const failures: string[] = [];
    client.on('connectFailed', ({ cause }) => failures.push(cause.code));
    expect(await sendOne(client)).toBe(1);
    expect(failures).toEqual(['ERR_AUTHENTICATION', 'ERR_AUTHENTICATION']);
  });

  it('answers AUTH_CHALLENGE with fresh OAuth 2.0 tokens, connection and sends undisturbed', async () => {
    const server = await TokenServer.start();
    ends.unshift(() => server.close());
    server.answer = () => ({
      status: 200,
      body: { access_token: security.token('app', 2), token_type: 'Bearer', expires_in: 2 },
    });
    const client = connect(oauth2Auth({ tokenUrl: server.tokenUrl, clientId: 'app', clientSecret: 'not shown' }));
    const topic = topicName();
    const producer = await client.createProducer({ topic, batching: false });
    let sent = 0;
    // Several lives of a token: each one longer than the broker waits for an answer.
    for (const end = Date.now() + 12_000; Date.now() < end || server.requests.length < 3; sent++) {
      await producer.send({ payload: Buffer.from(`${sent}`) });
    }
    expect(producer.stats).toMatchObject({ connects: 1, failed: 0 });
    expect(await pulsar.admin.entries(topic)).toBe(sent);
  });

  it('ends the producer when a token given as text runs out', async () => {
    const client = connect(tokenAuth(security.token('app', 3)));
    const producer = await client.createProducer({ topic: topicName() });
    await until('the end of the producer', () => producer.state === 'terminated');
    await expect(producer.send({ payload: Buffer.from('late') })).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION' });
  });

  it('takes the same options in PulsarClientProxy', async () => {
    const topic = topicName();
    const { tlsUrl: url, tokens } = security;
    const proxy = new PulsarClientProxy({ url, tls: { ca }, auth: tokenAuth(async () => tokens.app) });
    ends.push(() => proxy.close());
    await lastValueFrom(proxy.emit(topic, { through: 'the proxy' }));
    expect(await pulsar.admin.entries(topic)).toBe(1);
  });
});
