import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type Duplex } from 'node:stream';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

export interface ListenerOptions {
  /** Default 127.0.0.1: a test double is no server for others. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Speaks TLS, with these settings of Node (`cert`, `key`, `ca`, `requestCert`, ...). */
  readonly tls?: TlsOptions;
}

/** Accepts connections for a broker, and can be made unreachable in the two ways that clients see differently. */
export class Listener {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private refusing = false;
  /** Connections that were accepted and closed at once because of {@link Listener.refuse}. */
  refused = 0;

  private constructor(
    readonly host: string,
    private readonly tls: TlsOptions | undefined,
    private readonly onConnection: (stream: Duplex) => void,
  ) {}

  // set once by start(), kept over stopListening()
  port = 0;

  static async start(options: ListenerOptions, onConnection: (stream: Duplex) => void): Promise<Listener> {
    const listener = new Listener(options.host ?? '127.0.0.1', options.tls, onConnection);
    listener.port = options.port ?? 0;
    await listener.listen();
    return listener;
  }

  /** False while nobody could connect. */
  get listening(): boolean {
    return this.server !== undefined && !this.refusing;
  }

  /** True: connections are accepted and closed at once, as a load balancer without a backend does. */
  refuse(on: boolean): void {
    this.refusing = on;
  }

  /** Nobody listens any more (ECONNREFUSED); open connections live on. */
  async stopListening(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    // The callback of close() would wait for every open connection; the port is free as soon as it was called.
    server?.close();
    await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Listens (again), on the port it had. */
  async listen(): Promise<void> {
    if (this.server !== undefined) return;
    const { tls } = this;
    const server = tls === undefined ? createServer({ noDelay: true }) : createTlsServer({ noDelay: true, ...tls });
    server.on('connection', (socket: Socket) => this.accept(socket));
    server.on('secureConnection', (socket: Socket) => this.onConnection(socket));
    // A handshake that fails is the client's affair.
    server.on('tlsClientError', (_error, socket: Socket) => socket.destroy());
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.port, this.host, resolve);
    });
    this.server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  /** Stops listening and destroys every socket that is left, abandoned ones too. */
  async close(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    for (const socket of this.sockets) socket.destroy();
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  private accept(socket: Socket): void {
    if (this.refusing) {
      this.refused++;
      socket.on('error', () => undefined).destroy();
      return;
    }
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    if (this.tls === undefined) this.onConnection(socket);
  }
}
