import { type Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { Link } from '../link.js';
import { DEFAULT_WAIT, type WireLog } from '../wire-log.js';
import { type PulsarCommandName, type PulsarCommands } from './commands.js';
import {
  encodeSimple,
  encodeWithPayload,
  encodeWithTail,
  type Frame,
  FrameSplitter,
  MalformedFrameError,
} from './frames.js';
import { type ProducerHandle } from './producer-handle.js';
import { type ConsumerHandle } from './subscription.js';

/** A command that the broker sends: its name and body, and the payload part of a MESSAGE. */
export type Outgoing = {
  readonly [Name in PulsarCommandName]: {
    readonly type: Name;
    readonly body: PulsarCommands[Name];
    readonly tail?: Buffer;
  };
}[PulsarCommandName];

/** What a connection needs from its broker. */
export interface ConnectionHost {
  readonly log: WireLog<PulsarCommands>;
  readonly maxFrameSize: number;
  receive(frame: Frame, connection: PulsarBrokerConnection): void | Promise<void>;
  malformed(error: MalformedFrameError, connection: PulsarBrokerConnection): void;
  closed(connection: PulsarBrokerConnection): void;
  /** Asks the hooks what becomes of a command that the broker sends by itself. */
  outgoing(command: Outgoing, connection: PulsarBrokerConnection): readonly (Outgoing | Buffer)[];
}

/** One client connection at the broker, and everything a test can do to it. */
export class PulsarBrokerConnection {
  /** The CONNECT command, once it came. */
  connect: PulsarCommands['connect'] | undefined;
  /** What the client's TLS handshake said: the name it asked for (SNI) and the common name of its certificate. */
  readonly tls: { readonly servername: string | undefined; readonly commonName: string | undefined } | undefined;
  /** CONNECTED was sent. */
  connected = false;
  /** By the client's producer id. */
  readonly producers = new Map<number, ProducerHandle>();
  /** By the client's consumer id. */
  readonly consumers = new Map<number, ConsumerHandle>();
  keepAliveTimer: NodeJS.Timeout | undefined;
  challengeTimer: NodeJS.Timeout | undefined;
  /** PINGs since anything came from the client. */
  unansweredPings = 0;

  private readonly link: Link;
  private readonly frames = new FrameSplitter();
  private readonly pongWaiters = new Set<(alive: boolean) => void>();
  private busy = false;
  private over = false;

  constructor(
    /** From 1, in the order of arrival at this broker. */
    readonly number: number,
    stream: Duplex,
    private readonly host: ConnectionHost,
  ) {
    host.log.record({ connection: number, direction: 'in', type: 'open', packet: undefined, bytes: Buffer.alloc(0) });
    this.tls = stream instanceof TLSSocket ? describeTls(stream) : undefined;
    this.link = new Link(stream, {
      onData: (chunk) => {
        this.frames.push(chunk);
        void this.read();
      },
      onClose: () => this.gone(),
    });
  }

  /** False once the broker has forgotten it, whatever the socket does. */
  get open(): boolean {
    return !this.over;
  }

  /** Sends exactly this command, hooks or not. */
  send<Name extends PulsarCommandName>(type: Name, body: PulsarCommands[Name], tail?: Buffer): void {
    const bytes = tail === undefined ? encodeSimple(type, body) : encodeWithTail(type, body, tail);
    if (!this.link.write(bytes)) return;
    this.host.log.record({ connection: this.number, direction: 'out', type, packet: body, bytes });
  }

  /** Sends exactly these bytes; the wire log has them as `raw`. */
  sendRaw(bytes: Buffer): void {
    if (!this.link.write(bytes)) return;
    this.host.log.record({ connection: this.number, direction: 'out', type: 'raw', packet: bytes, bytes });
  }

  /** A MESSAGE with this metadata (or its bytes) and payload; the checksum is computed. */
  sendMessage(body: PulsarCommands['message'], metadata: object | Buffer, payload: Uint8Array): void {
    const bytes = encodeWithPayload('message', body, metadata, payload);
    if (!this.link.write(bytes)) return;
    this.host.log.record({ connection: this.number, direction: 'out', type: 'message', packet: body, bytes });
  }

  /** A command of a type that no client can know: `[type = 1000]`, which must be ignored and never close anything. */
  sendUnknownCommand(): void {
    // field 1 (type), varint 1000
    const command = Buffer.from([0x08, 0xe8, 0x07]);
    const head = Buffer.alloc(8);
    head.writeUInt32BE(4 + command.length, 0);
    head.writeUInt32BE(command.length, 4);
    this.sendRaw(Buffer.concat([head, command]));
  }

  /** Sends what the broker would by itself: the hooks are asked first. */
  answer<Name extends PulsarCommandName>(type: Name, body: PulsarCommands[Name], tail?: Buffer): void {
    const command = { type, body, ...(tail !== undefined && { tail }) } as unknown as Outgoing;
    for (const item of this.host.outgoing(command, this)) {
      if (Buffer.isBuffer(item)) this.sendRaw(item);
      else this.send(item.type, item.body, item.tail);
    }
  }

  /** Resolves with the first command of this type that comes on this connection from now on. */
  async expect<Name extends PulsarCommandName>(type: Name, timeoutMs = DEFAULT_WAIT): Promise<PulsarCommands[Name]> {
    const filter = { connection: this.number, since: this.host.log.position };
    const [body] = await this.host.log.waitForReceived(type, 1, filter, timeoutMs);
    return body;
  }

  /** PINGs the client; false if nothing came back in time or the connection ended. */
  isAlive(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (alive: boolean): void => {
        clearTimeout(timer);
        this.pongWaiters.delete(end);
        resolve(alive);
      };
      const timer = setTimeout(() => end(false), timeoutMs);
      this.pongWaiters.add(end);
      this.answer('ping', {});
      if (this.over) end(false);
    });
  }

  pong(): void {
    for (const waiter of this.pongWaiters) waiter(true);
  }

  /** Closes; with `reset` the client sees ECONNRESET. */
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

  /** Of the next frame only the first `length` bytes leave, then the connection ends. */
  truncateNext(length: number): void {
    this.link.truncateNext(length);
  }

  /** One command at a time: a CONNECT whose authentication takes time holds up what came behind it. */
  private async read(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      for (;;) {
        if (this.over) return;
        const frame = this.frames.next(this.host.maxFrameSize);
        if (frame === undefined) return;
        this.unansweredPings = 0;
        const waiting = this.host.receive(frame, this);
        if (waiting !== undefined) await waiting;
      }
    } catch (error) {
      if (!(error instanceof MalformedFrameError)) throw error;
      const { bytes } = error;
      this.host.log.record({ connection: this.number, direction: 'in', type: 'malformed', packet: error, bytes });
      this.host.malformed(error, this);
    } finally {
      this.busy = false;
    }
  }

  private gone(): void {
    if (this.over) return;
    this.over = true;
    clearInterval(this.keepAliveTimer);
    clearTimeout(this.challengeTimer);
    for (const waiter of [...this.pongWaiters]) waiter(false);
    const { number: connection } = this;
    this.host.log.record({ connection, direction: 'in', type: 'close', packet: undefined, bytes: Buffer.alloc(0) });
    this.host.closed(this);
  }
}

function describeTls(socket: TLSSocket): PulsarBrokerConnection['tls'] {
  const { servername } = socket as { readonly servername?: string | false };
  // Without a client certificate it is an empty object.
  const { subject } = socket.getPeerCertificate() as { readonly subject?: { readonly CN?: string } };
  return { servername: servername === false ? undefined : servername, commonName: subject?.CN };
}
