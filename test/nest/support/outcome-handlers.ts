import {
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type NestInterceptor,
  type PipeTransform,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { Ctx, EventPattern, type ReadPacket } from '@nestjs/microservices';
import { concat, defer, EMPTY, from, lastValueFrom, of, throwError, timer } from 'rxjs';
import {
  type DetachedDelivery,
  MqttBatchContext,
  type MqttClientProxy,
  MqttEvent,
  MqttMessageContext,
  MqttPublishRecordBuilder,
  MqttRequest,
  type PulsarClientProxy,
  PulsarRecordBuilder,
} from '../../../lib/index.js';
import { gate } from './app.js';
import { EventClient } from './event-client.js';

/** What the handlers below meet; the spec sets the scene and lets things happen. */
export const stage = {
  /** Handlers that fail do so while this is true. */
  broken: true,
  runs: 0,
  work: gate(),
  deadLetterReceipt: gate(),
  deadLetterTargetDown: false,
  handle: undefined as DetachedDelivery | undefined,
  pulsar: undefined as unknown as PulsarClientProxy,
  /** With a `sendTimeout`. */
  impatientPulsar: undefined as unknown as PulsarClientProxy,
  mqtt: undefined as unknown as MqttClientProxy,

  reset(): void {
    this.broken = true;
    this.runs = 0;
    this.work = gate();
    this.deadLetterReceipt = gate();
    this.deadLetterTargetDown = false;
    this.handle = undefined;
  },
};

export class DeadLetterTarget extends EventClient {
  protected async dispatchEvent<T>(_packet: ReadPacket): Promise<T> {
    if (stage.deadLetterTargetDown && stage.broken) throw new Error('not now');
    await stage.deadLetterReceipt.promise;
    return undefined as T;
  }
}

@Catch()
class ToValue implements ExceptionFilter {
  catch() {
    return of('handled');
  }
}
@Catch()
class Rethrow implements ExceptionFilter {
  catch(error: Error): never {
    throw error;
  }
}
@Catch()
class Undecided implements ExceptionFilter {
  catch(): void {}
}
class Guard implements CanActivate {
  canActivate(): boolean {
    return !stage.broken;
  }
}
class Pipe implements PipeTransform {
  transform(value: unknown): unknown {
    fail();
    return value;
  }
}
class Interceptor implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler) {
    fail();
    return next.handle();
  }
}

/** Nothing happens once the scene is no longer broken. */
function fail(): void {
  if (stage.broken) throw new Error('no');
}
const failing = (): Promise<void> => (stage.broken ? Promise.reject(new Error('no')) : Promise.resolve());
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** The third run ends well, when `work` is there. */
const retried = async (again: () => void): Promise<void> => {
  stage.runs += 1;
  if (stage.runs < 3) again();
  else await stage.work.promise;
};
const undecodable = (payload: Buffer): Buffer => {
  fail();
  return payload;
};

@Controller()
export class SucceedingHandlers {
  @EventPattern<string>('value')
  value() {
    return 'done';
  }
  @EventPattern<string>('promise')
  async promise() {
    await Promise.resolve();
  }
  @EventPattern<string>('observable')
  observable() {
    return concat(of(1), timer(5));
  }
  @EventPattern<string>('empty')
  empty() {
    return EMPTY;
  }
  @EventPattern<string>('ends-later')
  endsLater() {
    return stage.work.promise;
  }
  @EventPattern<string>('completes-later')
  completesLater() {
    return concat(of(1), from(stage.work.promise));
  }
  @EventPattern<string>('filter-value')
  @UseFilters(ToValue)
  filterValue() {
    throw new Error('no');
  }
  @EventPattern<string>('emit-pulsar')
  emitPulsar(): void {
    stage.pulsar.emit('out', Buffer.from('x'));
  }
  @EventPattern<string>('emit-pulsar-returned')
  emitReturned() {
    return stage.pulsar.emit('out', Buffer.from('x'));
  }
  @EventPattern<string>('emit-mqtt')
  emitMqtt(): void {
    stage.mqtt.emit('elsewhere', Buffer.from('x'));
  }
  @EventPattern<string>('emit-pulsar-loose')
  emitPulsarLoose(): void {
    stage.pulsar.emit('out', new PulsarRecordBuilder(Buffer.from('x')).setHoldsAcknowledgement(false).build());
  }
  @EventPattern<string>('emit-mqtt-loose')
  emitMqttLoose(): void {
    stage.mqtt.emit('elsewhere', new MqttPublishRecordBuilder(Buffer.from('x')).setHoldsAcknowledgement(false).build());
  }
  @EventPattern<string>('wait-until')
  waitUntil(@Ctx() context: MqttMessageContext): void {
    context.waitUntil(stage.work.promise);
  }
  @EventPattern<string>('detach')
  detach(@Ctx() context: MqttMessageContext): void {
    stage.handle = context.detach();
  }
  @EventPattern<string>('both')
  both1(): void {}
  @EventPattern<string>('both')
  async both2(): Promise<void> {
    await stage.work.promise;
  }
  @MqttEvent('batch', { batch: { size: 10, delay: 1 } })
  async batch(): Promise<void> {
    await stage.work.promise;
  }
  @MqttEvent('retained', { retained: 'skip' })
  retained(): void {
    stage.runs += 1;
  }
}

@Controller()
export class FailingHandlers {
  @EventPattern<string>('throws')
  throws() {
    fail();
  }
  @EventPattern<string>('rejects')
  rejects() {
    return failing();
  }
  @EventPattern<string>('errors')
  errors() {
    return stage.broken ? throwError(() => new Error('no')) : EMPTY;
  }
  @EventPattern<string>('errors-late')
  errorsLate() {
    return concat(
      of('a value'),
      defer(() => failing()),
    );
  }
  @EventPattern<string>('filter-rethrows')
  @UseFilters(Rethrow)
  filterRethrows() {
    fail();
  }
  @EventPattern<string>('filter-undecided')
  @UseFilters(Undecided)
  filterUndecided() {
    fail();
  }
  @EventPattern<string>('guard')
  @UseGuards(Guard)
  guarded(): void {}
  @EventPattern<string>('pipe')
  @UsePipes(Pipe)
  piped(): void {}
  @EventPattern<string>('interceptor')
  @UseInterceptors(Interceptor)
  intercepted(): void {}
  @MqttEvent('ours')
  ours(): void {
    fail();
  }
  @EventPattern<string>('wait-until-fails')
  waitUntilFails(@Ctx() context: MqttMessageContext): void {
    context.waitUntil(failing());
  }
  @EventPattern<string>('handle-fails')
  handleFails(@Ctx() context: MqttMessageContext): void {
    const handle = context.detach();
    if (stage.broken) handle.fail(new Error('no'));
    else handle.acknowledge();
  }
  @MqttEvent('batch-fails', { batch: { size: 10, delay: 1 } })
  batchFails(_data: unknown, @Ctx() context: MqttBatchContext): void {
    if (stage.broken) context.fail(0, new Error('no'));
  }
  @MqttEvent('batch-throws', { batch: { size: 10, delay: 1 } })
  batchThrows(): void {
    fail();
  }
  @MqttEvent('never', { handlerTimeout: 20 })
  never() {
    return stage.broken ? new Promise(() => undefined) : undefined;
  }
  @MqttEvent('too-late', { handlerTimeout: 20 })
  async tooLate(): Promise<void> {
    if (stage.broken) await sleep(40);
  }
  @MqttEvent('handle-unused', { detachTimeout: 20 })
  handleUnused(@Ctx() context: MqttMessageContext): void {
    if (stage.broken) context.detach();
  }
  @EventPattern<string>('emit-times-out')
  emitTimesOut(): void {
    if (stage.broken) stage.impatientPulsar.emit('silent', Buffer.from('x'));
  }
  @EventPattern<string>('emit-too-large')
  emitTooLarge(): void {
    if (stage.broken) stage.pulsar.emit('out', Buffer.alloc(6 * 1024 * 1024));
  }
  @EventPattern<string>('emit-terminated')
  emitTerminated(): void {
    if (stage.broken) stage.pulsar.emit('terminated', Buffer.from('x'));
  }
  @MqttEvent('emit-awaited')
  async emitAwaited(): Promise<void> {
    if (stage.broken) await lastValueFrom(stage.impatientPulsar.emit('silent', Buffer.from('x')));
  }
  @MqttEvent('undecodable', { payload: undecodable })
  undecodable(): void {}
}

@Controller()
export class PolicyHandlers {
  @MqttEvent('retried', { failure: { retry: { attempts: 3, initialDelay: 1 }, then: 'discard' } })
  async retried(): Promise<void> {
    await retried(() => fail());
  }
  @MqttEvent('later')
  async later(@Ctx() context: MqttMessageContext): Promise<void> {
    await retried(() => context.retryLater(1));
  }
  @MqttEvent('decided', { failure: () => ({ action: 'retry', delayMs: 1 }) })
  async decided(): Promise<void> {
    await retried(() => fail());
  }
  @MqttEvent('discard', { failure: { then: 'discard' } })
  discard(): void {
    fail();
  }
  @MqttEvent('discard-after-retries', { failure: { retry: { attempts: 3, initialDelay: 1 }, then: 'discard' } })
  discardAfterRetries(): void {
    fail();
  }
  @MqttEvent('discard-undecodable', { payload: undecodable, failure: { retry: 3, then: 'discard' } })
  discardUndecodable(): void {}
  @MqttEvent('discard-timeout', { handlerTimeout: 20, failure: { then: 'discard' } })
  discardTimeout() {
    return new Promise(() => undefined);
  }
  @MqttEvent('reject', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  reject(): void {
    fail();
  }
  @MqttEvent('reject-by-hand')
  rejectByHand(@Ctx() context: MqttMessageContext): void {
    context.reject(0x97);
  }
  @MqttEvent('reject-decided', { failure: async () => ({ action: 'reject', reasonCode: 0x87 }) as const })
  rejectDecided(): void {
    fail();
  }
  @MqttEvent('dead', { failure: { then: 'deadLetter' } })
  dead(): void {
    fail();
  }
  @MqttEvent('dead-by-hand')
  deadByHand(@Ctx() context: MqttMessageContext): void {
    context.deadLetter('not for me');
  }
  @MqttEvent('halt', { failure: { then: 'halt' } })
  halt(): void {
    fail();
  }
}

@Controller()
export class RequestHandlers {
  @MqttRequest('request')
  request() {
    return 'answer';
  }
  @MqttRequest('request/empty')
  requestEmpty(): void {}
  @MqttRequest('request/fails')
  requestFails(): void {
    fail();
  }
  @MqttRequest('request/late', { handlerTimeout: 20 })
  requestLate() {
    return new Promise(() => undefined);
  }
  @MqttRequest('request/discard', { failure: { then: 'discard' } })
  requestDiscard(): void {
    fail();
  }
  @MqttRequest('request/reject', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  requestReject(): void {
    fail();
  }
  @MqttRequest('request/by-hand')
  requestRejectByHand(@Ctx() context: MqttMessageContext) {
    context.reject(0x97);
    return 'not sent';
  }
  @MqttRequest('request/dead', { failure: { then: 'deadLetter' } })
  requestDead(): void {
    fail();
  }
}
