import { type SessionParts } from './session-parts.js';

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

  constructor(private readonly parts: SessionParts) {}

  /** Asked while connected only: CONNACK is always taken in. */
  get blocked(): boolean {
    return (this.paused || this.draining || this.parts.inbound.overfull) && !this.awaitsAnswer;
  }

  private get awaitsAnswer(): boolean {
    return this.authenticating || this.parts.awaitsAnswer;
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
