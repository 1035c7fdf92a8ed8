import { type DetachedDelivery } from './mqtt-message.context.js';

/** The one use of a detached delivery. */
export class DetachedHandle implements DetachedDelivery {
  private open = true;

  constructor(
    /** ms; 0 = none. */
    readonly timeout: number,
    private readonly onUse: (failure: { error: unknown } | undefined) => void,
  ) {}

  get pending(): boolean {
    return this.open;
  }

  acknowledge(): boolean {
    return this.use(undefined);
  }

  fail(error: unknown): boolean {
    return this.use({ error });
  }

  /** Its time is over, or the run ended otherwise. */
  close(): void {
    this.open = false;
  }

  private use(failure: { error: unknown } | undefined): boolean {
    if (!this.open) return false;
    this.open = false;
    this.onUse(failure);
    return true;
  }
}
