import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { Observable } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { gate, settled, startApp, until } from './support/app.js';
import { holdPubacks } from './support/requester.js';

let finished: string[] = [];

/** What a handler does that stops its work when its signal tells it. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
}

@Controller()
class Handlers {
  @MqttEvent('one')
  one(@Ctx() context: MqttMessageContext): Promise<void> {
    return untilAborted(context.signal);
  }
  @MqttEvent('stream')
  stream(@Ctx() context: MqttMessageContext): Observable<number> {
    return new Observable((subscriber) => {
      context.signal.addEventListener('abort', () => subscriber.complete());
    });
  }
  @MqttEvent('batch', { batch: { size: 2, delay: 1 } })
  batch(@Payload() _data: Buffer[], @Ctx() context: MqttBatchContext): Promise<void> {
    return untilAborted(context.signal);
  }
  @MqttEvent('detached')
  async detached(@Ctx() context: MqttMessageContext): Promise<void> {
    const handle = context.detach();
    await untilAborted(context.signal);
    finished.push(String(handle.acknowledge()));
  }
  @MqttEvent('waits')
  waits(@Ctx() context: MqttMessageContext): void {
    context.waitUntil(untilAborted(context.signal));
  }
}

describe('what its signal ended at the bound of the shutdown has not succeeded', () => {
  beforeEach(() => {
    finished = [];
  });

  it.each([
    ['one', 1, 5],
    ['one', 2, 5],
    ['one', 1, 4],
    ['one', 2, 4],
    ['stream', 1, 5],
    ['batch', 1, 5],
    ['detached', 1, 5],
    ['waits', 1, 5],
  ] as const)('%s, QoS %i, MQTT version %i: nothing is acknowledged', async (topic, qos, protocolVersion) => {
    const running = await startApp([Handlers], { strategy: { qos, protocolVersion, shutdownTimeout: 60 } });
    running.broker.publish(topic, 'x', { qos });
    await until(() => running.strategy.client.stats.deliveries.running === 1);
    await settled();
    await running.app.close();
    await settled();
    expect(running.broker.log.summary().filter((word) => /^>(puback|pubrec)/.test(word))).toEqual([]);
    expect(running.broker.log.received('disconnect')).toHaveLength(1);
    expect(running.logged.filter((line) => line.includes('1 unfinished deliveries (1 running)'))).toHaveLength(1);
    if (topic === 'detached') expect(finished).toEqual(['false']);
    await running.close();
  });

  it.each(['late', 'late-batch'])(
    '%s: a signal that is first looked at behind the bound, while close() waits for a publish',
    async (topic) => {
      const seen: boolean[] = [];
      const work = gate();
      @Controller()
      class Late {
        @MqttEvent('late')
        async late(@Ctx() context: MqttMessageContext): Promise<void> {
          await work.promise;
          seen.push(context.signal.aborted);
        }
        @MqttEvent('late-batch', { batch: { size: 2, delay: 60_000 } })
        async batch(@Payload() _data: Buffer[], @Ctx() context: MqttBatchContext): Promise<void> {
          await work.promise;
          seen.push(context.signal.aborted);
        }
      }
      const running = await startApp([Late], { strategy: { shutdownTimeout: 20 } });
      for (const payload of ['x', 'y']) running.broker.publish(topic, payload);
      await until(() => running.strategy.client.stats.deliveries.running === 2);
      const release = holdPubacks(running.broker);
      void running.strategy.client.publish({ topic: 'other', payload: 'z', qos: 1 }).catch(() => undefined);
      const closed = running.app.close();
      await until(() => running.strategy.abortReason !== undefined);
      work.open();
      await settled();
      release();
      await closed;
      expect(seen).toEqual(topic === 'late' ? [true, true] : [true]);
      expect(running.broker.log.received('puback')).toEqual([]);
      await running.close();
    },
  );

  it('what ended within the bound is acknowledged, also where it looked at its signal', async () => {
    const work = gate();
    @Controller()
    class Quick {
      @MqttEvent('quick')
      async quick(@Ctx() context: MqttMessageContext): Promise<void> {
        context.signal.addEventListener('abort', () => finished.push('aborted'));
        await work.promise;
      }
    }
    const running = await startApp([Quick], { strategy: { shutdownTimeout: 60_000 } });
    running.broker.publish('quick', 'x');
    await until(() => running.strategy.client.stats.deliveries.running === 1);
    const closed = running.app.close();
    work.open();
    await closed;
    expect(running.broker.log.received('puback')).toHaveLength(1);
    expect(finished).toEqual([]);
    await running.close();
  });
});
