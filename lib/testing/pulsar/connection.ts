import { type Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { BrokerConnection } from '../connection.js';
import { type WireLog } from '../wire-log.js';
import { type PulsarCommandName, type PulsarCommands } from './commands.js';
import {
  encodeSimple,
  encodeWithPayload,
  encodeWithTail,
  type Frame,
  FrameSplitter,
  type MalformedFrameError,
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
export class PulsarBrokerConnection extends BrokerConnection<PulsarCommands> {
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

  private readonly frames = new FrameSplitter();
  private readonly pongWaiters = new Set<(alive: boolean) => void>();

  constructor(
    number: number,
    stream: Duplex,
    private readonly host: ConnectionHost,
  ) {
    super(number, stream, host.log);
    this.tls = stream instanceof TLSSocket ? describeTls(stream) : undefined;
  }

  /** Sends exactly this command, hooks or not. */
  send<Name extends PulsarCommandName>(type: Name, body: PulsarCommands[Name], tail?: Buffer): void {
    this.write(type, body, tail === undefined ? encodeSimple(type, body) : encodeWithTail(type, body, tail));
  }

  /** A MESSAGE with this metadata (or its bytes) and payload; the checksum is computed. */
  sendMessage(body: PulsarCommands['message'], metadata: object | Buffer, payload: Uint8Array): void {
    this.write('message', body, encodeWithPayload('message', body, metadata, payload));
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
      if (!this.open) end(false);
    });
  }

  pong(): void {
    for (const waiter of this.pongWaiters) waiter(true);
  }

  protected take(chunk: Buffer): void {
    this.frames.push(chunk);
  }

  protected step(): Promise<void> | void | false {
    const frame = this.frames.next(this.host.maxFrameSize);
    if (frame === undefined) return false;
    this.unansweredPings = 0;
    return this.host.receive(frame, this);
  }

  protected malformed(error: MalformedFrameError): void {
    this.host.malformed(error, this);
  }

  protected closed(): void {
    clearInterval(this.keepAliveTimer);
    clearTimeout(this.challengeTimer);
    for (const waiter of [...this.pongWaiters]) waiter(false);
    this.host.closed(this);
  }
}

function describeTls(socket: TLSSocket): PulsarBrokerConnection['tls'] {
  const { servername } = socket as { readonly servername?: string | false };
  // Without a client certificate it is an empty object.
  const { subject } = socket.getPeerCertificate() as { readonly subject?: { readonly CN?: string } };
  return { servername: servername === false ? undefined : servername, commonName: subject?.CN };
}
