import {
  Controller,
  Inject,
  Injectable,
  type NestInterceptor,
  type CallHandler,
  UseInterceptors,
} from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { setTimeout as sleep } from 'node:timers/promises';
import { concatMap, lastValueFrom, map, type Observable, of, timer } from 'rxjs';
import { PulsarClientProxy, PulsarRecordBuilder } from '../../lib/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { type RunningApp, settled, startApp, until } from '../nest/support/app.js';

@Injectable()
class Around implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((value: unknown) => value));
  }
}

let late: (() => void)[] = [];

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}

  @EventPattern<string>('forgotten')
  forgotten(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('several')
  several(@Payload() payload: Buffer): void {
    for (const topic of ['out', 'out-2', 'out']) this.pulsar.emit(topic, payload);
  }

  @EventPattern<string>('after-await')
  async afterAwait(@Payload() payload: Buffer): Promise<void> {
    await sleep(2);
    this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('interceptor')
  @UseInterceptors(Around)
  async interceptor(@Payload() payload: Buffer): Promise<void> {
    await Promise.resolve();
    this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('observable')
  observable(@Payload() payload: Buffer): Observable<unknown> {
    return timer(2).pipe(
      concatMap(() => {
        this.pulsar.emit('out', payload);
        return of('done');
      }),
    );
  }

  @EventPattern<string>('returned')
  returned(@Payload() payload: Buffer): Observable<unknown> {
    return this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('awaited')
  async awaited(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('out', payload));
  }

  @EventPattern<string>('subscribed')
  subscribed(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload).subscribe({ error: () => undefined });
  }

  @EventPattern<string>('caught')
  async caught(@Payload() payload: Buffer): Promise<void> {
    await lastValueFrom(this.pulsar.emit('refused', payload)).catch(() => undefined);
    this.pulsar.emit('out', payload);
  }

  @EventPattern<string>('opted-out')
  optedOut(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', new PulsarRecordBuilder(payload).setHoldsAcknowledgement(false).build());
  }

  @EventPattern<string>('later')
  later(@Payload() payload: Buffer): void {
    // A timer, so that it still belongs to the run of this handler.
    const timer = setInterval(() => {
      if (late.length === 0) return;
      clearInterval(timer);
      this.pulsar.emit('out', payload);
    }, 1);
  }
}

/** A handler that forgets `await emit()` must not be acknowledged before the receipt (derived: HSLdevcom/transitdata#162). */
describe('C29', () => {
  let pulsar: InMemoryPulsarBroker;
  let proxy: PulsarClientProxy;
  let running: RunningApp;

  beforeEach(async () => {
    late = [];
    pulsar = await InMemoryPulsarBroker.start();
    pulsar.options.authorize = (topic) => (topic.endsWith('refused') ? 'not for you' : undefined);
    proxy = new PulsarClientProxy({ url: pulsar.url });
    running = await startApp([Handlers], { providers: [{ provide: PulsarClientProxy, useValue: proxy }] });
  });
  afterEach(async () => {
    await running.close();
    await proxy.close();
    await pulsar.close();
  });

  const stored = (): number => ['out', 'out-2'].reduce((sum, topic) => sum + pulsar.topic(topic).messages.length, 0);
  const acknowledgements = (): number => running.broker.log.received('puback').length;

  it.each([
    ['forgotten', 1],
    ['several', 3],
    ['after-await', 1],
    ['interceptor', 1],
    ['observable', 1],
    ['returned', 1],
    ['awaited', 1],
    ['subscribed', 1],
    ['caught', 1],
  ])('%s: the acknowledgement waits for the receipts', async (topic, messages) => {
    pulsar.holdReceipts();
    running.broker.publish(topic, 'x', { qos: 1 });
    await until(() => stored() === messages);
    await settled();
    expect(acknowledgements()).toBe(0);
    pulsar.releaseReceipts();
    await running.broker.log.waitForReceived('puback');
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, failedRuns: 0 });
  });

  it.each(['forgotten', 'several', 'after-await', 'interceptor', 'observable', 'returned', 'awaited', 'subscribed'])(
    '%s: a failed emit fails the delivery',
    async (topic) => {
      pulsar.terminate('out');
      running.broker.publish(topic, 'x', { qos: 1 });
      await until(() => running.strategy.stats.failedRuns === 1);
      await settled();
      expect(acknowledgements()).toBe(0);
      expect(running.strategy.stats.succeeded).toBe(0);
    },
  );

  it('an emit that failed inside the run and was caught does not fail it', async () => {
    running.broker.publish('caught', 'x', { qos: 1 });
    await running.broker.log.waitForReceived('puback');
    expect(pulsar.topic('out').texts).toEqual(['x']);
  });

  it('an emit that opted out holds nothing', async () => {
    pulsar.holdReceipts();
    running.broker.publish('opted-out', 'x', { qos: 1 });
    await running.broker.log.waitForReceived('puback');
    expect(proxy.stats.stored).toBe(0);
    pulsar.releaseReceipts();
    await until(() => proxy.stats.stored === 1);
  });

  it('an emit after the delivery was settled is sent, counted, and warned about once, naming the handler', async () => {
    for (let n = 1; n <= 2; n++) {
      late = [];
      running.broker.publish('later', 'x', { qos: 1 });
      await running.broker.log.waitForReceived('puback', n);
      late = [() => undefined];
      await until(() => proxy.stats.late === n && proxy.stats.stored === n);
    }
    expect(pulsar.topic('out').messages).toHaveLength(2);
    const warnings = running.logged.filter((line) => line.includes('after its delivery was settled'));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("handler of 'later'");
  });

  it('holds it under load: no acknowledgement leaves before its receipt', async () => {
    pulsar.holdReceipts();
    for (let n = 0; n < 100; n++) running.broker.publish('forgotten', String(n), { qos: 1 });
    await until(() => stored() === 100);
    await settled();
    expect(acknowledgements()).toBe(0);
    pulsar.releaseReceipts();
    await running.broker.log.waitForReceived('puback', 100);
    const ids = running.broker.log.received('puback').map(({ messageId }) => messageId);
    const sent = running.broker.log.sent('publish').map(({ messageId }) => messageId);
    expect(ids).toEqual(sent);
  });
});
