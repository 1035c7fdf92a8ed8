import { Logger } from '@nestjs/common';
import { type CustomTransportStrategy, type MessageHandler, type MsPattern, Server } from '@nestjs/microservices';
import { type TransportError } from '../errors.js';
import { MqttClient, type MqttClientEvents, type MqttDelivery } from '../mqtt/index.js';
import { type Clock, systemClock } from '../net/clock.js';
import { BatchCollector } from './batch-run.js';
import { controlledReconnect } from './controlled-reconnect.js';
import { DeadlineQueue } from './deadline-queue.js';
import { mqttTransportId } from './decorators.js';
import { DeadLetterTarget } from './dead-letter-target.js';
import { reportDelivery } from './delivery-report.js';
import { DeliveryGate } from './delivery-gate.js';
import { DeliveryScope, proxiesExist } from './delivery-scope.js';
import { DeliveryTask } from './delivery-task.js';
import { type EmitScope } from './emit-scope.js';
import { type Failure } from './failure-policy.js';
import { type FailureHost, FailureSettlement } from './failure-settlement.js';
import { handlerEntry, isForeign } from './handler-entry.js';
import { type ProcessingHooks } from './handler-outcome.js';
import { type HandlerEntry, HandlerRegistry } from './handler-registry.js';
import { type HandlerRun } from './handler-run.js';
import {
  type MqttServerOptions,
  resolveMqttServerOptions,
  type ResolvedMqttServerOptions,
  withServerNames,
} from './mqtt-server-options.js';
import { type HoldReason } from './hold-reason.js';
import { Redelivery } from './redelivery.js';
import { IntakeControl } from './intake-control.js';
import { OrderKeys } from './order-key.js';
import { type OpenedReply, openReply } from './reply-opening.js';
import { type ComponentHealth } from './health.js';
import { type MqttServerStatus, ServerHealth } from './server-health.js';
import { logSessionEvents, startSession } from './session-start.js';
import { newServerStats } from './server-stats.js';
import { Shutdown } from './shutdown.js';
import { StallWatch } from './stall-watch.js';
import { type MqttServerStats } from './task-host.js';
import { UnmatchedMessages } from './unmatched.js';

export type { MqttServerStatus };
export type MqttServerEvents = { [K in keyof MqttClientEvents]: (payload: MqttClientEvents[K]) => void };

/**
 * Receives over MQTT and acknowledges each message to the broker only after its handlers have succeeded: their results are
 * complete, and what they emitted through a proxy of this package is stored.
 *
 * ```ts
 * const app = await NestFactory.createMicroservice(AppModule, {
 *   strategy: new MqttServerStrategy({ url: 'mqtt://localhost:1883', clientId: 'ingest-1' }),
 * });
 * ```
 */
export class MqttServerStrategy
  extends Server<MqttServerEvents, MqttServerStatus>
  implements CustomTransportStrategy, FailureHost
{
  override readonly transportId: symbol;
  // Failures are reported here, by topic and attempt; Nest need not log them a second time (Nest 12).
  override readonly propagatesEventHandlerErrors = true;
  override readonly logger = new Logger('MqttServerStrategy');

  readonly client: MqttClient;
  readonly clock: Clock;
  readonly gate: DeliveryGate<DeliveryTask>;
  readonly deadlines: DeadlineQueue;
  readonly stats: MqttServerStats = newServerStats();
  readonly abortable = new Set<HandlerRun>();
  /** @internal */
  readonly intake: IntakeControl;
  readonly wallTimeAt: (monotonic: number) => number;
  readonly deadLetter: DeadLetterTarget | undefined;
  openRounds = 0;
  hooks: ProcessingHooks | undefined = undefined;
  abortReason: unknown = undefined;

  private readonly options: ResolvedMqttServerOptions;
  private readonly registry = new HandlerRegistry();
  private readonly redelivery: Redelivery;
  private readonly settlement: FailureSettlement;
  private readonly shutdown: Shutdown;
  private readonly unmatched: UnmatchedMessages;
  private readonly keys: OrderKeys;
  private readonly stallWatch: StallWatch;
  private readonly serverHealth: ServerHealth;

  /** @throws OptionsError before anything connects */
  constructor(options: MqttServerOptions) {
    super();
    const { server, client } = resolveMqttServerOptions(options);
    this.options = server;
    this.clock = client.clock ?? systemClock;
    try {
      this.client = new MqttClient(client);
    } catch (error) {
      throw withServerNames(error);
    }
    this.transportId = mqttTransportId(server.name);
    this.gate = new DeliveryGate(server.concurrency);
    this.deadlines = new DeadlineQueue(this.clock);
    this.wallTimeAt = (monotonic) => this.clock.wallTime() - this.clock.now() + monotonic;
    this.deadLetter =
      server.deadLetter && new DeadLetterTarget(server.deadLetter, this.client.endpoints, this.registry);
    this.settlement = new FailureSettlement(this);
    this.redelivery = new Redelivery(
      {
        clock: this.clock,
        deadlines: this.deadlines,
        logger: this.logger,
        reconnect: (held) => controlledReconnect(this, held),
        unclaimed: () => (this.client.status.state === 'connected' ? this.client.unclaimed() : []),
        rerun: (task) => this.again(task),
        heldChanged: () => this.heldChanged(),
      },
      server.redeliverAfter,
    );
    this.unmatched = new UnmatchedMessages(this, server.unmatched, this.deadLetter, server.redeliverAfter);
    this.intake = new IntakeControl(this);
    this.keys = new OrderKeys(server.order, this.logger, this.wallTimeAt);
    this.stallWatch = new StallWatch(this, server.stalledAfter);
    const { client: mqtt, gate, intake, redelivery, unmatched, stallWatch } = this;
    this.serverHealth = new ServerHealth({ client: mqtt, gate, intake, redelivery, unmatched, stallWatch });
    this.shutdown = new Shutdown(this, server.shutdownTimeout);
    this.initializeSerializer({});
    this.initializeDeserializer({});
  }

  /** 5 or 4 (3.1.1) once connected. */
  get protocolVersion(): 4 | 5 | undefined {
    return this.client.protocolVersion;
  }

  /** The last status; `status` is the stream of them. */
  get state(): MqttServerStatus {
    return this.serverHealth.status;
  }

  /**
   * For {@link MqttPulsarHealth}; never throws. `down` while failed messages are held, intake is halted or there is no
   * connection; `degraded` while it is paused on purpose (`pause()`, `drain()`).
   */
  health(): ComponentHealth {
    return this.serverHealth.check();
  }

  override addHandler(
    pattern: MsPattern,
    callback: MessageHandler,
    isEventHandler = false,
    extras: Record<string, unknown> = {},
  ): void {
    const subscribed = this.normalizePattern(pattern);
    callback.isEventHandler = isEventHandler;
    callback.extras = extras;
    // Ours say what is wrong; others may be for another server of the application.
    if (extras['capturesFailures'] !== true && isForeign(subscribed, this.options)) {
      this.logger.warn(
        `The pattern ${subscribed} is no topic filter: not subscribed. A handler of another transport names it`,
      );
      return;
    }
    const entry = handlerEntry(subscribed, callback, isEventHandler, extras, this.options);
    const { batch } = entry.options;
    if (batch !== undefined) entry.collector = new BatchCollector(this, entry, batch.size, batch.delay);
    this.registry.add(entry);
    // For those who look at getHandlers(); routing does not use it.
    if (!this.messageHandlers.has(subscribed)) this.messageHandlers.set(subscribed, callback);
  }

  override setOnProcessingStartHook(hook: Parameters<Server['setOnProcessingStartHook']>[0]): void {
    super.setOnProcessingStartHook(hook);
    this.hooks = { end: this.hooks?.end, transportId: this.transportId, start: hook };
  }

  override setOnProcessingEndHook(hook: Parameters<Server['setOnProcessingEndHook']>[0]): void {
    super.setOnProcessingEndHook(hook);
    this.hooks = { start: this.hooks?.start, transportId: this.transportId, end: hook };
  }

  listen(callback: (error?: unknown, ...rest: unknown[]) => void): void {
    this.client.onDelivery = (delivery) => this.onDelivery(delivery);
    this.client.onDropped = (delivery) => this.onDropped(delivery);
    this.client.on('status', ({ state }) => {
      // destroy() of the client alone: the handlers are to hear of it as well.
      if (state === 'closed' && !this.shutdown.isClosing) this.destroy();
      this.publishStatus();
    });
    logSessionEvents(this.client, this.logger);
    this.start().then(
      () => callback(),
      (error: unknown) => callback(error),
    );
  }

  on<K extends keyof MqttServerEvents>(event: K, listener: MqttServerEvents[K]): () => void {
    return this.client.on(event, listener);
  }

  /** The MQTT client. */
  unwrap<T>(): T {
    return this.client as T;
  }

  /** Stops intake, lets running handlers finish up to `shutdownTimeout`, acknowledges, disconnects. The session stays. */
  close(): Promise<void> {
    return this.shutdown.close();
  }

  /**
   * Where the strategy is a provider, Nest calls this before it destroys what the handlers use; on signals and in hybrid
   * applications it would close the servers only after that.
   */
  onModuleDestroy(): Promise<void> {
    return this.close();
  }

  /** Stops intake and resolves when nothing runs any more, or when `resume()` or the end of `close()` takes it back. */
  drain(): Promise<void> {
    this.pause();
    return this.shutdown.idle();
  }

  /** Ends at once: the signals of what runs abort, nothing is waited for. What is not acknowledged comes again. */
  destroy(): void {
    this.shutdown.destroy();
  }

  /** Nothing new starts; what runs goes on. */
  pause(): void {
    this.intake.set('paused', true);
    this.hurryBatches(true);
    this.publishStatus();
  }

  /** Ends `pause()`, `drain()` and a halt; not a `close()`. */
  resume(): void {
    if (this.shutdown.isClosing) return;
    this.hurryBatches(false);
    // While the gate is closed, so that what was halted goes before what came since.
    this.redelivery.resumed();
    this.intake.set('paused', false);
    this.intake.set('halted', false);
    this.shutdown.giveUpWaiting();
    this.publishStatus();
  }

  // What the tasks ask for (TaskHost, FailureHost).

  openScope(entry: HandlerEntry): EmitScope | undefined {
    return entry.capturesFailures || proxiesExist() ? new DeliveryScope(entry.name, this.clock) : undefined;
  }

  openReply(run: HandlerRun): OpenedReply {
    return openReply(run, this.options.envelope, this.client, this.stats);
  }

  succeeded(task: DeliveryTask): void {
    this.settle(task, 'succeeded');
  }

  failed(task: DeliveryTask, runs: readonly HandlerRun[]): void {
    if (this.shutdown.isClosing) this.keep(task);
    else this.settlement.failed(task, runs);
    this.roundEnded();
  }

  settle(task: DeliveryTask, outcome: 'succeeded' | 'discarded' | 'rejected' | 'deadLettered', reasonCode = 0): void {
    this.stats[outcome] += 1;
    reportDelivery(this.client.clientId, task.delivery, outcome === 'succeeded' ? 'acknowledged' : outcome);
    this.client.acknowledge(task.delivery, reasonCode);
    this.gate.release(task);
    this.intake.left(task.delivery);
    if (task.held) {
      task.held = false;
      this.redelivery.settled(task, outcome);
    }
    this.roundEnded();
  }

  roundEnded(): void {
    this.shutdown.check();
  }

  hold(task: DeliveryTask, reason: HoldReason, failure: Failure, again?: () => void): void {
    this.stats.held += 1;
    reportDelivery(this.client.clientId, task.delivery, 'failed', failure.error);
    if (again !== undefined) this.gate.yieldSlot(task);
    else if (!this.keep(task)) return;
    if (this.shutdown.isClosing) return;
    this.redelivery.hold(task, reason, again);
  }

  halt(task: DeliveryTask, failure: Failure): void {
    // First, so that the place it leaves is not taken.
    this.intake.set('halted', true);
    if (this.keep(task)) this.redelivery.hold(task, 'halted');
    this.logger.error(
      `Halted by the failure policy of ${failure.handler} for a message on '${failure.topic}': resume() goes on`,
    );
    this.publishStatus();
  }

  private async start(): Promise<void> {
    await startSession(this.client, this.registry, this.options, this.deadLetter, this.logger);
    this.stallWatch.start();
    this.publishStatus();
  }

  private onDelivery(delivery: MqttDelivery): void {
    this.stats.received += 1;
    if (delivery.attempt > 1 && this.redelivery.returned(delivery)) return;
    const entries = this.registry.match(delivery.message);
    if (entries === undefined) this.client.acknowledge(delivery);
    else if (entries.length === 0) {
      reportDelivery(this.client.clientId, delivery, 'unmatched');
      this.unmatched.take(delivery);
    } else {
      const once = delivery.replaces === undefined ? undefined : this.taskOf(delivery.replaces);
      const key = once === undefined ? this.keys.of(delivery, entries[0].filter) : once.key;
      const task = new DeliveryTask(this, delivery, entries, key);
      if (once === undefined) this.gate.enter(task);
      else {
        const goesOn = once.delivery.state !== 'settled';
        if (!goesOn) task.takeOver(once);
        this.gate.enterFor(once, task, goesOn);
      }
      this.intake.entered(delivery);
    }
  }

  private taskOf(delivery: MqttDelivery): DeliveryTask | undefined {
    return this.redelivery.taskOf(delivery) ?? this.gate.find((task) => task.delivery === delivery);
  }

  /** A held delivery: the handlers that failed run again, as the next attempt. */
  private again(task: DeliveryTask): void {
    task.nextAttempt();
    this.gate.enter(task);
  }

  /** Will not come back as this delivery: key and place are free. */
  private onDropped(delivery: MqttDelivery): void {
    this.unmatched.dropped(delivery);
    const task = this.redelivery.dropped(delivery);
    if (task !== undefined) this.release(task);
  }

  /** False: it came again as a new message while it ran (without DUP), and that one takes its place. */
  private keep(task: DeliveryTask): boolean {
    this.client.fail(task.delivery);
    this.gate.yieldSlot(task);
    // QoS 0 is in nobody's window: the copy here is the only one, and is kept.
    if (task.delivery.state !== 'settled' || task.delivery.message.qos === 0) return true;
    this.redelivery.dropped(task.delivery);
    this.release(task);
    return false;
  }

  private release(task: DeliveryTask): void {
    this.gate.release(task);
    this.intake.left(task.delivery);
    this.heldChanged();
  }

  /** @internal it failed, and that was said */
  reported(delivery: MqttDelivery): boolean {
    return this.redelivery.taskOf(delivery) !== undefined;
  }

  /** @internal */
  heldChanged(): void {
    // A sink that is down stops every message: taking in more only fills memory and the window.
    if (!this.shutdown.isClosing) this.intake.set('sink', this.redelivery.sinkDown);
    this.publishStatus();
  }

  private publishStatus(): void {
    this._status$.next(this.state);
  }

  /** @internal */
  hurryBatches(on: boolean): void {
    for (const { collector } of this.registry) collector?.hurry(on);
  }

  /** @internal what the shutdown needs */
  stopTimers(): void {
    this.redelivery.stop();
    this.unmatched.stop();
    this.deadlines.clear();
  }

  /** @internal aborts what still runs */
  abortRunning(reason: TransportError): void {
    this.abortReason = reason;
    for (const run of [...this.abortable]) run.abort(reason);
  }
}
