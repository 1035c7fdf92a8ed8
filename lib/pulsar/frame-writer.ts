import { type Clock } from '../net/clock.js';
import { type Transport } from '../net/transport.js';

/**
 * Gathers the frames of one turn of the event loop: small ones are copied into one buffer, large ones are written as they
 * are, all in order. A buffer that was handed over is never written to again.
 */
export class FrameWriter {
  private frames: Buffer[] = [];
  private scheduled = false;

  /** Set once the connection is dialled; nothing is written before. */
  transport: Transport | undefined = undefined;

  constructor(private readonly clock: Clock) {}

  write(frame: Buffer): void {
    this.frames.push(frame);
    if (this.scheduled) return;
    this.scheduled = true;
    this.clock.endOfTurn(this.flush);
  }

  readonly flush = (): void => {
    this.scheduled = false;
    const { frames, transport } = this;
    if (frames.length === 0) return;
    this.frames = [];
    if (transport === undefined) return;
    let first = 0;
    let size = 0;
    for (let index = 0; index < frames.length; index++) {
      const frame = frames[index];
      if (frame.length < LARGE && size + frame.length <= GATHERED) {
        size += frame.length;
        continue;
      }
      gather(transport, frames, first, index, size);
      const alone = frame.length >= LARGE;
      if (alone) transport.write(frame);
      first = alone ? index + 1 : index;
      size = alone ? 0 : frame.length;
    }
    gather(transport, frames, first, frames.length, size);
  };

  drop(): void {
    this.frames = [];
  }
}

/** A frame from this size on costs more to copy than to hand over apart. */
const LARGE = 16 * 1024;
const GATHERED = 128 * 1024;

function gather(transport: Transport, frames: readonly Buffer[], first: number, end: number, size: number): void {
  if (end - first === 0) return;
  if (end - first === 1) {
    transport.write(frames[first]);
    return;
  }
  const buffer = Buffer.allocUnsafe(size);
  let at = 0;
  for (let index = first; index < end; index++) {
    buffer.set(frames[index], at);
    at += frames[index].length;
  }
  transport.write(buffer);
}
