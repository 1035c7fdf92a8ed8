import { type Logger } from '@nestjs/common';
import { TransportError } from '../errors.js';
import { type MqttClient } from '../mqtt/index.js';
import { type Clock } from '../net/clock.js';
import { type DeliveryGate } from './delivery-gate.js';

/** What the shutdown stops and waits for. */
export interface ShutdownHost {
  readonly client: MqttClient;
  readonly clock: Clock;
  readonly gate: Pick<DeliveryGate, 'pause'>;
  readonly logger: Logger;
  readonly openRounds: number;
  stopTimers(): void;
  abortRunning(reason: TransportError): void;
}

/**
 * Intake stops first, then what runs may finish within the bound, then the acknowledgements leave, then DISCONNECT. Nothing is
 * unsubscribed: the broker goes on queueing for us. What did not finish stays un-acknowledged and comes again.
 */
export class Shutdown {
  private closing: Promise<void> | undefined;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly host: ShutdownHost,
    private readonly timeout: number,
  ) {}

  get isClosing(): boolean {
    return this.closing !== undefined;
  }

  /** A second call gets the same promise. */
  close(): Promise<void> {
    return (this.closing ??= this.run());
  }

  /** Resolves when no handler runs. */
  idle(): Promise<void> {
    if (this.host.openRounds === 0) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Called when a round has ended. */
  check(): void {
    if (this.host.openRounds > 0 || this.waiting.length === 0) return;
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  private async run(): Promise<void> {
    const { host, timeout } = this;
    host.gate.pause();
    await host.client.drain();
    let timer: object | undefined;
    const bound = new Promise<void>((resolve) => (timer = host.clock.setTimer(resolve, timeout)));
    await Promise.race([this.idle(), bound]);
    host.clock.clearTimer(timer);
    const left = host.openRounds;
    if (left > 0) {
      host.logger.warn(
        `Closing with ${left} unfinished deliveries after ${timeout} ms: they are not acknowledged, the broker sends them again`,
      );
    }
    // Also streams that go on after their request was acknowledged.
    host.abortRunning(new TransportError('ERR_ABORTED', `The app closes and shutdownTimeout (${timeout} ms) is over`));
    host.stopTimers();
    await host.client.close();
  }
}
