import { type KeyHash } from './hashes.js';

/** What a router sees of a message. */
export interface RoutedMessage {
  readonly key?: string;
  readonly keyBytes?: Uint8Array;
  readonly payload?: Uint8Array | null;
  readonly properties?: Readonly<Record<string, string>>;
}

/** Gives the partition, 0 to `partitions - 1`, of a message. Called in the order of the sends. */
export type MessageRouter = (message: RoutedMessage, partitions: number) => number;

/**
 * Messages with a key go by its hash, the others as `keyless` says. A key of bytes is hashed as the base64 text that stands
 * in the metadata, as the Java client does.
 */
export function keyRouter(hash: KeyHash, keyless: MessageRouter): MessageRouter {
  return (message, partitions) => {
    const key = message.keyBytes === undefined ? message.key : base64(message.keyBytes);
    return key === undefined ? keyless(message, partitions) : hash(Buffer.from(key, 'utf8')) % partitions;
  };
}

/**
 * One partition after the other, changing with each batch as the Java client does, so that messages in a row share a
 * batch: after `perTurn` messages or `maxBytes` of them, or when as much time has passed as a batch may wait.
 */
export class RoundRobin {
  private current: number;
  private messages = 0;
  private bytes = 0;
  private now = 0;
  private since = 0;

  /**
   * @param start any non-negative integer: where to begin, so that many producers do not all begin at 0
   * @param maxTime milliseconds of one turn
   */
  constructor(
    start: number,
    private readonly perTurn: number,
    private readonly maxBytes: number,
    private readonly maxTime: number,
  ) {
    this.current = start;
  }

  /** Before each message. @param now monotonic milliseconds */
  advance(now: number): void {
    this.now = now;
  }

  readonly route: MessageRouter = (message, partitions) => {
    const size = message.payload?.length ?? 0;
    if (this.messages > 0 && this.isOver(size)) this.turnOver();
    if (this.messages === 0) this.since = this.now;
    this.messages += 1;
    this.bytes += size;
    return this.current % partitions;
  };

  private isOver(size: number): boolean {
    if (this.messages >= this.perTurn || this.bytes + size > this.maxBytes) return true;
    return this.now - this.since >= this.maxTime;
  }

  private turnOver(): void {
    this.current += 1;
    this.messages = 0;
    this.bytes = 0;
  }
}

/** All messages without a key to one partition. */
export function singlePartition(choice: number): MessageRouter {
  return (_message, partitions) => choice % partitions;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
