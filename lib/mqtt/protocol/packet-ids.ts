/** SUBSCRIBE and UNSUBSCRIBE packets under way at a time. */
export const SUBSCRIBE_IDENTIFIERS = 255;

/** Publishes under way at a time, whatever the server allows: neither kind ever waits for an identifier of the other. */
export const PUBLISH_IDENTIFIERS = 65_535 - SUBSCRIBE_IDENTIFIERS;

/** Packet identifiers that we give: never one in use [MQTT-2.2.1-3], and a freed one as late as possible. */
export class PacketIds {
  private readonly used = new Uint8Array(65_536);
  private cursor = 0;
  private count = 0;

  /** Identifiers in use. */
  get size(): number {
    return this.count;
  }

  /** A free identifier, or 0 when all 65,535 are in use: the caller waits. */
  take(): number {
    if (this.count === 65_535) return 0;
    do this.cursor = (this.cursor % 65_535) + 1;
    while (this.used[this.cursor] === 1);
    this.used[this.cursor] = 1;
    this.count += 1;
    return this.cursor;
  }

  /** Marks one as in use that an earlier process gave; false if it was already. */
  reserve(id: number): boolean {
    if (this.used[id] === 1) return false;
    this.used[id] = 1;
    this.count += 1;
    return true;
  }

  release(id: number): void {
    if (this.used[id] === 0) return;
    this.used[id] = 0;
    this.count -= 1;
  }
}
