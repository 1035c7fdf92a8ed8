import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PulsarClient, tlsAuth, tokenAuth } from '../../../lib/pulsar/index.js';
import { InMemoryPulsarCluster } from '../../../lib/testing/pulsar/index.js';
import { type Certificates, type KeyPair, makeCertificates } from '../../brokers/certificates.js';
import { PulsarWorld, received, text } from './support/world.js';

/** TLS to scripted brokers: what is verified, against which name, and who the client is. */
describe('TLS', () => {
  const world = new PulsarWorld();
  const folder = mkdtempSync(join(tmpdir(), 'pulsar-tls-'));
  let certificates: Certificates;
  beforeAll(() => {
    certificates = makeCertificates(folder, 'device-7');
  });
  afterEach(() => world.close());
  afterAll(() => rmSync(folder, { recursive: true }));

  const pem = (file: string): string => readFileSync(file, 'utf8');
  const ca = (): string => pem(certificates.ca);
  const serve = (pair: KeyPair): { readonly cert: string; readonly key: string } => ({
    cert: pem(pair.certificate),
    key: pem(pair.key),
  });

  it('trusts no unknown authority by default, and sends nothing', async () => {
    const broker = await world.broker({ tls: serve(certificates.server), advertisedHost: 'localhost' });
    const auth = tokenAuth('token-secret');
    for (const tls of [undefined, { ca: pem(certificates.otherCa) }]) {
      const client = world.client(broker, { auth, ...(tls !== undefined && { tls }) });
      const error = await client.connect().catch((reason: Error) => reason);
      expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
      expect((error as Error).message).toContain(`${broker.url}: the certificate for 'localhost' is not trusted by`);
    }
    expect(received(broker, 'connect')).toBe(0);
  });

  it('verifies the name of the host that is dialled, and sends it as SNI', async () => {
    const wrong = await world.broker({ tls: serve(certificates.wrongHost), advertisedHost: 'localhost' });
    await expect(world.client(wrong, { tls: { ca: ca() } }).connect()).rejects.toMatchObject({
      code: 'ERR_AUTHENTICATION',
      message: expect.stringContaining("not valid for the host name 'localhost'") as string,
    });
    expect(received(wrong, 'connect')).toBe(0);
    const named = world.client(wrong, { tls: { ca: ca(), servername: 'elsewhere.invalid' } });
    await named.connect();
    expect(wrong.connection?.tls?.servername).toBe('elsewhere.invalid');
    const off = world.client(wrong, { tls: { rejectUnauthorized: false } });
    await off.connect();
    expect(received(wrong, 'connect')).toBe(2);
  });

  it('verifies the name of the broker that a redirect leads to', async () => {
    const cluster = new InMemoryPulsarCluster();
    const tls = serve(certificates.nameOnly);
    const service = await world.broker({ cluster, tls, advertisedHost: 'localhost' });
    const owner = await world.broker({ cluster, tls: serve(certificates.addressOnly) });
    cluster.assign('unit', owner);
    const client = world.client(service, { tls: { ca: ca() } });
    const producer = await client.createProducer({ topic: 'unit' });
    await producer.send(text('there'));
    expect(owner.topic('unit').texts).toEqual(['there']);
    expect(service.connection?.tls?.servername).toBe('localhost');
    // An address is no name: no SNI [RFC 6066, section 3].
    expect(owner.connection?.tls?.servername).toBeUndefined();
  });

  it('refuses a redirect to a broker whose certificate is for the host before', async () => {
    const cluster = new InMemoryPulsarCluster();
    const tls = serve(certificates.nameOnly);
    const service = await world.broker({ cluster, tls, advertisedHost: 'localhost' });
    const owner = await world.broker({ cluster, tls });
    cluster.assign('unit', owner);
    const client = world.client(service, { tls: { ca: ca() }, createTimeout: 200 });
    await expect(client.createProducer({ topic: 'unit' })).rejects.toMatchObject({
      code: 'ERR_AUTHENTICATION',
      message: expect.stringContaining("not valid for the host name '127.0.0.1'") as string,
    });
    expect(received(owner, 'connect')).toBe(0);
  });

  it('verifies the name of the proxy, not that of the broker behind it', async () => {
    const proxy = await world.broker({ tls: serve(certificates.nameOnly), advertisedHost: 'localhost' });
    proxy.faults.scriptLookup({
      response: 1,
      brokerServiceUrlTls: 'pulsar+ssl://broker-3.internal:6651',
      authoritative: true,
      proxyThroughServiceUrl: true,
    });
    proxy.cluster.acquire('unit', proxy);
    const client = world.client(proxy, { tls: { ca: ca() } });
    const producer = await client.createProducer({ topic: 'unit' });
    await producer.send(text('through'));
    const connects = proxy.log.received('connect').map(({ proxyToBrokerUrl }) => proxyToBrokerUrl ?? '');
    expect(connects).toEqual(['', 'broker-3.internal:6651']);
    expect(proxy.allConnections.map(({ tls }) => tls?.servername)).toEqual(['localhost', 'localhost']);
    expect(client.status.connections.map(({ broker }) => broker)).toEqual([
      proxy.url,
      'pulsar+ssl://broker-3.internal:6651',
    ]);
  });

  it('dials no plain address that a broker names, so that no credential goes in the clear', async () => {
    const plain = await world.broker();
    const broker = await world.broker({ tls: serve(certificates.server), advertisedHost: 'localhost' });
    for (const response of [0, 1]) {
      broker.faults.scriptLookup({ response, brokerServiceUrlTls: plain.url, authoritative: true });
    }
    const auth = tokenAuth('token-secret');
    const client = world.client(broker, { tls: { ca: ca() }, auth });
    const producer = await client.createProducer({ topic: 'unit' });
    await producer.send(text('safe'));
    expect(plain.allConnections).toHaveLength(0);
    expect(received(broker, 'lookupTopic')).toBe(3);
  });

  it('is who its certificate says (mTLS)', async () => {
    const seen: unknown[] = [];
    const broker = await world.broker({
      tls: { ...serve(certificates.server), ca: ca(), requestCert: true, rejectUnauthorized: true },
      advertisedHost: 'localhost',
      authenticate: (method, data, connection) => {
        seen.push([method, data.toString(), connection.tls?.commonName]);
        return method === 'tls';
      },
    });
    const tls = { ca: ca(), ...serve(certificates.client) };
    const client = world.client(broker, { tls, auth: tlsAuth() });
    await (await client.createProducer({ topic: 'unit' })).send(text('in'));
    expect(seen).toEqual([['tls', '', 'device-7']]);
    // TLS 1.3 tells the refusal of a missing certificate after the handshake: the connection ends before CONNECTED.
    const without = world.client(broker, { tls: { ca: ca() } });
    await expect(without.connect()).rejects.toMatchObject({ code: 'ERR_CONNECTION' });
    expect(received(broker, 'connect')).toBe(1);
  });

  it('refuses options that contradict each other before anything is dialled', () => {
    const tls = { ca: ca() };
    const made = (options: ConstructorParameters<typeof PulsarClient>[0]) => () => new PulsarClient(options);
    expect(made({ url: 'pulsar://localhost:1', tls })).toThrow(/pulsar\+ssl/);
    expect(made({ url: 'pulsar+ssl://localhost:1', tls, auth: tlsAuth() })).toThrow(/pulsar\.tls\.cert/);
    expect(made({ url: ['pulsar://a:1', 'pulsar+ssl://b:2'] })).toThrow(/all pulsar:\/\/ or all/);
  });
});
