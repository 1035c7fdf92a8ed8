/** SUBSCRIBE and UNSUBSCRIBE packets under way at a time. */
export const SUBSCRIBE_IDENTIFIERS = 255;

/** Publishes under way at a time, whatever the server allows: neither kind ever waits for an identifier of the other. */
export const PUBLISH_IDENTIFIERS = 65_535 - SUBSCRIBE_IDENTIFIERS;

/** Packet identifiers that we give: never one in use [MQTT-2.2.1-3], and a freed one as late as possible. */
export class PacketIds {
  private readonly used = new Uint8Array(65_536);
  private cursor = 0;
  private step: 1 | -1 = 1;
  private count = 0;

  /**
   * Identifiers of the server's deliveries: taken only when no other is free. Each side has its own [MQTT5 2.2.1], but mochi
   * 2.7.9 forgets an un-acknowledged delivery when a publish of ours has its identifier.
   */
  avoided: (id: number) => boolean = () => false;

  /** Identifiers in use. */
  get size(): number {
    return this.count;
  }

  /** A free identifier, or 0 when all 65,535 are in use: the caller waits. */
  take(): number {
    if (this.count === 65_535) return 0;
    let tries = 0;
    do {
      tries += 1;
      this.cursor += this.step;
      if (this.cursor > 65_535) this.cursor = 1;
      else if (this.cursor < 1) this.cursor = 65_535;
    } while (this.used[this.cursor] === 1 || (tries <= 65_535 && this.avoided(this.cursor)));
    this.used[this.cursor] = 1;
    this.count += 1;
    return this.cursor;
  }

  /**
   * For a server that takes the identifiers of its own deliveries for ours (mochi 2.7.9 keeps both in one table): servers
   * count up from 1, so we count down from the top from now on.
   */
  evade(): void {
    if (this.step === 1) this.cursor = 0;
    this.step = -1;
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
