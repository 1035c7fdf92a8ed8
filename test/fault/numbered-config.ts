export interface NumberedConfig {
  readonly url: string;
  readonly topic: string;
  readonly name: string;
  readonly first: number;
  readonly count: number;
  /** Messages a second. */
  readonly rate: number;
  /** The number is the message's sequence id; otherwise the producer gives ids of its own. */
  readonly numberIsId: boolean;
}

export type NumberedReport =
  | { readonly kind: 'resolved'; readonly number: number; readonly deduplicated: boolean }
  | { readonly kind: 'rejected'; readonly number: number; readonly code: string }
  | { readonly kind: 'done' };
