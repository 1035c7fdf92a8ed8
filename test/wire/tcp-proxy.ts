import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { seededRandom } from './random.js';

/** What watches one proxied connection. Each chunk is shown before it is handed on, so a cause is always seen first. */
export interface Tap {
  fromClient(chunk: Buffer): void;
  fromServer(chunk: Buffer): void;
  closed(): void;
}

export interface TcpProxyOptions {
  readonly targetPort: number;
  /** Where it listens; any free port by default. */
  readonly port?: number;
  readonly tap?: (connection: number) => Tap;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

/** A TCP proxy on 127.0.0.1 that can break what passes through it. */
export class TcpProxy {
  readonly figures = { connections: 0, cuts: 0, cutConnections: 0, refused: 0 };
  private readonly pairs = new Set<Pair>();
  private stalled = false;
  private refusing = false;
  private cutting: NodeJS.Timeout | undefined;

  private constructor(
    private readonly listener: Server,
    private readonly options: TcpProxyOptions,
  ) {
    listener.on('connection', (client) => this.accept(client));
  }

  static async start(options: TcpProxyOptions): Promise<TcpProxy> {
    const listener = createServer({ noDelay: true });
    const proxy = new TcpProxy(listener, options);
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(options.port ?? 0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /** Destroys every open connection on both sides; bytes under way die with it, also in the middle of a frame. */
  cut(): void {
    if (this.pairs.size > 0) this.figures.cuts++;
    for (const { client, server } of [...this.pairs]) {
      this.figures.cutConnections++;
      client.resetAndDestroy();
      server.destroy();
    }
  }

  /** Nothing passes any more, in no direction; the connections stay open. */
  stall(): void {
    this.stalled = true;
    for (const { client, server } of this.pairs) {
      client.pause();
      server.pause();
    }
  }

  resume(): void {
    this.stalled = false;
    for (const { client, server } of this.pairs) {
      client.resume();
      server.resume();
    }
  }

  /** The server loses every connection, the clients are not told: what a dead NAT entry looks like from inside. */
  halfOpen(): void {
    for (const pair of [...this.pairs]) {
      this.pairs.delete(pair);
      pair.client.removeAllListeners('close');
      pair.server.removeAllListeners('close');
      pair.server.destroy();
      pair.client.removeAllListeners('data');
      pair.client.resume();
    }
  }

  /** New connections are closed at once. */
  refuse(on: boolean): void {
    this.refusing = on;
  }

  /** Cuts after `min` to `max` milliseconds, again and again. */
  startCutting(options: { readonly min: number; readonly max: number; readonly seed: number }): void {
    const random = seededRandom(options.seed);
    const next = (): void => {
      const delay = options.min + random() * (options.max - options.min);
      this.cutting = setTimeout(() => {
        this.cut();
        next();
      }, delay);
    };
    next();
  }

  stopCutting(): void {
    clearTimeout(this.cutting);
  }

  async close(): Promise<void> {
    this.stopCutting();
    for (const { client, server } of [...this.pairs]) {
      client.destroy();
      server.destroy();
    }
    await new Promise<void>((resolve) => this.listener.close(() => resolve()));
  }

  private accept(client: Socket): void {
    if (this.refusing) {
      this.figures.refused++;
      client.on('error', () => undefined).destroy();
      return;
    }
    const connection = this.figures.connections++;
    const tap = this.options.tap?.(connection);
    const server = connect({ host: '127.0.0.1', port: this.options.targetPort, noDelay: true });
    const pair: Pair = { client, server };
    this.pairs.add(pair);
    if (this.stalled) {
      client.pause();
      server.pause();
    }
    let open = true;
    const end = (): void => {
      if (!open) return;
      open = false;
      this.pairs.delete(pair);
      client.destroy();
      server.destroy();
      tap?.closed();
    };
    client.on('error', end).on('close', end);
    server.on('error', end).on('close', end);
    this.hand(client, server, tap && ((chunk) => tap.fromClient(chunk)));
    this.hand(server, client, tap && ((chunk) => tap.fromServer(chunk)));
  }

  private hand(from: Socket, to: Socket, watch: ((chunk: Buffer) => void) | undefined): void {
    from.on('data', (chunk: Buffer) => {
      watch?.(chunk);
      if (!to.destroyed && !to.write(chunk)) from.pause();
    });
    to.on('drain', () => {
      if (!this.stalled) from.resume();
    });
    from.on('end', () => to.end());
  }
}
