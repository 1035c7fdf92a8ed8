/** What a run of a handler needs of the emits that were started inside it. */
export interface EmitScope {
  /** Emits without an outcome that hold the acknowledgement. */
  readonly pending: number;
  /** Told what was thrown inside the scope. */
  owner: { recordFailure(error: unknown): void } | undefined;
  /** Runs `fn` inside the scope. */
  run(fn: () => void): void;
  /** The handler's result is complete: an emit that fails from now on fails the run, whoever subscribed to it. */
  complete(): void;
  /** Calls back once when `pending` is 0. */
  whenIdle(callback: () => void): void;
  /** A failed emit that nobody else answers for. */
  failure(): { readonly error: unknown } | undefined;
  /** The last emit that failed, also one that the handler subscribed to. */
  observedFailure(): { readonly error: unknown } | undefined;
  /** How long at least one emit has been pending, in ms. */
  stoppedMs(now: number): number;
  /** Cancels the emits that were not written yet. */
  cancelUnwritten(): void;
  /** The delivery is settled: what is emitted from now on holds nothing. */
  close(): void;
}
