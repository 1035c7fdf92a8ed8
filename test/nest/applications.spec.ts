import {
  Controller,
  Injectable,
  Module,
  type OnModuleDestroy,
  Scope,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, EventPattern, type MicroserviceOptions, Payload } from '@nestjs/microservices';
import { map } from 'rxjs';
import { MqttEvent, MqttRequest, mqttTransportId } from '../../lib/nest/decorators.js';
import { FailureCapture } from '../../lib/nest/failure-capture.interceptor.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { gate, settled, startApp, until } from './support/app.js';

let seen: string[] = [];
let broker: InMemoryMqttBroker;
beforeEach(async () => {
  seen = [];
  broker = await InMemoryMqttBroker.start();
});
afterEach(() => broker.close());

const appModule = (controllers: Type[], providers: unknown[] = []): Type => {
  class AppModule {}
  Module({ controllers, providers: providers as never[] })(AppModule);
  return AppModule;
};
const options = (clientId = 'app') => ({ url: broker.url, clientId, redeliverAfter: 60_000 });

@Controller()
class Plain {
  @EventPattern<string>('t')
  t(@Payload() payload: Buffer): void {
    seen.push(payload.toString());
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerMessage {
  static made = 0;
  readonly number = ++PerMessage.made;
}
@Controller()
class RequestScoped {
  constructor(private readonly own: PerMessage) {}
  @EventPattern<string>('t')
  t(@Payload() payload: Buffer): void {
    seen.push(`${this.own.number}:${payload.toString()}`);
    if (payload.toString() === 'bad') throw new Error('no');
  }
}

it('request-scoped controllers: an instance per message, the same outcomes', async () => {
  const { strategy, close } = await startApp([RequestScoped], { broker, providers: [PerMessage] });
  for (const payload of ['a', 'b', 'bad']) broker.publish('t', payload, { qos: 1 });
  await until(() => strategy.stats.held === 1);
  expect(seen.map((entry) => entry.split(':')[1])).toEqual(['a', 'b', 'bad']);
  expect(new Set(seen.map((entry) => entry.split(':')[0])).size).toBe(3);
  await broker.log.waitForReceived('puback', 2);
  expect(broker.log.received('puback')).toHaveLength(2);
  await close();
});

it('the strategy from useFactory of createMicroservice', async () => {
  const app = await NestFactory.createMicroservice(appModule([Plain]), {
    logger: false,
    inject: [],
    useFactory: () => ({ strategy: new MqttServerStrategy(options()) }),
  } as never);
  await app.listen();
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  expect(seen).toEqual(['x']);
  await app.close();
});

it('several strategies in a hybrid application: each gets the handlers meant for it', async () => {
  @Controller()
  class Both {
    @MqttEvent('t', { server: 'one' })
    one(): void {
      seen.push('one');
    }
    @EventPattern<string>('t', mqttTransportId('two'))
    two(): void {
      seen.push('two');
    }
  }
  const app = await NestFactory.create(appModule([Both]), { logger: false });
  const strategies = ['one', 'two'].map((name) => new MqttServerStrategy({ ...options(name), name }));
  for (const strategy of strategies) app.connectMicroservice<MicroserviceOptions>({ strategy });
  await app.startAllMicroservices();
  expect(strategies.map(({ transportId }) => transportId)).toEqual([mqttTransportId('one'), mqttTransportId('two')]);
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback', 2);
  expect(seen.sort()).toEqual(['one', 'two']);
  await app.close();
  await until(() => broker.log.received('disconnect').length === 2);
});

it('as a provider of a hybrid application it has finished its handlers before other modules are destroyed', async () => {
  const end = gate();
  @Injectable()
  class Pool implements OnModuleDestroy {
    onModuleDestroy(): void {
      seen.push('pool closed');
    }
  }
  @Module({ providers: [Pool], exports: [Pool] })
  class PoolModule {}
  @Controller()
  class Slow {
    @EventPattern<string>('t')
    async t(): Promise<void> {
      seen.push('started');
      await end.promise;
      seen.push('finished');
    }
  }
  const strategy = new MqttServerStrategy(options());
  class AppModule {}
  Module({
    imports: [PoolModule],
    controllers: [Slow],
    providers: [{ provide: MqttServerStrategy, useValue: strategy }],
  })(AppModule);
  const app = await NestFactory.create(AppModule, { logger: false });
  app.connectMicroservice<MicroserviceOptions>({ strategy: app.get(MqttServerStrategy) });
  await app.startAllMicroservices();
  broker.publish('t', 'x', { qos: 1 });
  await until(() => seen.length === 1);
  const closing = app.close();
  await settled();
  end.open();
  await closing;
  expect(seen).toEqual(['started', 'finished', 'pool closed']);
  expect(broker.log.received('puback')).toHaveLength(1);
  expect(broker.log.received('unsubscribe')).toEqual([]);
});

it('nothing is left open after close', async () => {
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('TCPSocket'));
  const { app, strategy } = await startApp([Plain], { broker });
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  await app.close();
  await until(() => broker.connections.length === 0);
  expect(strategy.state).toBe('closed');
  const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('TCPSocket'));
  expect(after.length).toBeLessThanOrEqual(before.length);
});

it('processing hooks: the outcome counts, whatever the start hook returns; a hook that never calls done times out', async () => {
  const { strategy, close } = await startApp([Plain], { broker, strategy: { handlerTimeout: 60 } });
  const hooks: string[] = [];
  strategy.setOnProcessingEndHook(() => void hooks.push('end'));
  // Asynchronous, as tracers write it, although the type says that nothing is returned.
  const start = async (done: () => Promise<unknown>): Promise<void> => {
    await settled(3);
    hooks.push('start');
    await done();
    hooks.push('done');
  };
  strategy.setOnProcessingStartHook((_id, _context, done) => void start(done));
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  await settled(3);
  expect(hooks).toEqual(['start', 'end', 'done']);
  strategy.setOnProcessingStartHook(() => undefined);
  broker.publish('t', 'y', { qos: 1 });
  await until(() => strategy.stats.timedOut === 1);
  expect(seen).toEqual(['x']);
  expect(broker.log.received('puback')).toHaveLength(1);
  await close();
});

it('FailureCapture records for plain decorators', async () => {
  const errors: unknown[] = [];
  @Controller()
  class Captured {
    @EventPattern<string>('t', {
      failure: (failure: { error: unknown; masked: boolean }) => {
        errors.push(failure.masked, failure.error);
        return 'discard';
      },
    })
    @UseInterceptors(FailureCapture, { intercept: (_c, next) => next.handle().pipe(map((value: unknown) => value)) })
    t(): void {
      throw new RangeError('what was thrown');
    }
  }
  const { close } = await startApp([Captured], { broker });
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  expect(errors).toEqual([false, new RangeError('what was thrown')]);
  await close();
});

it('an event and a request handler on one filter fail the start by name', async () => {
  @Controller()
  class Collision {
    @EventPattern<string>('a/+')
    event(): void {}
    @MqttEvent('b')
    other(): void {}
  }
  @Controller()
  class Request {
    @MqttRequest('a/+')
    request(): void {}
  }
  await expect(startApp([Collision, Request], { broker })).rejects.toThrow(/handlers\['a\/\+'\].*request handler/);
  expect(broker.log.received('connect')).toEqual([]);
});

it('overlapping filters: a copy per subscription runs each handler once; one acknowledgement per copy', async () => {
  @Controller()
  class Overlap {
    @EventPattern<string>('s/#')
    all(@Ctx() context: MqttMessageContext): void {
      seen.push(`all ${context.getParams().join()}`);
    }
    @EventPattern<string>('s/+/t')
    one(@Ctx() context: MqttMessageContext): void {
      seen.push(`one ${context.getParams().join()}`);
    }
    @EventPattern<string>('u')
    alone(): void {}
  }
  const { strategy, close } = await startApp([Overlap], { broker });
  const identifiers = broker.log
    .received('subscribe')
    .map(({ subscriptions, properties }) => [subscriptions[0].topic, properties?.subscriptionIdentifier] as const);
  expect(identifiers.filter(([, identifier]) => identifier !== undefined)).toHaveLength(2);
  broker.publish('s/1/t', 'x', { qos: 1 });
  await until(() => seen.length >= 2);
  await settled();
  expect(seen.sort()).toEqual(['all 1/t', 'one 1']);
  expect(broker.log.received('puback')).toHaveLength(broker.log.sent('publish').length);
  expect(strategy.stats.held).toBe(0);
  await close();
});

it('sharedGroup subscribes every filter in the group, but those that say otherwise', async () => {
  @Controller()
  class Shared {
    @EventPattern<string>('a')
    a(): void {
      seen.push('a');
    }
    @MqttEvent('b', { sharedGroup: false })
    b(): void {}
    @MqttEvent('$share/mine/c')
    c(): void {}
  }
  const { close } = await startApp([Shared], { broker, strategy: { sharedGroup: 'g' } });
  const filters = broker.log
    .received('subscribe')
    .flatMap(({ subscriptions }) => subscriptions.map(({ topic }) => topic));
  expect(filters.sort()).toEqual(['$share/g/a', '$share/mine/c', 'b']);
  broker.publish('a', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  expect(seen).toEqual(['a']);
  await close();
});

it('a strategy that no handler is meant for says so', async () => {
  @Controller()
  class Elsewhere {
    @MqttEvent('t', { server: 'plnt' })
    t(): void {}
  }
  const { logged, close } = await startApp([Elsewhere], { broker, strategy: { name: 'plant' } });
  expect(logged).toEqual([expect.stringContaining("No controller has a handler for the strategy 'plant'")]);
  await close();
});

it('waitUntil() of nothing to wait for fails the handler, and holds nothing', async () => {
  @Controller()
  class Handlers {
    @MqttEvent('t')
    t(@Ctx() context: MqttMessageContext): void {
      expect(() => context.waitUntil(undefined as never)).toThrow(/waitUntil\(\).*a value of type undefined/);
    }
  }
  const { close } = await startApp([Handlers], { broker });
  broker.publish('t', 'x', { qos: 1 });
  await broker.log.waitForReceived('puback');
  await close();
});
