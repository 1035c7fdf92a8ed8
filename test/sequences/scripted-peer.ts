import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

const PINGREQ = 12;
const PINGRESP = Buffer.from([0xd0, 0]);

/** The server's end of one connection: the client's packets one at a time, PINGREQ answered and left out. */
export class ScriptedPeer {
  readonly port: number;
  #server: Server;
  #socket: Socket | undefined;
  #bytes: Buffer = Buffer.alloc(0);
  #packets: Buffer[] = [];
  #closed = false;
  #wake: (() => void) | undefined;

  private constructor(server: Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.once('connection', (socket) => {
      // One line, one connection: what the client tries afterwards is refused.
      server.close();
      this.#socket = socket;
      socket.setNoDelay(true);
      socket.on('data', (chunk: Buffer) => this.#read(chunk));
      for (const event of ['end', 'error', 'close'] as const) socket.on(event, () => this.#end());
      this.#wake?.();
    });
  }

  static async listen(): Promise<ScriptedPeer> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ScriptedPeer(server);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** @returns false if no connection came within the time */
  async connected(ms: number): Promise<boolean> {
    return this.#until(() => this.#socket !== undefined, ms);
  }

  send(bytes: Buffer): void {
    if (!this.#closed) this.#socket?.write(bytes);
  }

  /** The next packet of the client; undefined when the connection closed or the time passed without one. */
  async next(ms: number): Promise<Buffer | undefined> {
    await this.#until(() => this.#packets.length > 0 || this.#closed, ms);
    return this.#packets.shift();
  }

  /** Whether the client closes the connection within the time. */
  async closes(ms: number): Promise<boolean> {
    return this.#until(() => this.#closed, ms);
  }

  destroy(): void {
    this.#server.close();
    this.#socket?.destroy();
  }

  async #until(condition: () => boolean, ms: number): Promise<boolean> {
    const end = Date.now() + ms;
    while (!condition()) {
      const rest = end - Date.now();
      if (rest <= 0) return false;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, rest);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return true;
  }

  #end(): void {
    this.#closed = true;
    this.#wake?.();
  }

  #read(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    for (let size = frameSize(this.#bytes); size > 0; size = frameSize(this.#bytes)) {
      const packet = this.#bytes.subarray(0, size);
      this.#bytes = this.#bytes.subarray(size);
      if (packet[0] >> 4 === PINGREQ) this.send(PINGRESP);
      else this.#packets.push(packet);
    }
    this.#wake?.();
  }
}

/** Bytes of the first packet, 0 while it is not complete. */
function frameSize(bytes: Buffer): number {
  let length = 0;
  for (let index = 1; index < Math.min(bytes.length, 5); index += 1) {
    length += (bytes[index] & 0x7f) * 2 ** (7 * (index - 1));
    if (bytes[index] < 0x80) return bytes.length >= index + 1 + length ? index + 1 + length : 0;
  }
  return 0;
}
