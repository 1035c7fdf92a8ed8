import 'reflect-metadata';
import { Controller, type INestMicroservice, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { lastValueFrom, of, toArray } from 'rxjs';
import {
  type MqttClient,
  MqttClientProxy,
  type MqttClientProxyOptions,
  MqttEvent,
  type MqttMessageContext,
  MqttPublishRecordBuilder,
  MqttServerStrategy,
} from '../../lib/index.js';
import { unique, until } from './harness.js';
import { describeEachBroker } from './mqtt-live.js';

describeEachBroker('requests and events through Nest', (live) => {
  const root = unique('nest');
  const runs: string[] = [];

  @Controller()
  class Handlers {
    @MessagePattern<string>(`${root}/sum`)
    sum(@Payload() numbers: number[]): number {
      return numbers.reduce((a, b) => a + b, 0);
    }
    @MessagePattern<string>(`${root}/stream`)
    stream() {
      return of(1, 2, 3);
    }
    @MessagePattern<string>(`${root}/fails`)
    fails(): never {
      throw new RpcException({ status: 'error', message: 'known' });
    }
    @MqttEvent(`${root}/events/#`)
    all(@Payload() data: number): void {
      runs.push(`all ${data}`);
    }
    @MqttEvent(`${root}/events/+`)
    one(@Payload() data: number, @Ctx() context: MqttMessageContext): void {
      runs.push(`one ${data} ${context.getTopic().slice(root.length)}`);
    }
  }

  @Module({ controllers: [Handlers] })
  class AppModule {}

  let app: INestMicroservice;
  let strategy: MqttServerStrategy;
  let proxy: MqttClientProxy;
  beforeAll(async () => {
    const { url, version: protocolVersion } = live();
    // MQTT 3.1.1 has no Response Topic: there requests go in the envelope of Nest's own transport.
    const envelope: Pick<MqttClientProxyOptions, 'envelope'> = protocolVersion === 4 ? { envelope: 'nest' } : {};
    strategy = new MqttServerStrategy({
      url,
      protocolVersion,
      clientId: unique('app'),
      payload: 'json',
      ...(protocolVersion === 4 && { envelope: 'nest' }),
      bindWithoutDup: live().differs('redelivers without DUP'),
    });
    app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false });
    await app.listen();
    proxy = new MqttClientProxy({ url, protocolVersion, ...envelope });
    await proxy.connect();
  });
  afterAll(async () => {
    await proxy.close();
    await app.close();
  });
  beforeEach(() => {
    runs.length = 0;
  });

  it('a request gets its value, a stream every value, and an error its error', async () => {
    expect(await lastValueFrom(proxy.send(`${root}/sum`, [1, 2, 3]))).toBe(6);
    expect(await lastValueFrom(proxy.send(`${root}/stream`, {}).pipe(toArray()))).toEqual([1, 2, 3]);
    await expect(lastValueFrom(proxy.send(`${root}/fails`, {}))).rejects.toMatchObject({ message: 'known' });
  });

  it('many requests at once get each their own reply', async () => {
    const numbers = Array.from({ length: 100 }, (_, id) => id);
    const replies = await Promise.all(numbers.map((id) => lastValueFrom(proxy.send<number>(`${root}/sum`, [id, id]))));
    expect(replies).toEqual(numbers.map((id) => 2 * id));
    expect(proxy.stats).toMatchObject({ openRequests: 0, droppedReplies: 0, requestTimeouts: 0 });
  });

  it('a request that nobody answers ends with its time', async () => {
    const record = new MqttPublishRecordBuilder({}).setRequestTimeout(200).build();
    const code =
      live().version === 5 && !live().differs('does not say that nobody has subscribed')
        ? 'ERR_PUBLISH'
        : 'ERR_TIMEOUT';
    await expect(lastValueFrom(proxy.send(`${root}/nobody`, record))).rejects.toMatchObject({ code });
  });

  it('each of two handlers with overlapping filters runs once per message', async () => {
    for (let id = 0; id < 20; id++) await lastValueFrom(proxy.emit(`${root}/events/e`, id));
    await lastValueFrom(proxy.emit(`${root}/events/last/one`, 99));
    await until('the last', () => runs.includes('all 99'));
    const expected = Array.from({ length: 20 }, (_, id) => [`all ${id}`, `one ${id} /events/e`]).flat();
    expect([...runs].sort()).toEqual([...expected, 'all 99'].sort());
    await until('nothing un-acknowledged', () => strategy.unwrap<MqttClient>().window.used === 0);
  });
});
