import { Controller } from '@nestjs/common';
import { Ctx, EventPattern, Payload, type ReadPacket } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttBatchContext } from '../../lib/nest/mqtt-batch.context.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type RunningApp, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

/** `String()` throws for it; what querystring, regular expression groups and some parsers give is like that. */
const odd = (): Error => Object.create(null) as Error;

let refused = 0;
class Target extends EventClient {
  protected dispatchEvent<T>(_packet: ReadPacket): Promise<T> {
    refused += 1;
    return refused === 1 ? Promise.reject(odd()) : Promise.resolve(undefined as T);
  }
}

@Controller()
class Handlers {
  @MqttEvent('throws')
  throws(): void {
    throw odd();
  }
  @EventPattern<string>('plain')
  plain(): void {
    throw odd();
  }
  @MqttEvent('rejects')
  rejects(): Promise<void> {
    return Promise.reject(odd());
  }
  @MqttEvent('decoder', {
    payload: () => {
      throw odd();
    },
  })
  decoder(): void {}
  @MqttEvent('policy', {
    failure: () => {
      throw odd();
    },
  })
  policy(): void {
    throw new Error('no');
  }
  @MqttEvent('slow-policy', { failure: () => Promise.reject(odd()) })
  slowPolicy(): void {
    throw new Error('no');
  }
  @MqttEvent('letter', { failure: { then: 'deadLetter' } })
  letter(): void {
    throw odd();
  }
  @MqttEvent('batch', { batch: { size: 1, delay: 1 } })
  batch(@Payload() _data: Buffer[], @Ctx() context: MqttBatchContext): void {
    context.fail(0, odd());
  }
  @MqttEvent('waits')
  waits(@Ctx() context: MqttMessageContext): void {
    context.waitUntil(Promise.reject(odd()));
  }
  @MqttEvent('handle')
  handle(@Ctx() context: MqttMessageContext): void {
    context.detach().fail(odd());
  }
  @MqttEvent('fine')
  fine(): void {}
}

describe('what was thrown has no text', () => {
  let running: RunningApp;
  const start = async (strategy: object = {}): Promise<void> => {
    refused = 0;
    running = await startApp([Handlers], {
      strategy: {
        failure: { then: 'discard' },
        deadLetter: { client: new Target(), pattern: 'letters' },
        redeliverAfter: 20,
        ...strategy,
      },
    });
  };
  afterEach(() => running.close());

  it.each(['throws', 'plain', 'rejects', 'decoder', 'batch', 'waits', 'handle'])(
    '%s: the policy decides as for any failure',
    async (topic) => {
      await start();
      running.broker.publish(topic, 'x');
      await running.broker.log.waitForReceived('puback', 1);
      expect(running.strategy.stats).toMatchObject({ failedRuns: 1, discarded: 1 });
    },
  );

  it.each(['policy', 'slow-policy'])('by a %s: said and redelivered', async (topic) => {
    await start();
    running.broker.publish(topic, 'x');
    await until(() => running.strategy.stats.reconnects > 0);
    expect(running.logged.some((line) => line.includes('has no text') && line.includes('redelivered'))).toBe(true);
  });

  it('by the target of dead letters: the letter is tried again', async () => {
    await start();
    running.broker.publish('letter', 'x');
    await running.broker.log.waitForReceived('puback', 1);
    expect(running.strategy.stats).toMatchObject({ deadLetterFailures: 1, deadLettered: 1 });
  });

  it('by the target of dead letters, for a message that no handler wants', async () => {
    await start({ unmatched: 'deadLetter' });
    await running.strategy.client.subscribe([{ filter: 'nobody', qos: 1 }]);
    running.broker.publish('nobody', 'x');
    await running.broker.log.waitForReceived('puback', 1);
    expect(running.strategy.stats).toMatchObject({ deadLetterFailures: 1, deadLettered: 1 });
  });

  it('by order(): the message runs without a key', async () => {
    await start({
      order: () => {
        throw odd();
      },
    });
    running.broker.publish('fine', 'x');
    await running.broker.log.waitForReceived('puback', 1);
    expect(running.strategy.stats.succeeded).toBe(1);
  });
});
