import { type Inbound } from './inbound.js';
import { type Outbound } from './outbound.js';
import { type Subscriptions } from './subscriptions.js';

/**
 * Whether the server's packets are taken in. Reading stops only while nothing of ours awaits an answer: behind the
 * messages that we do not want yet may stand the PUBACK that a running handler waits for.
 */
export class Intake {
  /** `pauseIntake()` of the owner. */
  paused = false;
  /** No new delivery is handed out any more. */
  draining = false;
  /** The server's authentication data is being checked. */
  checking = false;
  /** An AUTH exchange runs. */
  authenticating = false;
  /** The transport was told to stop reading. */
  readingPaused = false;
  private pausedSince = 0;
  private pausedTotal = 0;

  constructor(
    private readonly inbound: Inbound,
    private readonly outbound: Outbound,
    private readonly subscriptions: Subscriptions,
  ) {}

  get blocked(): boolean {
    if (this.checking) return true;
    return (this.paused || this.draining || this.inbound.overfull) && !this.awaitsAnswer;
  }

  private get awaitsAnswer(): boolean {
    return (
      this.authenticating || this.outbound.awaitsAnswer || this.subscriptions.awaitsAnswer || this.inbound.awaitsRelease
    );
  }

  /** True if it is a change. */
  setReadingPaused(paused: boolean, now: number): boolean {
    if (paused === this.readingPaused) return false;
    this.readingPaused = paused;
    if (paused) this.pausedSince = now;
    else this.pausedTotal += now - this.pausedSince;
    return true;
  }

  pausedMs(now: number): number {
    return this.pausedTotal + (this.readingPaused ? now - this.pausedSince : 0);
  }
}
