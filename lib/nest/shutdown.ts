import { type Logger } from '@nestjs/common';
import { TransportError } from '../errors.js';
import { type MqttClient } from '../mqtt/index.js';
import { type Clock } from '../net/clock.js';
import { type IntakeControl } from './intake-control.js';

/** What the shutdown stops and waits for. */
export interface ShutdownHost {
  readonly client: MqttClient;
  readonly clock: Clock;
  readonly intake: Pick<IntakeControl, 'end'>;
  readonly logger: Logger;
  readonly openRounds: number;
  /** Batches that are not full start at once. */
  hurryBatches(on: boolean): void;
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
  /** Nothing is waited for any more. */
  private over = false;

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

  /** Resolves when no handler runs, or when waiting for that was given up. */
  idle(): Promise<void> {
    if (this.host.openRounds === 0 || this.over) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Nobody needs to wait any longer for what runs: it goes on (`resume()`), or its time is over. */
  giveUpWaiting(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  /** Everything ends now: nothing is waited for, what is not acknowledged stays so. */
  destroy(): void {
    this.closing ??= Promise.resolve();
    this.host.intake.end();
    this.host.abortRunning(new TransportError('ERR_ABORTED', 'The strategy was destroyed'));
    this.host.stopTimers();
    this.host.client.destroy();
    this.over = true;
    this.giveUpWaiting();
  }

  /** Called when a round has ended. */
  check(): void {
    if (this.waiting.length > 0 && this.host.openRounds === 0) this.giveUpWaiting();
  }

  private async run(): Promise<void> {
    const { host, timeout } = this;
    host.intake.end();
    host.hurryBatches(true);
    await host.client.drain();
    let timer: object | undefined;
    const bound = new Promise<void>((resolve) => (timer = host.clock.setTimer(resolve, timeout)));
    await Promise.race([this.idle(), bound]);
    host.clock.clearTimer(timer);
    // A drain() that was under way.
    this.over = true;
    this.giveUpWaiting();
    const reported = this.reportUnfinished();
    // Also streams that go on after their request was acknowledged.
    host.abortRunning(new TransportError('ERR_ABORTED', `The app closes and shutdownTimeout (${timeout} ms) is over`));
    host.stopTimers();
    const { abandoned } = host.client.stats;
    await host.client.close();
    this.reportLost(host.client.stats.abandoned - abandoned - reported);
  }

  /** What is not acknowledged at the end of the process is never silent. @returns how many that are */
  private reportUnfinished(): number {
    const { client, logger, openRounds } = this.host;
    const { waiting, running, retrying, failed, succeeded } = client.stats.deliveries;
    const counts = { running: Math.max(running, openRounds - retrying), waiting, retrying, failed };
    const open = Object.entries(counts).filter(([, count]) => count > 0);
    const left = open.reduce((sum, [, count]) => sum + count, 0);
    if (left === 0) return 0;
    const behind = succeeded > 0 ? `, ${succeeded} finished ones behind them` : '';
    const { orphaned } = client.stats;
    const again =
      orphaned === 0
        ? 'the broker sends them again'
        : `${orphaned} of them are LOST with this process, for the broker has lost the session that held them; it sends the others again`;
    logger.warn(
      `Closing with ${left} unfinished deliveries (${open.map(([state, count]) => `${count} ${state}`).join(', ')}${behind}): ` +
        `they are not acknowledged, ${again}`,
    );
    return left + succeeded;
  }

  /** Those whose acknowledgement had to wait for a connection that did not come, or died. */
  private reportLost(count: number): void {
    if (count <= 0) return;
    this.host.logger.warn(
      `Closed with ${count} finished deliveries that could not be acknowledged for want of a connection: ` +
        `the broker sends them again`,
    );
  }
}
