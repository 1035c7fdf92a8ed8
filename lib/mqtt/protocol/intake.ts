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
}
