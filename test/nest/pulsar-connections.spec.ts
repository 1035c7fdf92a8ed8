import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { lastValueFrom } from 'rxjs';
import {
  oauth2Auth,
  PulsarClientProxy,
  type PulsarClientProxyOptions,
  tlsAuth,
  tokenAuth,
  type TransportError,
} from '../../lib/index.js';
import { InMemoryPulsarBroker, type PulsarBrokerOptions } from '../../lib/testing/index.js';
import { makeCertificates } from '../brokers/certificates.js';
import { TokenServer } from '../unit/pulsar/support/token-server.js';
import { until } from './support/app.js';

/** TLS, authentication and where to connect, as options of the proxy. */
describe('connections through PulsarClientProxy', () => {
  const ends: (() => unknown)[] = [];
  const start = async (options: PulsarBrokerOptions = {}): Promise<InMemoryPulsarBroker> => {
    const broker = await InMemoryPulsarBroker.start(options);
    ends.push(() => broker.close());
    return broker;
  };
  const proxy = (broker: InMemoryPulsarBroker, options: Partial<PulsarClientProxyOptions> = {}): PulsarClientProxy => {
    const made = new PulsarClientProxy({ url: broker.url, backoff: { initial: 5, max: 50 }, ...options });
    ends.unshift(() => made.destroy());
    return made;
  };
  const emit = (client: PulsarClientProxy, topic = 't'): Promise<unknown> => lastValueFrom(client.emit(topic, 'x'));
  const failure = async (client: PulsarClientProxy, topic?: string): Promise<TransportError> =>
    emit(client, topic).then(
      () => Promise.reject(new Error('it was stored')),
      (error: TransportError) => error,
    );
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  it('goes over verified TLS as its client certificate says', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'proxy-tls-'));
    const { ca: caFile, server, client } = makeCertificates(folder, 'gateway');
    const [ca, cert, key, serverCert, serverKey] = [caFile, client.certificate, client.key, server.certificate, server.key]
      .map((file) => readFileSync(file, 'utf8')); // prettier-ignore
    rmSync(folder, { recursive: true });
    const broker = await start({
      tls: { cert: serverCert, key: serverKey, ca, requestCert: true },
      authenticate: (method, _data, { tls }) => method === 'tls' && tls?.commonName === 'gateway',
    });
    await emit(proxy(broker, { tls: { ca, cert, key }, auth: tlsAuth() }));
    expect(broker.topic('t').texts).toEqual(['x']);
    const untrusting = proxy(broker, { tls: { cert, key }, auth: tlsAuth(), createTimeout: 100 });
    expect(await failure(untrusting)).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect(inspect(untrusting, { depth: 20, showHidden: true })).not.toContain(key);
  });

  it('fails every emit at once with a token given as text that is refused, and dials no faster for it', async () => {
    const broker = await start({ authenticate: () => false });
    const client = proxy(broker, { auth: tokenAuth('secret-token'), backoff: { initial: 60_000, max: 60_000 } });
    for (const topic of ['a', 'b', 'a', 'c']) {
      const error = await failure(client, topic);
      expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: false });
      expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('secret-token');
    }
    expect(broker.log.received('connect')).toHaveLength(1);
    expect(client.health()).toMatchObject({
      status: 'down',
      reason: expect.stringContaining('Authentication') as string,
    });
    expect(JSON.stringify(client.health())).not.toContain('secret-token');
    expect(inspect(client, { depth: 20, showHidden: true })).not.toContain('secret-token');
  });

  it('holds emits while a function gives refused tokens, and stores them with the first good one', async () => {
    const broker = await start({ authenticate: (_method, data) => data.toString() === 'good' });
    let token = 'bad';
    const client = proxy(broker, { auth: tokenAuth(() => token) });
    const stored = emit(client);
    await until(() => broker.log.received('connect').length >= 3);
    expect(client.stats).toMatchObject({ pending: 1, failed: 0 });
    token = 'good';
    await stored;
    expect(client.health()).toMatchObject({ status: 'up' });
  });

  it('gets its tokens by OAuth 2.0', async () => {
    const server = await TokenServer.start();
    ends.push(() => server.close());
    const broker = await start({ authenticate: (_method, data) => data.toString() === 'access-1' });
    const auth = oauth2Auth({ issuerUrl: server.issuer, clientId: 'app', clientSecret: 'client-secret' });
    const client = proxy(broker, { auth });
    await emit(client);
    for (const shown of [client, auth]) {
      expect(inspect(shown, { depth: 20, showHidden: true })).not.toMatch(/client-secret|access-1/);
    }
  });

  it('takes several service addresses, connections per broker, keep alive and a listener name', async () => {
    const gone = await start();
    await gone.stopListening();
    const broker = await start();
    const client = proxy(broker, {
      url: [gone.url, broker.url],
      connectionsPerBroker: 2,
      keepAlive: 30,
      listenerName: 'inside',
    });
    await Promise.all(['a', 'b', 'c', 'd'].map((topic) => emit(client, topic)));
    expect(broker.connections.map(({ producers }) => producers.size)).toEqual([2, 2]);
    await broker.waitFor(() => broker.log.received('ping').length >= 2);
    expect(broker.log.received('lookupTopic')[0]).toMatchObject({ advertisedListenerName: 'inside' });
  });

  it.each([
    [{ connectionsPerBroker: 0 }, 'pulsar.connectionsPerBroker'],
    [{ connectionPerBroker: 2 }, 'pulsar.connectionPerBroker'],
    [{ auth: { method: 'token' } }, 'pulsar.auth'],
    [{ tls: { ca: 7 }, url: 'pulsar+ssl://a:1' }, 'pulsar.tls.ca'],
    [{ tls: {} }, 'pulsar.tls'],
    [{ url: 'pulsar://user:pw@a:1' }, 'pulsar.url'],
  ])('refuses %j before anything is dialled', (options, path) => {
    const make = (): unknown => new PulsarClientProxy({ url: 'pulsar://a:1', ...options } as PulsarClientProxyOptions);
    let error: Error | undefined;
    try {
      make();
    } catch (thrown) {
      error = thrown as Error;
    }
    expect(error).toMatchObject({ code: 'ERR_OPTIONS', path });
    expect(error!.message).not.toContain('pw@');
  });
});
