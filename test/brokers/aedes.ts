import { createServer, type Server, type Socket } from 'node:net';
import { Aedes } from 'aedes';
import { freePort } from './ports.js';

/** aedes, an MQTT 3.1.1 broker in JavaScript, in this process. Its sessions outlive `restart()`, not the process. */
export class EmbeddedAedes {
  readonly url: string;
  private readonly sockets = new Set<Socket>();
  private listener: Server | undefined;

  private constructor(
    readonly port: number,
    private readonly broker: Aedes,
  ) {
    this.url = `mqtt://127.0.0.1:${port}`;
  }

  static async start(): Promise<EmbeddedAedes> {
    const aedes = new EmbeddedAedes(await freePort(), await Aedes.createBroker());
    await aedes.listen();
    return aedes;
  }

  /** Closes the listener and every connection. */
  async stop(): Promise<void> {
    const { listener } = this;
    this.listener = undefined;
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => (listener === undefined ? resolve() : listener.close(() => resolve())));
  }

  async kill(): Promise<void> {
    await this.stop();
    await new Promise<void>((resolve) => this.broker.close(() => resolve()));
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.listen();
  }

  private async listen(): Promise<void> {
    const listener = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => this.sockets.delete(socket));
      this.broker.handle(socket);
    });
    this.listener = listener;
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(this.port, '127.0.0.1', resolve);
    });
  }
}
