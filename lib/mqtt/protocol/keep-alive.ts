/** So many bytes of an incomplete packet say that a large one is on its way. */
const SIGN_OF_LIFE = 1024;

/** When to ping, and when the silence has lasted too long. Times in ms. */
export class KeepAlive {
  private interval = 0;
  private pingTimeout = 0;
  private lastSent = 0;
  private lastReceived = 0;
  /** When the unanswered PINGREQ went out. */
  private pingedAt: number | undefined = undefined;
  private paused = false;
  /** Bytes since the last sign of life. */
  private incomplete = 0;

  /**
   * @param seconds Keep Alive of this connection, the server's where it gave one; 0 = off
   * @param pingTimeout undefined: half the keep alive, 1 to 10 s
   */
  start(seconds: number, pingTimeout: number | undefined, now: number): void {
    // A little early: the server's clock starts when our last packet arrives, and may be strict.
    this.interval = seconds * 900;
    this.pingTimeout = pingTimeout ?? Math.min(10_000, Math.max(1000, seconds * 500));
    this.lastSent = now;
    this.lastReceived = now;
    this.pingedAt = undefined;
    this.incomplete = 0;
    this.paused = false;
  }

  stop(): void {
    this.interval = 0;
    this.pingedAt = undefined;
  }

  sent(now: number): void {
    this.lastSent = now;
  }

  /**
   * A whole packet came, or `bytes` of one that is not complete yet. A few bytes are no sign of life: where the length of
   * a packet is wrong, all that comes may be PINGRESPs, and it would wait for its end for ever.
   */
  received(now: number, bytes = SIGN_OF_LIFE): void {
    this.incomplete += bytes;
    if (this.incomplete < SIGN_OF_LIFE) return;
    this.incomplete = 0;
    this.lastReceived = now;
    this.pingedAt = undefined;
  }

  /** While we do not read, the server's silence means nothing. */
  setPaused(paused: boolean, now: number): void {
    this.paused = paused;
    if (!paused && this.pingedAt !== undefined) this.pingedAt = now;
  }

  nextDeadline(): number | undefined {
    if (this.interval === 0) return undefined;
    if (this.pingedAt === undefined) return this.nextPing();
    // Further pings keep the server's side alive while ours may not listen.
    return this.paused ? this.lastSent + this.interval : Math.min(this.pingedAt + this.pingTimeout, this.nextPing());
  }

  /** Also a link that only we use must be probed: the server may be gone [MQTT5 3.1.2.10]. */
  private nextPing(): number {
    const since = this.pingedAt === undefined ? Math.min(this.lastSent, this.lastReceived) : this.lastSent;
    return since + this.interval;
  }

  check(now: number): 'dead' | 'ping' | undefined {
    if (this.interval === 0) return undefined;
    if (!this.paused && this.pingedAt !== undefined && now >= this.pingedAt + this.pingTimeout) return 'dead';
    if (now < this.nextPing()) return undefined;
    this.pingedAt ??= now;
    this.lastSent = now;
    return 'ping';
  }

  get silence(): number {
    return this.pingTimeout;
  }
}
