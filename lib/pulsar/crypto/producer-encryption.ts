import { isTransportError, TransportError } from '../../errors.js';
import { type BackoffOptions, backoffDelay } from '../../net/backoff.js';
import { type Clock, type TimerHandle } from '../../net/clock.js';
import { type Encryption } from '../codec/send-types.js';
import {
  createEncryption,
  DEFAULT_ROTATION,
  type EncryptionOptions,
  type MessageEncryption,
} from './message-encryption.js';

/** Told each time the public keys cannot be had. `inTheClear`: messages go out without encryption meanwhile. */
export type KeysUnavailable = (cause: TransportError, inTheClear: boolean) => void;

/**
 * The encryption of one producer over its life: a new data key every `rotateAfter` milliseconds. A rotation that fails is
 * tried again with backoff, and the old keys stay in use; only with `failureAction: 'send'` can there be none at all.
 */
export class ProducerEncryption {
  private timer: TimerHandle | undefined = undefined;
  private unavailable: KeysUnavailable | undefined = undefined;
  private failures = 0;
  private stopped = false;

  private constructor(
    private readonly options: EncryptionOptions,
    private readonly clock: Clock,
    private encryption: MessageEncryption | undefined,
    private problem: TransportError | undefined,
  ) {
    this.always = encryption !== undefined;
  }

  /** Every message will be encrypted: PRODUCER may announce it, which a topic that requires encryption asks for. */
  readonly always: boolean;

  /** @throws TransportError ERR_ENCRYPTION that names the key, unless `failureAction` is `send` */
  static async open(options: EncryptionOptions, clock: Clock): Promise<ProducerEncryption> {
    try {
      return new ProducerEncryption(options, clock, await createEncryption(options), undefined);
    } catch (error) {
      if (options.failureAction !== 'send') throw error;
      return new ProducerEncryption(options, clock, undefined, asEncryptionError(error));
    }
  }

  /** For the next frame; undefined: in the clear. */
  get current(): Encryption | undefined {
    return this.encryption;
  }

  /** Begins to rotate, and to tell what goes wrong: not before the caller's caller had a chance to listen. */
  start(unavailable: KeysUnavailable): void {
    this.unavailable = unavailable;
    const { problem } = this;
    this.problem = undefined;
    if (this.stopped) return;
    if (problem === undefined) this.schedule();
    else this.timer = this.clock.setTimer(() => this.failed(problem), 0, false);
  }

  stop(): void {
    this.stopped = true;
    this.clock.clearTimer(this.timer);
  }

  private schedule(): void {
    if (this.stopped) return;
    const { rotateAfter = DEFAULT_ROTATION } = this.options;
    const delay =
      this.failures === 0
        ? rotateAfter
        : Math.min(rotateAfter, RETRY.initial + backoffDelay(RETRY, this.failures - 1, this.clock.random()));
    this.timer = this.clock.setTimer(() => void this.rotate(), delay, false);
  }

  private async rotate(): Promise<void> {
    try {
      if (this.encryption === undefined) this.encryption = await createEncryption(this.options);
      else await this.encryption.rotate();
    } catch (error) {
      if (!this.stopped) this.failed(asEncryptionError(error));
      return;
    }
    this.failures = 0;
    this.schedule();
  }

  private failed(cause: TransportError): void {
    this.failures += 1;
    this.schedule();
    this.unavailable?.(cause, this.encryption === undefined);
  }
}

const RETRY: BackoffOptions = { initial: 1000, max: 60_000, factor: 2 };

function asEncryptionError(error: unknown): TransportError {
  return isTransportError(error)
    ? error
    : new TransportError('ERR_ENCRYPTION', 'The public keys cannot be used', { cause: error });
}
