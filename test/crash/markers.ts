import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';

/**
 * What the handlers of the test app write into a file, synchronously, so that a SIGKILL loses none of it:
 * `S` started, `E` ended well with everything it emitted stored, `F` threw by chance or because a send failed, `P` threw
 * because of the payload; with the message's number. An `E` stands before whatever starts in the place that became free.
 */
export class MarkerWriter {
  private readonly file: number;

  constructor(path: string) {
    this.file = openSync(path, 'a');
  }

  started(id: number): void {
    writeSync(this.file, `S${id}\n`);
  }

  ended(id: number): void {
    writeSync(this.file, `E${id}\n`);
  }

  failed(id: number): void {
    writeSync(this.file, `F${id}\n`);
  }

  poisoned(id: number): void {
    writeSync(this.file, `P${id}\n`);
  }

  close(): void {
    closeSync(this.file);
  }
}

export interface HandlerFigures {
  readonly started: number;
  readonly ended: number;
  /** Threw by chance, or because a send failed. */
  readonly failed: number;
  /** Threw because of the payload. */
  readonly poisoned: number;
  /** Started and neither ended nor thrown: they hold one of the running places. */
  readonly running: number;
  readonly maxRunning: number;
}

export function readMarkers(path: string): HandlerFigures {
  const figures = { started: 0, ended: 0, failed: 0, poisoned: 0, running: 0, maxRunning: 0 };
  const text = existsSync(path) ? readFileSync(path, 'latin1') : '';
  for (let at = 0; at < text.length; at = text.indexOf('\n', at) + 1 || text.length) {
    const kind = text[at];
    if (kind === 'S') figures.started++;
    else if (kind === 'E') figures.ended++;
    else if (kind === 'F') figures.failed++;
    else if (kind === 'P') figures.poisoned++;
    figures.running = figures.started - figures.ended - figures.failed - figures.poisoned;
    figures.maxRunning = Math.max(figures.maxRunning, figures.running);
  }
  return figures;
}
