export interface ProducerConfig {
  readonly url: string;
  readonly topic: string;
  readonly sabotage?: string;
}

export type ProducerRequest =
  | { readonly kind: 'run'; readonly seconds: number; readonly rate: number; readonly graceMs: number }
  | { readonly kind: 'probe'; readonly count: number }
  | { readonly kind: 'close' };

export type ProducerReport =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'settled';
      readonly sent: number;
      readonly hung: number;
      readonly resolved: number[];
      readonly rejected: [number, string][];
      /** What the producer still holds: permits, bytes, places in line, bytes of the client's memory limit. */
      readonly held: {
        readonly permits: number;
        readonly bytes: number;
        readonly line: number;
        readonly memory: number;
      };
      /** Calls that settled a message once more. */
      readonly again: number;
      readonly connects: number;
      readonly resentFrames: number;
      /** Longest time without a receipt while messages were waiting for one, in milliseconds. */
      readonly longestPause: number;
    }
  | { readonly kind: 'probed'; readonly resolved: number[] }
  | { readonly kind: 'closed' };
