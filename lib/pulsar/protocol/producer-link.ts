import { type TransportError } from '../../errors.js';
import { type DialHint, type ProducerAction } from './producer-events.js';
import { nextPhase, type ProducerCause, type ProducerPhase } from './producer-table.js';

export interface RetryBackoff {
  readonly initial: number;
  readonly max: number;
  readonly factor: number;
}

/**
 * The link's life: which generation counts, when the next try is due. A try never follows another without a delay, and the
 * delay falls back to its start only after a link that proved itself by a receipt or by lasting.
 */
export class ProducerLink {
  phase: ProducerPhase = 'idle';
  /** Counts the tries to open the producer; the number of the current or last one. */
  generation = 0;
  /** When the next try is due; Infinity = none is planned. */
  dialAt = Infinity;
  everUp = false;
  lastError: TransportError | undefined = undefined;
  connects = 0;
  /** When the last link that was up went. */
  lostAt = -Infinity;

  // valid for one link
  private upAt = 0;
  private proven = false;

  private attempt = 0;
  private hint: DialHint | undefined = undefined;

  constructor(
    private readonly backoff: RetryBackoff,
    private readonly actions: ProducerAction[],
  ) {}

  get ready(): boolean {
    return this.phase === 'ready';
  }

  /** The broker knows, or may know, of the producer on the current link. */
  get open(): boolean {
    return this.phase === 'connecting' || this.phase === 'queued' || this.phase === 'ready';
  }

  /** True for what belongs to the current link and comes in a phase where it means something. */
  concerns(generation: number): boolean {
    return generation === this.generation && this.open;
  }

  dial(cause: 'start' | 'elapsed'): void {
    this.move(cause);
    this.generation += 1;
    this.dialAt = Infinity;
    this.actions.push({ kind: 'dial', generation: this.generation, hint: this.hint });
    this.hint = undefined;
  }

  up(now: number): void {
    this.move('accepted');
    this.everUp = true;
    this.upAt = now;
    this.proven = false;
    this.connects += 1;
    this.actions.push({ kind: 'connected', generation: this.generation });
  }

  queued(): void {
    if (this.phase !== 'connecting') return;
    this.move('queued');
    this.actions.push({ kind: 'queued' });
  }

  receiptSeen(): void {
    this.proven = true;
  }

  /** The link is gone, or the try failed; plans the next one. */
  down(
    cause: 'lost' | 'restart' | 'failed',
    error: TransportError,
    now: number,
    random: number,
    hint?: DialHint,
  ): void {
    const wasReady = this.ready;
    if (wasReady && (this.proven || now - this.upAt >= this.backoff.max)) this.attempt = 0;
    this.move(cause);
    this.lastError = error;
    if (hint !== undefined) this.hint = hint;
    const { initial, max, factor } = this.backoff;
    const bound = Math.min(max, initial * factor ** Math.min(this.attempt, 64));
    const delay = Math.max(initial / 10, bound * random);
    this.attempt += 1;
    this.dialAt = now + delay;
    if (wasReady) this.lostAt = now;
    if (wasReady) this.actions.push({ kind: 'disconnected', error });
    this.actions.push({ kind: 'reconnecting', attempt: this.attempt, delay, error });
  }

  /** For good. */
  end(cause: 'terminate' | 'close'): void {
    if (this.open) this.actions.push({ kind: 'leave', generation: this.generation, how: 'closeProducer' });
    this.dialAt = Infinity;
    this.move(cause);
  }

  private move(cause: ProducerCause): void {
    this.phase = nextPhase(this.phase, cause);
  }
}
