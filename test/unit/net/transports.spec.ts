import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { createServer as createHttpServer } from 'node:http';
import { WebSocketServer } from 'ws';
import { createDialer, describeEndpoint, type DialOptions, type Endpoint } from '../../../lib/net/dial.js';

/** What one connection told its user, with promises to wait on. */
function open(endpoint: Endpoint, options: DialOptions = {}) {
  const received: Buffer[] = [];
  let onOpen!: () => void;
  let onClose!: (error?: Error) => void;
  const opened = new Promise<void>((resolve) => (onOpen = resolve));
  const closed = new Promise<Error | undefined>((resolve) => (onClose = resolve));
  let notify = (): void => undefined;
  const transport = createDialer(
    endpoint,
    options,
  )({
    onOpen,
    onClose,
    onDrain: () => undefined,
    onData: (chunk) => {
      received.push(chunk);
      notify();
    },
  });
  const bytes = async (count: number): Promise<Buffer> => {
    while (Buffer.concat(received).length < count) await new Promise<void>((resolve) => (notify = resolve));
    return Buffer.concat(received);
  };
  return { transport, opened, closed, bytes };
}

const sockets = new Set<Socket>();
const servers: { close(): unknown }[] = [];
const listen = async (server: Server): Promise<number> => {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  return (server.address() as AddressInfo).port;
};
const echo = (socket: Socket): void => void socket.pipe(socket);

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  for (const server of servers.splice(0)) server.close();
});

/** A throw-away authority with one certificate for `localhost` and 127.0.0.1. */
function certificates() {
  const dir = mkdtempSync(join(tmpdir(), 'tls-'));
  const ssl = (...args: string[]): void => void execFileSync('openssl', args, { cwd: dir, stdio: 'ignore' });
  ssl(
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    'ca.key',
    '-out',
    'ca.crt',
    '-days',
    '2',
    '-subj',
    '/CN=test ca',
  );
  ssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost'); // prettier-ignore
  ssl('x509', '-req', '-in', 'server.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
    '-copy_extensions', 'copy', '-out', 'server.crt'); // prettier-ignore
  const read = (name: string): string => readFileSync(join(dir, name), 'utf8');
  const files = { ca: read('ca.crt'), cert: read('server.crt'), key: read('server.key') };
  rmSync(dir, { recursive: true });
  return files;
}

describe('TCP', () => {
  it('carries bytes both ways and ends in order', async () => {
    const port = await listen(createServer(echo));
    const { transport, opened, closed, bytes } = open({ scheme: 'tcp', host: '127.0.0.1', port });
    await opened;
    transport.write(Buffer.from('hello'));
    expect((await bytes(5)).toString()).toBe('hello');
    transport.end();
    expect(await closed).toBeUndefined();
  });

  it('tells the peer and the system code when nobody listens', async () => {
    const port = await listen(createServer());
    (servers.pop() as Server).close();
    const { closed } = open({ scheme: 'tcp', host: '127.0.0.1', port });
    expect(await closed).toMatchObject({
      code: 'ERR_CONNECTION',
      retriable: true,
      message: expect.stringContaining('ECONNREFUSED'),
    });
    expect((await closed)?.message).toContain(`tcp://127.0.0.1:${port}`);
  });

  it('gives up after the connect timeout', async () => {
    const port = await listen(createServer());
    // The handshake of TLS never comes from a silent TCP server.
    const { closed } = open({ scheme: 'tls', host: '127.0.0.1', port }, { connectTimeout: 50 });
    expect((await closed)?.message).toContain('no connection within 50 ms');
  });

  it('reports its own destroy reason', async () => {
    const port = await listen(createServer(echo));
    const { transport, opened, closed } = open({ scheme: 'tcp', host: '127.0.0.1', port });
    await opened;
    transport.destroy(new Error('enough'));
    expect((await closed)?.message).toContain('enough');
  });
});

it('a Unix socket is a transport like the others', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'unix-'));
  const path = join(dir, 's');
  const server = createServer(echo);
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  servers.push(server);
  const { transport, opened, bytes } = open({ scheme: 'unix', host: '', port: 0, path });
  await opened;
  transport.write(Buffer.from('x'));
  expect((await bytes(1)).toString()).toBe('x');
  rmSync(dir, { recursive: true });
});

describe('TLS', () => {
  const files = certificates();
  const other = certificates();
  const start = () => listen(createTlsServer({ cert: files.cert, key: files.key }, echo));

  it('verifies the certificate against the given authority and the host name', async () => {
    const port = await start();
    const { transport, opened, bytes } = open({ scheme: 'tls', host: 'localhost', port }, { tls: { ca: files.ca } });
    await opened;
    transport.write(Buffer.from('safe'));
    expect((await bytes(4)).toString()).toBe('safe');
  });

  it('refuses another authority, naming host and trust list', async () => {
    const port = await start();
    const { closed } = open({ scheme: 'tls', host: 'localhost', port }, { tls: { ca: other.ca } });
    const error = await closed;
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect(error?.message).toContain("'localhost'");
    expect(error?.message).toContain("'ca'");
  });

  it('refuses a host name that the certificate does not hold, naming both', async () => {
    const port = await start();
    const { closed } = open(
      { scheme: 'tls', host: 'localhost', port },
      { tls: { ca: files.ca, servername: 'broker.example' } },
    );
    const error = await closed;
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect(error?.message).toContain("'broker.example'");
    expect(error?.message).toContain('localhost');
  });

  it('sends the host name as SNI, or the name that is given, and offers the protocols of ALPN', async () => {
    const seen: unknown[] = [];
    const server = createTlsServer({ cert: files.cert, key: files.key, ALPNProtocols: ['mqtt'] }, (socket) => {
      seen.push([(socket as { servername?: string }).servername, socket.alpnProtocol]);
      echo(socket);
    });
    const port = await listen(server);
    const alpnProtocols = ['x-amzn-mqtt-ca', 'mqtt'];
    for (const tls of [
      { ca: files.ca, alpnProtocols },
      { rejectUnauthorized: false, servername: 'other.example' },
    ]) {
      const { transport, opened, bytes } = open({ scheme: 'tls', host: 'localhost', port }, { tls });
      await opened;
      transport.write(Buffer.from('x'));
      await bytes(1);
    }
    expect(seen).toEqual([
      ['localhost', 'mqtt'],
      ['other.example', false],
    ]);
  });

  it('accepts anything only when told so', async () => {
    const port = await start();
    const { opened } = open({ scheme: 'tls', host: 'localhost', port }, { tls: { rejectUnauthorized: false } });
    await opened;
  });
});

describe('WebSocket', () => {
  const serve = async (onSocket: (socket: import('ws').WebSocket) => void, handleProtocols?: () => string | false) => {
    const http = createHttpServer();
    const wss = new WebSocketServer({ server: http, ...(handleProtocols && { handleProtocols }) });
    wss.on('connection', onSocket);
    return listen(http);
  };

  it('carries bytes in binary frames under the subprotocol', async () => {
    const port = await serve((socket) => socket.on('message', (data) => socket.send(data as Buffer, { binary: true })));
    const { transport, opened, bytes, closed } = open({ scheme: 'ws', host: '127.0.0.1', port, path: '/mqtt' });
    await opened;
    transport.write(Buffer.from('ab'));
    transport.write(Buffer.from('cd'));
    expect((await bytes(4)).toString()).toBe('abcd');
    transport.end();
    expect(await closed).toBeUndefined();
  });

  it('closes on a text frame [MQTT5 6.0.0-1]', async () => {
    const port = await serve((socket) => socket.send('text'));
    const { closed } = open({ scheme: 'ws', host: '127.0.0.1', port });
    expect((await closed)?.message).toContain('text frame');
  });

  it('closes when the server takes no subprotocol', async () => {
    const port = await serve(
      () => undefined,
      () => false,
    );
    const { closed } = open({ scheme: 'ws', host: '127.0.0.1', port });
    expect(await closed).toMatchObject({ code: 'ERR_CONNECTION' });
  });
});

it('a description never holds user info, path or query', () => {
  expect(describeEndpoint({ scheme: 'wss', host: '::1', port: 443, path: '/mqtt?token=secret' })).toBe(
    'wss://[::1]:443',
  );
  expect(describeEndpoint({ scheme: 'tcp', host: 'h', port: 1 })).toBe('tcp://h:1');
});
