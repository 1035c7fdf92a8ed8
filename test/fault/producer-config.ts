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
    }
  | { readonly kind: 'probed'; readonly resolved: number[] }
  | { readonly kind: 'closed' };
