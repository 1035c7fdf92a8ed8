import { type Duplex } from 'node:stream';
import { Link } from './link.js';
import { DEFAULT_WAIT, type WireLog } from './wire-log.js';

/** The client sent bytes that cannot be read. */
export class MalformedError extends Error {
  constructor(
    message: string,
    readonly bytes: Buffer,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** The entries of every wire log that are no packet. */
export interface WireEvents {
  /** Bytes sent as they are. */
  raw: Buffer;
  /** Bytes that could not be read. */
  malformed: MalformedError;
  /** The connection was accepted, or is gone. */
  open: undefined;
  close: undefined;
}

/** One client connection at a broker, without what is said on it: reading it, and the ways in which a test can break it. */
export abstract class BrokerConnection<Packets extends WireEvents> {
  private readonly link: Link;
  private busy = false;
  private over = false;

  constructor(
    /** From 1, in the order of arrival at this broker. */
    readonly number: number,
    stream: Duplex,
    private readonly log: WireLog<Packets>,
  ) {
    this.recordEvent('in', 'open', undefined);
    this.link = new Link(stream, {
      onData: (chunk) => {
        this.take(chunk);
        void this.read();
      },
      onClose: () => this.gone(),
    });
  }

  /** False once the broker has forgotten it, whatever the socket does. */
  get open(): boolean {
    return !this.over;
  }

  /** Sends exactly these bytes; the wire log has them as `raw`. */
  sendRaw(bytes: Buffer): void {
    if (this.link.write(bytes)) this.recordEvent('out', 'raw', bytes, bytes);
  }

  /** Resolves with the first packet or command of this type that comes on this connection from now on. */
  async expect<Type extends keyof Packets>(type: Type, timeoutMs = DEFAULT_WAIT): Promise<Packets[Type]> {
    const filter = { connection: this.number, since: this.log.position };
    const [packet] = await this.log.waitForReceived(type, 1, filter, timeoutMs);
    return packet;
  }

  /** Closes without a word; with `reset` the client sees ECONNRESET. */
  cut(options: { readonly reset?: boolean } = {}): void {
    this.link.cut(options.reset ?? false);
  }

  /** Sends what was written, then closes. */
  end(): void {
    this.link.end();
  }

  /** The broker forgets the connection, the client is not told. */
  halfOpen(): void {
    this.link.abandon();
  }

  /** Bytes are no longer read and no longer sent, or one of both; the connection stays open. */
  stall(what?: { readonly reads?: boolean; readonly writes?: boolean }): void {
    this.link.stall(what);
  }

  unstall(): void {
    this.link.unstall();
  }

  /** Of the next packet or frame only the first `length` bytes leave, then the connection ends. */
  truncateNext(length: number): void {
    this.link.truncateNext(length);
  }

  /** Writes and records; false when nothing will ever be sent here again. */
  protected write<Type extends keyof Packets>(type: Type, packet: Packets[Type], bytes: Buffer): boolean {
    if (!this.link.write(bytes)) return false;
    this.log.record({ connection: this.number, direction: 'out', type, packet, bytes });
    return true;
  }

  /** Keeps bytes until `step()` reads them. */
  protected abstract take(chunk: Buffer): void;

  /**
   * Reads and handles one whole packet or frame; a promise holds up those behind it, `false`: there is none.
   *
   * @throws MalformedError
   */
  protected abstract step(): Promise<void> | void | false;

  /** After bytes that could not be read; nothing is read any more unless more of them come. */
  protected abstract malformed(error: Packets['malformed']): void;

  /** The broker has forgotten it. */
  protected abstract closed(): void;

  /** One at a time: a CONNECT whose authentication takes time holds up what came behind it. */
  private async read(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      while (!this.over) {
        const waiting = this.step();
        if (waiting === false) return;
        if (waiting !== undefined) await waiting;
      }
    } catch (error) {
      // Anything else is a fault of the broker's own.
      if (!(error instanceof MalformedError)) throw error;
      this.recordEvent('in', 'malformed', error, error.bytes);
      this.malformed(error);
    } finally {
      this.busy = false;
    }
  }

  private gone(): void {
    if (this.over) return;
    this.over = true;
    this.recordEvent('in', 'close', undefined);
    this.closed();
  }

  private recordEvent<Type extends keyof WireEvents>(
    direction: 'in' | 'out',
    type: Type,
    packet: WireEvents[Type],
    bytes: Buffer = Buffer.alloc(0),
  ): void {
    this.log.record({ connection: this.number, direction, type, packet: packet as Packets[Type], bytes });
  }
}
