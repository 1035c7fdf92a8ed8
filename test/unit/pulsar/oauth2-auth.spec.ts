import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { type Authentication, oauth2Auth, type OAuth2Options } from '../../../lib/pulsar/index.js';
import { TokenServer } from './support/token-server.js';
import { PulsarWorld, received, text } from './support/world.js';

const SECRET = 'a-very-secret-secret';

describe('OAuth 2.0 client credentials', () => {
  const world = new PulsarWorld();
  let server: TokenServer;
  beforeEach(async () => {
    server = await TokenServer.start();
  });
  afterEach(async () => {
    await world.close();
    server.close();
  });

  const auth = (options: Partial<OAuth2Options> = {}): Authentication =>
    oauth2Auth({ tokenUrl: server.tokenUrl, clientId: 'app', clientSecret: SECRET, ...options });
  const token = async (source: Authentication, fresh = false): Promise<string> =>
    String(await source.getAuthData({ fresh }));
  const failure = async (source: Authentication): Promise<Error> => {
    const error = await token(source).then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    // Neither in the message nor in anything a logger prints with it.
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET);
    return error!;
  };

  it('asks the token endpoint and gives the broker its token', async () => {
    const broker = await world.broker({ authenticate: (_, data) => data.toString() === 'access-1' });
    const client = world.client(broker, { auth: auth({ audience: 'urn:pulsar', scope: 'produce consume' }) });
    await (await client.createProducer({ topic: 'unit' })).send(text('in'));
    expect(broker.log.received('connect')[0]).toMatchObject({ authMethodName: 'token' });
    const [{ form, headers }] = server.requests;
    expect(Object.fromEntries(form)).toEqual({
      grant_type: 'client_credentials',
      client_id: 'app',
      client_secret: SECRET,
      audience: 'urn:pulsar',
      scope: 'produce consume',
    });
    expect(headers.authorization).toBeUndefined();
  });

  it('proves itself with Basic where told to', async () => {
    await token(auth({ clientAuthentication: 'basic' }));
    const [{ form, headers }] = server.requests;
    expect(form.has('client_secret')).toBe(false);
    const [scheme, data] = (headers.authorization ?? '').split(' ');
    expect(scheme).toBe('Basic');
    expect(decodeURIComponent(Buffer.from(data, 'base64').toString())).toBe(`app:${SECRET}`);
  });

  it('finds the token endpoint of an issuer once', async () => {
    const source = oauth2Auth({ issuerUrl: server.issuer, clientId: 'app', clientSecret: SECRET });
    expect(await token(source)).toBe('access-1');
    expect(await token(source, true)).toBe('access-2');
    expect(server.discoveries).toBe(1);
  });

  it('reads the key file of the other Pulsar clients, again for every token', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oauth2-'));
    const keyFile = join(folder, 'key.json');
    const key = (client_secret: string): void =>
      writeFileSync(
        keyFile,
        JSON.stringify({ type: 'client_credentials', client_id: 'app', client_secret, issuer_url: server.issuer }),
      );
    const source = oauth2Auth({ keyFile });
    expect((await failure(source)).message).toBe(`oauth2Auth: the key file '${keyFile}' cannot be read: ENOENT`);
    writeFileSync(keyFile, `{"client_secret": "${SECRET}",`);
    expect((await failure(source)).message).toBe(`oauth2Auth: the key file '${keyFile}' is no JSON`);
    key(SECRET);
    await token(source);
    key('rotated');
    await token(source, true);
    expect(server.requests.map(({ form }) => form.get('client_secret'))).toEqual([SECRET, 'rotated']);
    rmSync(folder, { recursive: true });
  });

  it('shares one token between connections and one request between those who wait', async () => {
    const source = auth();
    expect(await Promise.all([token(source), token(source), token(source, true)])).toEqual(Array(3).fill('access-1'));
    expect(await token(source)).toBe('access-1');
    expect(server.requests).toHaveLength(1);
  });

  it('fetches a new one before the old one runs out', async () => {
    server.answer = () => server.granted(1);
    const source = auth();
    const first = await token(source);
    let renewed = first;
    for (const end = Date.now() + 10_000; renewed === first && Date.now() < end;) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      renewed = await token(source);
    }
    expect(renewed).not.toBe(first);
  });

  it('answers AUTH_CHALLENGE with a new token on the same connection, sends under way', async () => {
    const broker = await world.broker({ authenticate: (_, data) => data.toString().startsWith('access-') });
    const producer = await world.client(broker, { auth: auth() }).createProducer({ topic: 'unit' });
    broker.holdReceipts();
    const send = producer.send(text('under way'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    broker.authChallenge();
    const [answer] = await broker.log.waitForReceived('authResponse');
    expect(answer?.response?.authData?.toString()).toBe('access-2');
    broker.releaseReceipts();
    await send;
    expect(broker.allConnections).toHaveLength(1);
  });

  it('fetches a new token when the broker refuses the one it kept', async () => {
    const broker = await world.broker({ authenticate: (_, data) => data.toString() === 'access-2' });
    const producer = await world.client(broker, { auth: auth() }).createProducer({ topic: 'unit' });
    await producer.send(text('in'));
    expect(server.requests).toHaveLength(2);
  });

  it('ends at once when the authorization server refuses a secret given as text', async () => {
    server.answer = () => ({
      status: 401,
      body: { error: 'invalid_client', error_description: `no client with secret ${SECRET}` },
    });
    const broker = await world.broker();
    const client = world.client(broker, { auth: auth() });
    const error = await client.createProducer({ topic: 'unit' }).catch((reason: Error) => reason);
    expect(error).toMatchObject({
      code: 'ERR_AUTHENTICATION',
      retriable: false,
      message: `oauth2Auth: ${server.tokenUrl} answered invalid_client (HTTP 401): no client with secret ***`,
    });
    expect(server.requests).toHaveLength(1);
    expect(await failure(auth())).toMatchObject({ retriable: false });
  });

  it('tries on while the server is ill, refuses a renewable secret, or does not answer', async () => {
    const answers: TokenServer['answer'][] = [
      () => ({ status: 503, body: 'down for maintenance' }),
      () => ({ status: 400, body: { error: 'temporarily_unavailable' } }),
      () => ({ status: 401, body: { error: 'invalid_client' } }),
      () => ({ status: 200, body: { access_token: 7 } }),
      () => undefined,
    ];
    server.answer = (request) => (answers.shift() ?? (() => server.granted(60)))(request);
    const broker = await world.broker();
    const client = world.client(broker, { auth: auth({ clientSecret: async () => SECRET, requestTimeout: 200 }) });
    const causes: Error[] = [];
    client.on('connectFailed', ({ cause }) => causes.push(cause));
    await client.createProducer({ topic: 'unit' });
    expect(causes).toHaveLength(5);
    for (const cause of causes) {
      expect(cause).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: true });
      expect(inspect(cause, { depth: 10 })).not.toContain(SECRET);
    }
    expect(causes[0].message).toContain('HTTP 503');
    expect(causes[4].message).toContain('no answer within 200 ms');
    expect(received(broker, 'connect')).toBe(1);
  });

  it('says that nobody listens, without the secret', async () => {
    const source = auth();
    const { tokenUrl } = server;
    server.close();
    expect((await failure(source)).message).toBe(`oauth2Auth: ${tokenUrl}: no answer: ECONNREFUSED`);
  });

  it.each([
    [{ tokenUrl: 'http://idp.example/token', clientId: 'a', clientSecret: 'b' }, 'oauth2.tokenUrl'],
    [{ tokenUrl: 'https://user:pw@idp.example/', clientId: 'a', clientSecret: 'b' }, 'oauth2.tokenUrl'],
    [{ tokenUrl: 'https://idp.example/', clientId: 'a' }, 'oauth2.clientId'],
    [{ tokenUrl: 'https://idp.example/', clientId: 'a', clientSecret: 'b', keyFile: 'c' }, 'oauth2.keyFile'],
    [{ clientId: 'a', clientSecret: 'b' }, 'oauth2.issuerUrl'],
    [{ issuerUrl: 'https://a/', tokenUrl: 'https://b/', keyFile: 'c' }, 'oauth2.issuerUrl'],
    [{ issuerUrl: 'https://a/', clientId: 'a', clientSecret: 7 }, 'oauth2.clientSecret'],
  ])('refuses %j', (options, path) => {
    let error: Error | undefined;
    try {
      oauth2Auth(options as OAuth2Options);
    } catch (thrown) {
      error = thrown as Error;
    }
    expect(error).toMatchObject({ code: 'ERR_OPTIONS', path });
    expect(String(error?.message)).not.toContain('pw');
  });
});
