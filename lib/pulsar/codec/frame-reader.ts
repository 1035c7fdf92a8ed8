/** Cuts a broker's byte stream into commands, whatever the chunks. */
import { errorText } from '../../error-text.js';
import { RemoteProtocolError } from '../../errors.js';
import { type ServerCommand } from './command-types.js';
import { decodeCommand } from './commands.js';
import { malformed } from './malformed.js';

export type Frame = ServerCommand;

/**
 * `push` bytes, then take commands with `next` until it gives undefined. After the first error every further `next` throws
 * the same one: a stream that is wrong once cannot be trusted again. Bytes in a command are views of the chunk it came in.
 */
export class FrameReader {
  #maxFrameSize: number;
  #failure: RemoteProtocolError | undefined;

  /** The chunk that is read, from where; further chunks wait. */
  #chunk: Buffer = EMPTY;
  #at = 0;
  #waiting: Buffer[] = [];

  /** A frame that spans chunks: its size field while that is not complete, then its bytes. */
  readonly #head = Buffer.alloc(4);
  #headFilled = 0;
  #frame: Buffer | undefined;
  #filled = 0;

  /** @param options.maxFrameSize largest frame without its size field, in bytes; a larger one is refused before buffering */
  constructor(options: { readonly maxFrameSize: number }) {
    this.#maxFrameSize = options.maxFrameSize;
  }

  /** For what CONNECTED announces: its message size and `FRAME_PADDING`. */
  setMaxFrameSize(bytes: number): void {
    this.#maxFrameSize = bytes;
  }

  /** Bytes held for frames that are not complete or not read. */
  get bufferedBytes(): number {
    const held = this.#headFilled + this.#filled + this.#chunk.length - this.#at;
    return this.#waiting.reduce((sum, chunk) => sum + chunk.length, held);
  }

  push(chunk: Buffer): void {
    if (this.#failure !== undefined || chunk.length === 0) return;
    if (this.#at === this.#chunk.length && this.#waiting.length === 0) {
      this.#chunk = chunk;
      this.#at = 0;
    } else this.#waiting.push(chunk);
  }

  /** @throws RemoteProtocolError for bytes that are no frame, or one that is too large */
  next(): Frame | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      return this.#read();
    } catch (error) {
      this.#failure = error instanceof RemoteProtocolError ? error : malformed(errorText(error));
      this.#chunk = EMPTY;
      this.#at = 0;
      this.#waiting = [];
      this.#headFilled = 0;
      this.#frame = undefined;
      this.#filled = 0;
      throw this.#failure;
    }
  }

  #read(): Frame | undefined {
    for (;;) {
      const available = this.#chunk.length - this.#at;
      if (available === 0) {
        const chunk = this.#waiting.shift();
        if (chunk === undefined) return undefined;
        this.#chunk = chunk;
        this.#at = 0;
      } else if (this.#frame !== undefined) {
        this.#filled += this.#take(this.#frame, this.#filled);
        if (this.#filled === this.#frame.length) {
          const frame = this.#frame;
          this.#frame = undefined;
          this.#filled = 0;
          return decodeFrame(frame, 0, frame.length);
        }
      } else if (this.#headFilled > 0 || available < 4) {
        this.#headFilled += this.#take(this.#head, this.#headFilled);
        if (this.#headFilled === 4) {
          this.#headFilled = 0;
          this.#frame = Buffer.allocUnsafe(this.#checked(this.#head.readUInt32BE(0)));
        }
      } else {
        const chunk = this.#chunk;
        const start = this.#at + 4;
        const size = this.#checked(chunk.readUInt32BE(this.#at));
        this.#at = start;
        if (start + size <= chunk.length) {
          this.#at = start + size;
          return decodeFrame(chunk, start, start + size);
        }
        this.#frame = Buffer.allocUnsafe(size);
      }
    }
  }

  /** Copies from the chunk what `target` still needs. */
  #take(target: Buffer, filled: number): number {
    const copied = this.#chunk.copy(target, filled, this.#at, this.#at + target.length - filled);
    this.#at += copied;
    return copied;
  }

  #checked(size: number): number {
    if (size < 4) throw malformed(`a frame of ${size} bytes`);
    if (size > this.#maxFrameSize) {
      throw new RemoteProtocolError(
        `The broker announces a frame of ${size} bytes, the limit is ${this.#maxFrameSize}`,
      );
    }
    return size;
  }
}

const EMPTY = Buffer.alloc(0);

function decodeFrame(buffer: Buffer, start: number, end: number): Frame {
  const commandStart = start + 4;
  const commandSize = buffer.readUInt32BE(start);
  if (commandSize > end - commandStart) throw malformed(`a command of ${commandSize} bytes in a shorter frame`);
  return decodeCommand(buffer, commandStart, commandStart + commandSize, end);
}
