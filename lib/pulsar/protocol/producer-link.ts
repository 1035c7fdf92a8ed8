import { type TransportError } from '../../errors.js';
import { type DialHint, type ProducerAction } from './producer-events.js';
import { nextPhase, type ProducerCause, type ProducerPhase } from './producer-table.js';
import { isFencedBy } from './server-errors.js';

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
  private receiptAt = 0;
  /** When it is asked whether the broker takes anything on this link; Infinity = not. */
  checkAt = Infinity;

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

  /** @param reopened the broker had closed the producer, or refused something: it may still drop what comes for it */
  up(now: number, reopened: boolean): void {
    this.move('accepted');
    this.everUp = true;
    this.upAt = now;
    this.proven = false;
    this.receiptAt = now;
    this.checkAt = reopened ? now + CHECK_AFTER : Infinity;
    this.connects += 1;
    this.actions.push({ kind: 'connected', generation: this.generation });
  }

  queued(): void {
    if (this.phase !== 'connecting') return;
    this.move('queued');
    this.actions.push({ kind: 'queued' });
  }

  receiptSeen(now: number): void {
    this.proven = true;
    this.receiptAt = now;
  }

  /**
   * For the keep alive after CLOSE_PRODUCER a 4.0.7 broker drops sends for that producer id without a word, also when another
   * producer has fenced the reopened one meanwhile; every other time it closes the connection. True, once for a link, when no
   * receipt has come for long after that time: opening the producer again on a new connection tells.
   */
  checkSilence(now: number): boolean {
    if (now < this.checkAt) return false;
    this.checkAt = Infinity;
    return this.ready && now - this.receiptAt >= SILENCE;
  }

  /** Our own last link is what keeps us out; it will be missed within the broker's keep alive. */
  isKeptOutByItself(error: TransportError, producerName: string, now: number): boolean {
    return this.everUp && now - this.lostAt < GHOST_TIME && isFencedBy(error, producerName);
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
    this.checkAt = Infinity;
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
    this.dialAt = this.checkAt = Infinity;
    this.move(cause);
  }

  private move(cause: ProducerCause): void {
    this.phase = nextPhase(this.phase, cause);
  }
}

/** Milliseconds; a broker misses a connection after twice its keep alive, which is 30 s by default. */
const GHOST_TIME = 90_000;

/** Milliseconds; more than the broker's keep alive. */
const CHECK_AFTER = 40_000;
const SILENCE = 10_000;
