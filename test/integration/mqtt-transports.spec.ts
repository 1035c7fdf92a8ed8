import { readFileSync } from 'node:fs';
import { type MqttClientOptions } from '../../lib/index.js';
import { Mochi, Mosquitto, scratchFolder } from '../brokers/index.js';
import { makeCertificates, type KeyPair } from '../brokers/certificates.js';
import { describeWithMqttBrokers, unique } from './harness.js';
import { LiveClient } from './mqtt-live.js';

const certificates = makeCertificates(scratchFolder('certificates'));
const ca = readFileSync(certificates.ca, 'utf8');
const otherCa = readFileSync(certificates.otherCa, 'utf8');
const pair = ({ certificate, key }: KeyPair): { cert: string; key: string } => {
  return { cert: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
};

const opened: LiveClient[] = [];
afterEach(() => {
  for (const client of opened.splice(0)) client.destroy();
});

function newClient(url: string | readonly string[], options: MqttClientOptions = {}): LiveClient {
  const client = new LiveClient({ url, clientId: unique('client'), reconnect: { initial: 20, max: 500 }, ...options });
  opened.push(client);
  return client;
}

/** Publishes to itself: 1 MB, so that the transport has to cut it into parts. */
async function carriesMessages(client: LiveClient): Promise<void> {
  const topic = unique('transport');
  const payload = Buffer.alloc(1_000_000, 'a part, ');
  await client.connect();
  await client.subscribe([{ filter: topic, qos: 2 }]);
  for (const qos of [0, 1, 2] as const) await client.publish({ topic, payload, qos });
  await client.received(3);
  for (const { message } of client.deliveries) expect(message.payload.equals(payload)).toBe(true);
  expect(client.stats.connects).toBe(1);
}

/** `connect()` rejects, and the message names the server and says why. */
async function refused(client: LiveClient, server: string, ...reasons: readonly RegExp[]): Promise<void> {
  const error = await client.connect().then(
    () => new Error('it connected'),
    (failure: Error) => failure,
  );
  expect(error.message).toContain(server);
  for (const reason of reasons) expect(error.message).toMatch(reason);
}

/** OpenSSL's: mosquitto sends its chain, mochi its certificate alone. */
const REASON = /UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN/;

const portOf = (url: string): string => new URL(url).port;

describeWithMqttBrokers.each([
  {
    name: 'mosquitto',
    start: (tls: object) => Mosquitto.start({ tls: { ...certificates, ...tls }, unixSocket: true }),
  },
  { name: 'mochi', start: (tls: object) => Mochi.start({ tls: { ...certificates, ...tls } }) },
])('$name: transports', ({ name, start }) => {
  let broker: Mosquitto | Mochi;
  let strict: Mosquitto | Mochi;
  let elsewhere: Mosquitto | Mochi;
  beforeAll(async () => {
    [broker, strict, elsewhere] = await Promise.all([
      start({}),
      start({ clientCertificate: true }),
      start({ wrongHostName: true }),
    ]);
  });
  afterAll(async () => {
    await Promise.all([broker, strict, elsewhere].map((each) => each.kill()));
  });

  /** TLS over TCP, and over a WebSocket where the broker has one. */
  const secureUrls = (of: Mosquitto | Mochi): string[] => [
    of.tlsUrl ?? '',
    ...('wssUrl' in of ? [of.wssUrl ?? ''] : []),
  ];

  it('TCP', () => carriesMessages(newClient(broker.url)));

  it('a Unix socket', () => carriesMessages(newClient(broker.unixUrl ?? '')));

  if (name === 'mochi') {
    it('a WebSocket', () => carriesMessages(newClient((broker as Mochi).websocketUrl)));

    it('a WebSocket with MQTT 3.1.1', () =>
      carriesMessages(newClient((broker as Mochi).websocketUrl, { protocolVersion: 4 })));
  }

  it('TLS, with a CA of our own', async () => {
    for (const url of secureUrls(broker)) await carriesMessages(newClient(url, { tls: { ca } }));
  });

  it('TLS with a client certificate, where the server demands one', async () => {
    for (const url of secureUrls(strict)) {
      await carriesMessages(newClient(url, { tls: { ca, ...pair(certificates.client) } }));
    }
  });

  it('a server that demands a client certificate refuses who has none, and one of another CA', async () => {
    for (const url of secureUrls(strict)) {
      await refused(
        newClient(url, { tls: { ca } }),
        `localhost:${portOf(url)}`,
        /certificate required|alert|ECONNRESET/i,
      );
    }
  });

  it('refuses a server whose CA it does not trust, and names the server and the reason', async () => {
    for (const url of secureUrls(broker)) {
      const server = `localhost:${portOf(url)}`;
      await refused(newClient(url, { tls: { ca: otherCa } }), server, /not trusted by the given 'ca'/, REASON);
      await refused(newClient(url), server, /not trusted by Node's certificate list/, REASON);
    }
  });

  it('refuses a server whose certificate is for another host, and names both', async () => {
    for (const url of secureUrls(elsewhere)) {
      const server = `localhost:${portOf(url)}`;
      await refused(newClient(url, { tls: { ca } }), server, /host name 'localhost'/, /elsewhere\.invalid/);
    }
  });

  it('trusts such a server under the name that is given, and without verification', async () => {
    for (const url of secureUrls(elsewhere)) {
      await newClient(url, { tls: { ca, servername: 'elsewhere.invalid' } }).connect();
      await newClient(url, { tls: { rejectUnauthorized: false } }).connect();
    }
  });

  it('refuses TLS with a server that speaks none, and the other way round', async () => {
    const { port } = new URL(broker.url);
    const options: MqttClientOptions = { connectTimeout: 5000, tls: { ca } };
    await refused(newClient(`mqtts://localhost:${port}`, options), `localhost:${port}`);
    const tlsPort = portOf(broker.tlsUrl ?? '');
    await refused(newClient(`mqtt://localhost:${tlsPort}`, { connectTimeout: 5000 }), `localhost:${tlsPort}`);
  });

  it('tries several servers in turn, over different transports', async () => {
    const unreachable = 'mqtt://127.0.0.1:9';
    const untrusted = elsewhere.tlsUrl ?? '';
    const client = newClient([unreachable, untrusted, broker.tlsUrl ?? ''], { tls: { ca }, waitForBroker: true });
    const { server } = await client.connect();
    expect(server).toContain(portOf(broker.tlsUrl ?? ''));
    expect(client.status.server).toBe(server);
  });

  it('goes on to the next server when its own is gone', async () => {
    const first = await Mosquitto.start();
    const client = newClient([first.url, broker.url], { keepAlive: 5 });
    const { server } = await client.connect();
    expect(server).toContain(`:${first.port}`);
    const again = new Promise<string>((resolve) => client.on('connect', (result) => resolve(result.server)));
    await first.kill();
    expect(await again).toContain(`:${broker.port}`);
  });
});

describeWithMqttBrokers('user name and password', () => {
  let broker: Mosquitto;
  const credentials = { username: 'device', password: 'correct horse' };
  beforeAll(async () => {
    broker = await Mosquitto.start({ credentials });
  });
  afterAll(() => broker.kill());

  it.each([5, 4] as const)(
    'MQTT protocol version %d: are taken from options, the URL or a supplier',
    async (version) => {
      await newClient(broker.url, { ...credentials, protocolVersion: version }).connect();
      const { port } = broker;
      await newClient(`mqtt://device:correct%20horse@127.0.0.1:${port}`, { protocolVersion: version }).connect();
      const supplier = { credentials: () => Promise.resolve(credentials) };
      await newClient(broker.url, { ...supplier, protocolVersion: version }).connect();
    },
  );

  it.each([5, 4] as const)(
    'MQTT protocol version %d: wrong ones are refused, without a word of them',
    async (version) => {
      const client = newClient(broker.url, {
        username: 'device',
        password: 'battery staple',
        protocolVersion: version,
      });
      const error = await client.connect().then(
        () => new Error('it connected'),
        (failure: Error) => failure,
      );
      expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
      expect(error.message).toContain(`127.0.0.1:${broker.port}`);
      expect(error.message).toMatch(/not authorized|user name or password/i);
      expect(`${error.stack}${JSON.stringify(error)}`).not.toMatch(/staple/);
    },
  );
});
