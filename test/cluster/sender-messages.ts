/** What `main.ts` and `sender-app.ts` tell each other. */
export interface SenderConfig {
  readonly url: string;
  readonly topics: readonly string[];
  /** Messages a second, over all topics in turn. */
  readonly rate: number;
  readonly sabotage?: string;
}

export type SenderRequest =
  | { readonly kind: 'start' }
  /** Sends no more, and waits up to so many milliseconds for every outcome. */
  | { readonly kind: 'stop'; readonly graceMs: number }
  /** Sends so many while no broker answers, and tells which of them were resolved all the same. */
  | { readonly kind: 'probe'; readonly count: number };

export type SenderReport =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'stopped';
      readonly sent: number;
      readonly hung: number;
      readonly resolved: readonly number[];
      readonly rejected: readonly (readonly [number, string])[];
      /** Answers to lookups that led to another broker, as read off the wire. */
      readonly redirects: number;
      readonly closedProducers: number;
      /** CLOSE_PRODUCERs that named the next broker. */
      readonly assigned: number;
      /** Connections, by broker. */
      readonly connections: Readonly<Record<string, number>>;
    }
  | { readonly kind: 'probed'; readonly resolved: readonly number[] };
