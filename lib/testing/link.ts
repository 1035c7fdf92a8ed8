import { Socket } from 'node:net';
import { type Duplex } from 'node:stream';

export interface LinkHandlers {
  onData(chunk: Buffer): void;
  /** Exactly once, when the stream is gone whoever ended it; never after {@link Link.abandon}. */
  onClose(): void;
}

/** The broker's end of one connection, with the ways in which a network can fail built in. */
export class Link {
  private readonly heldWrites: Buffer[] = [];
  private writesStalled = false;
  private truncateAt: number | undefined;
  private closed = false;
  private abandoned = false;
  private corked = false;

  constructor(
    private readonly stream: Duplex,
    private readonly handlers: LinkHandlers,
  ) {
    stream.on('data', (chunk: Buffer) => {
      if (!this.closed && !this.abandoned) handlers.onData(chunk);
    });
    stream.on('error', () => undefined);
    stream.on('end', () => stream.end());
    stream.once('close', () => this.gone());
  }

  get open(): boolean {
    return !this.closed && !this.abandoned;
  }

  /** Writes of one turn leave together. False when nothing will ever be sent here again. */
  write(bytes: Buffer): boolean {
    if (!this.open) return false;
    if (this.writesStalled) {
      this.heldWrites.push(bytes);
      return true;
    }
    if (this.truncateAt !== undefined) {
      const kept = bytes.subarray(0, this.truncateAt);
      this.truncateAt = undefined;
      this.stream.write(kept);
      this.end();
      return true;
    }
    if (!this.corked) {
      this.corked = true;
      this.stream.cork();
      process.nextTick(() => this.flush());
    }
    this.stream.write(bytes);
    return true;
  }

  /** Bytes are no longer read (`reads`), no longer sent (`writes`), or both; the connection stays open. */
  stall(what: { readonly reads?: boolean; readonly writes?: boolean } = { reads: true, writes: true }): void {
    if (what.reads === true) this.stream.pause();
    if (what.writes === true) this.writesStalled = true;
  }

  /** Ends a stall; what was held back leaves in order. */
  unstall(): void {
    this.stream.resume();
    this.writesStalled = false;
    for (const bytes of this.heldWrites.splice(0)) this.write(bytes);
  }

  /** Of the next written packet only the first `length` bytes leave, then the connection ends. */
  truncateNext(length: number): void {
    this.truncateAt = length;
  }

  /** Our side forgets the connection, the peer is not told: what a dead NAT entry looks like from inside. */
  abandon(): void {
    if (this.closed || this.abandoned) return;
    this.abandoned = true;
    this.stream.resume();
    this.handlers.onClose();
  }

  /** Sends what was written, then closes. */
  end(): void {
    this.flush();
    const stream = this.stream;
    // Destroyed once written: a peer that never closes its side must not keep ours.
    stream.end(() => stream.destroy());
    this.gone();
  }

  /** Closes now; with `reset` the peer sees ECONNRESET and loses what it had not read yet. */
  cut(reset = false): void {
    if (reset && this.stream instanceof Socket) this.stream.resetAndDestroy();
    else {
      this.flush();
      this.stream.destroy();
    }
    this.gone();
  }

  private flush(): void {
    if (!this.corked) return;
    this.corked = false;
    this.stream.uncork();
  }

  private gone(): void {
    if (this.closed) return;
    this.closed = true;
    if (!this.abandoned) this.handlers.onClose();
  }
}
