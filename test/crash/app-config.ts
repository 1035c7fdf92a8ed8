/** What the parent process hands to the app under test, as JSON in `APP_CONFIG`. */
export interface AppConfig {
  readonly mqttUrl: string;
  readonly pulsarUrl: string;
  readonly clientId: string;
  /** Full name of the Pulsar topic the handlers emit to. */
  readonly topic: string;
  /** Full name of the topic for dead letters; absent: no dead letters. */
  readonly deadLetterTopic?: string;
  /** File for the markers of the handlers. */
  readonly markers: string;
  /** Least milliseconds of asynchronous work before a handler emits. Default 0. */
  readonly minWorkMs?: number;
  /** And at most so many more, by chance. */
  readonly workMs: number;
  /** Share of the runs that throw, 0 to 1. */
  readonly failRate: number;
  readonly concurrency: number;
  readonly receiveMaximum: number;
  readonly redeliverAfterMs: number;
  /** Longest pause between two tries to reach Pulsar. Default: the product's. */
  readonly pulsarBackoffMs?: number;
  /** Age of an un-acknowledged message from which on the status is `stalled`. Default: the product's. */
  readonly stalledAfterMs?: number;
  /** Runs in the process after the first one, before the message is left to the broker. */
  readonly retries?: number;
  /** Numbers whose handler always throws. */
  readonly poison?: readonly number[];
  readonly sabotage?: string;
}

/** What the app tells its parent over the IPC channel. */
export type AppReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'status'; readonly status: string; readonly health: string }
  /** Most un-acknowledged messages that the session held at a time until now. */
  | { readonly kind: 'held'; readonly most: number }
  | { readonly kind: 'heap'; readonly bytes: number }
  | { readonly kind: 'closed' };

/** What the parent asks for. */
export type AppRequest = { readonly kind: 'heap' } | { readonly kind: 'close' };
