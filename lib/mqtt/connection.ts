import { type Dialer, type Transport } from '../net/transport.js';

export interface ConnectionHandlers {
  opened(): void;
  data(chunk: Buffer): void;
  drain(): void;
  /** Once, and never after `drop()`. */
  closed(error: Error | undefined): void;
}

/** One transport from its dialling to its end. After `drop()` nothing of it is heard any more. */
export class MqttConnection {
  private readonly transport: Transport;
  private dropped = false;

  constructor(dial: Dialer, handlers: ConnectionHandlers) {
    this.transport = dial({
      onOpen: () => {
        if (!this.dropped) handlers.opened();
      },
      onData: (chunk) => {
        if (!this.dropped) handlers.data(chunk);
      },
      onDrain: () => {
        if (!this.dropped) handlers.drain();
      },
      onClose: (error) => {
        if (this.dropped) return;
        this.dropped = true;
        handlers.closed(error);
      },
    });
  }

  /** False: the transport's buffer is full, `drain` follows. */
  write(chunks: readonly Buffer[]): boolean {
    if (this.dropped) return true;
    let writable = true;
    for (const chunk of joined(chunks)) writable = this.transport.write(chunk);
    return writable;
  }

  setReading(paused: boolean): void {
    if (this.dropped) return;
    if (paused) this.transport.pause();
    else this.transport.resume();
  }

  end(): void {
    if (this.dropped) return;
    // A paused socket never sees the peer's end.
    this.transport.resume();
    this.transport.end();
  }

  drop(error: Error): void {
    if (this.dropped) return;
    this.dropped = true;
    this.transport.destroy(error);
  }
}

/** Small pieces together, so that one turn is one write; large ones as they are, so that nothing large is copied. */
function* joined(chunks: readonly Buffer[]): Generator<Buffer> {
  if (chunks.length === 1) {
    yield chunks[0];
    return;
  }
  let small: Buffer[] = [];
  let bytes = 0;
  for (const chunk of chunks) {
    if (chunk.length >= LARGE || bytes + chunk.length > MAX_JOINED) {
      if (small.length > 0) yield small.length === 1 ? small[0] : Buffer.concat(small, bytes);
      small = [];
      bytes = 0;
    }
    if (chunk.length >= LARGE) yield chunk;
    else {
      small.push(chunk);
      bytes += chunk.length;
    }
  }
  if (small.length > 0) yield small.length === 1 ? small[0] : Buffer.concat(small, bytes);
}

const LARGE = 16 * 1024;
const MAX_JOINED = 256 * 1024;
