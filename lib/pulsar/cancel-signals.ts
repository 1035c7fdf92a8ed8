import { type CancelHandle } from './types.js';

/**
 * The callers' AbortSignals with the sends that each takes back. One listener for each signal, whatever the number of its
 * sends (many of them would be taken for a leak), and none when none of its sends is left.
 */
export class CancelSignals {
  private readonly groups = new Map<AbortSignal, SignalGroup>();

  /** @returns where the send must be taken out when it is settled; undefined if the signal has aborted */
  add(signal: AbortSignal, send: CancelHandle): SignalGroup | undefined {
    if (signal.aborted) {
      send.cancel();
      return undefined;
    }
    let group = this.groups.get(signal);
    if (group === undefined) {
      group = new SignalGroup(signal, () => this.groups.delete(signal));
      this.groups.set(signal, group);
    }
    group.sends.add(send);
    return group;
  }
}

export class SignalGroup {
  readonly sends = new Set<CancelHandle>();

  constructor(
    private readonly signal: AbortSignal,
    private readonly emptied: () => void,
  ) {
    signal.addEventListener('abort', this);
  }

  remove(send: CancelHandle): void {
    if (!this.sends.delete(send) || this.sends.size > 0) return;
    this.signal.removeEventListener('abort', this);
    this.emptied();
  }

  /** The signal has aborted. */
  handleEvent(): void {
    for (const send of [...this.sends]) send.cancel();
  }
}
