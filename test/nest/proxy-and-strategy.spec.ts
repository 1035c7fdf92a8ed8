import { Catch, Controller, type ExceptionFilter, Inject, UseFilters } from '@nestjs/common';
import {
  type ClientMqtt,
  ClientProxyFactory,
  MessagePattern,
  Payload,
  RpcException,
  Transport,
} from '@nestjs/microservices';
import { EMPTY, from, lastValueFrom, type Observable, throwError, toArray } from 'rxjs';
import { MqttClientProxy, MqttEvent, MqttPublishRecordBuilder, MqttRequest } from '../../lib/index.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { type RunningApp, startApp } from './support/app.js';

@Catch()
class Translate implements ExceptionFilter {
  catch(): Observable<never> {
    return throwError(() => ({ code: 'E42' }));
  }
}

@Controller()
class Answers {
  @MqttRequest('sum', { payload: 'json' })
  sum(@Payload() numbers: number[]): number {
    return numbers.reduce((a, b) => a + b, 0);
  }

  @MqttRequest('stream', { payload: 'json' })
  stream(@Payload() numbers: number[]): Observable<number> {
    return from(numbers);
  }

  @MqttRequest('empty')
  empty(): Observable<never> {
    return EMPTY;
  }

  @MqttRequest('fails')
  fails(): never {
    throw new RpcException('not today');
  }

  @MqttRequest('hides')
  hides(): never {
    throw new Error('the password is 1234');
  }

  @MqttRequest('translates')
  @UseFilters(Translate)
  translates(): never {
    throw new Error('internal words');
  }

  @MessagePattern('echo/+')
  echo(@Payload() data: unknown): unknown {
    return data;
  }
}

@Controller()
class Asks {
  answered = 0;
  constructor(@Inject(MqttClientProxy) private readonly mqtt: MqttClientProxy) {}

  @MqttEvent('ask')
  async ask(@Payload() payload: Buffer): Promise<void> {
    const reply = await lastValueFrom(this.mqtt.send<number>('sum', [Number(payload.toString()), 1]));
    await lastValueFrom(this.mqtt.emit('answered', String(reply)));
    this.answered += 1;
  }
}

describe('MqttClientProxy and MqttServerStrategy', () => {
  let broker: InMemoryMqttBroker;
  let open: (() => unknown)[];

  beforeEach(async () => {
    broker = await InMemoryMqttBroker.start();
    open = [];
  });
  afterEach(async () => {
    for (const close of open.reverse()) await close();
    await broker.close();
    expect(broker.violations).toEqual([]);
  });

  const client = (options: object = {}): MqttClientProxy => {
    const made = new MqttClientProxy({ url: broker.url, ...options });
    open.push(() => made.close());
    return made;
  };
  const serve = async (options: object = {}): Promise<RunningApp> => {
    const app = await startApp([Answers], { broker, strategy: { clientId: 'answers', ...options } });
    open.push(() => app.close());
    return app;
  };

  it.each<[string, object, object]>([
    ['Response Topic and Correlation Data', {}, {}],
    ["Nest's envelope, MQTT 5", { envelope: 'nest' }, { envelope: 'nest' }],
    ["Nest's envelope, 3.1.1", { envelope: 'nest', protocolVersion: 4 }, { envelope: 'nest', protocolVersion: 4 }],
  ])(
    '%s: values, streams, empty streams and errors come back, and every request is acknowledged',
    async (_name, server, own) => {
      const { strategy } = await serve(server);
      const proxy = client(own);
      expect(await Promise.all([[1, 2], [3]].map((data) => lastValueFrom(proxy.send('sum', data))))).toEqual([3, 3]);
      expect(await lastValueFrom(proxy.send('stream', [1, 2, 3]).pipe(toArray()))).toEqual([1, 2, 3]);
      expect(await lastValueFrom(proxy.send('empty', 0).pipe(toArray()))).toEqual([]);
      await expect(lastValueFrom(proxy.send('fails', 0))).rejects.toMatchObject({
        status: 'error',
        message: 'not today',
      });
      await expect(lastValueFrom(proxy.send('hides', 0))).rejects.toEqual({
        status: 'error',
        message: 'Internal server error',
      });
      await expect(lastValueFrom(proxy.send('translates', 0))).rejects.toEqual({ code: 'E42' });
      expect(proxy.stats).toMatchObject({ openRequests: 0, droppedReplies: 0, requestTimeouts: 0 });
      await broker.log.waitFor(() => strategy.client.window.used === 0);
    },
  );

  it("Nest's own client is answered by the strategy with envelope 'nest'", async () => {
    await serve({ envelope: 'nest' });
    const builtIn = ClientProxyFactory.create({
      transport: Transport.MQTT,
      options: { url: broker.url },
    }) as ClientMqtt;
    open.push(() => builtIn.close());
    expect(await lastValueFrom(builtIn.send('sum', [1, 2]))).toBe(3);
    expect(await lastValueFrom(builtIn.send('stream', [1, 2, 3]).pipe(toArray()))).toEqual([1, 2, 3]);
    expect(await lastValueFrom(builtIn.send('echo/1', { id: 'x', data: 1 }))).toEqual({ id: 'x', data: 1 });
    await expect(lastValueFrom(builtIn.send('fails', 0))).rejects.toMatchObject({ message: 'not today' });
  });

  it('a request that nobody waits for any more does not run', async () => {
    const proxy = client({ clientId: 'asker' });
    await proxy.connect();
    // The responder comes back to its session after the requester has given up.
    const first = await serve();
    await first.app.close();
    const record = new MqttPublishRecordBuilder([1]).setRequestTimeout(30).setMessageExpiryInterval(1).build();
    await expect(lastValueFrom(proxy.send('sum', record))).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    expect(proxy.stats).toMatchObject({ requestTimeouts: 1, openRequests: 0 });
    expect(broker.log.received('publish')[0].properties).toMatchObject({ messageExpiryInterval: 1 });
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await serve();
    expect(await lastValueFrom(proxy.send('stream', [7]))).toBe(7);
    // Two requests and one reply.
    expect(broker.log.received('publish')).toHaveLength(3);
  });

  it('no deadlock: every running handler waits for a reply and for a PUBACK during a flood', async () => {
    await serve({ concurrency: 2, receiveMaximum: 2 });
    const proxy = client();
    const asking = await startApp([Asks], {
      broker,
      strategy: { clientId: 'asks', concurrency: 4, receiveMaximum: 4 },
      providers: [{ provide: MqttClientProxy, useValue: proxy }],
    });
    open.push(() => asking.close());
    for (let n = 0; n < 300; n++) broker.publish('ask', String(n), { qos: 1 });
    const answers = await broker.log.waitFor(() => {
      const found = broker.log.received('publish').filter(({ topic }) => topic === 'answered');
      return found.length === 300 ? found : undefined;
    });
    const numbers = answers.map(({ payload }) => Number(payload.toString())).sort((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 300 }, (_, n) => n + 1));
    await broker.log.waitFor(() => asking.strategy.stats.succeeded === 300);
    expect(asking.strategy.stats.failedRuns).toBe(0);
  });
});
