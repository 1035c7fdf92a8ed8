import { createServer, type AddressInfo, type Server } from 'node:net';
import { Controller } from '@nestjs/common';
import {
  ClientMqtt,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
  RpcException,
  Transport,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { type INestMicroservice } from '@nestjs/common';
import { Aedes } from 'aedes';
import { from, lastValueFrom, type Observable, toArray } from 'rxjs';
import { MqttClientProxy } from '../../lib/nest/mqtt-client.proxy.js';
import { MqttPublishRecordBuilder } from '../../lib/nest/mqtt-publish-record.js';

const events: unknown[] = [];

@Controller()
class BuiltInController {
  @MessagePattern('sum')
  sum(@Payload() numbers: number[]): number {
    return numbers.reduce((a, b) => a + b, 0);
  }

  @MessagePattern('stream')
  stream(@Payload() numbers: number[]): Observable<number> {
    return from(numbers);
  }

  @MessagePattern({ cmd: 'echo' })
  echo(@Payload() data: unknown): unknown {
    return data;
  }

  @MessagePattern('nothing')
  nothing(): undefined {
    return undefined;
  }

  @MessagePattern('fails')
  fails(): never {
    throw new RpcException('not today');
  }

  @EventPattern('event')
  event(@Payload() data: unknown): void {
    events.push(data);
  }
}

describe("MqttClientProxy with envelope 'nest' and Nest's built-in MQTT server", () => {
  let aedes: Aedes;
  let server: Server;
  let url: string;
  let app: INestMicroservice;
  const proxies: MqttClientProxy[] = [];
  const proxy = (protocolVersion: 4 | 5): MqttClientProxy => {
    const made = new MqttClientProxy({ url, envelope: 'nest', protocolVersion });
    proxies.push(made);
    return made;
  };

  beforeAll(async () => {
    aedes = await Aedes.createBroker();
    server = createServer(aedes.handle.bind(aedes));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const module = await Test.createTestingModule({ controllers: [BuiltInController] }).compile();
    app = module.createNestMicroservice<MicroserviceOptions>({
      transport: Transport.MQTT,
      options: { url, subscribeOptions: { qos: 1 } },
    });
    app.useLogger(false);
    await app.listen();
  });

  afterEach(async () => {
    for (const one of proxies.splice(0)) await one.close();
    events.length = 0;
  });

  afterAll(async () => {
    await app.close();
    await new Promise<void>((resolve) => aedes.close(resolve));
    await new Promise((resolve) => server.close(resolve));
  });

  it('send() gets the reply of a message handler', async () => {
    const client = proxy(4);
    const answers = [[1, 2], [3], [4, 5, 6]].map((data) => lastValueFrom(client.send<number>('sum', data)));
    expect(await Promise.all(answers)).toEqual([3, 3, 15]);
    expect(client.stats).toMatchObject({ openRequests: 0, droppedReplies: 0 });
  });

  it('send() gets every value of a stream, in order', async () => {
    expect(await lastValueFrom(proxy(4).send('stream', [1, 2, 3]).pipe(toArray()))).toEqual([1, 2, 3]);
  });

  it('send() takes object patterns, records, and answers that look like envelopes', async () => {
    const client = proxy(4);
    const data = { id: 'x', response: 1, err: null, isDisposed: true };
    expect(await lastValueFrom(client.send({ cmd: 'echo' }, data))).toEqual(data);
    const record = new MqttPublishRecordBuilder({ deep: [1] }).setQos(2).build();
    expect(await lastValueFrom(client.send({ cmd: 'echo' }, record))).toEqual({ deep: [1] });
  });

  it('send() gets the error of a handler, and of a pattern nobody handles', async () => {
    const client = proxy(4);
    await expect(lastValueFrom(client.send('fails', 0))).rejects.toEqual({ status: 'error', message: 'not today' });
    const record = new MqttPublishRecordBuilder(0).setRequestTimeout(50).build();
    await expect(lastValueFrom(client.send('nobody', record))).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
  });

  it('asks again on the same topic after all requests have ended', async () => {
    const client = proxy(4);
    for (const n of [1, 2, 3]) expect(await lastValueFrom(client.send('sum', [n]))).toBe(n);
  });

  it('emit() reaches an event handler with its data', async () => {
    const client = proxy(4);
    await lastValueFrom(client.emit('event', { data: 1, id: 'kept' }));
    while (events.length < 1) await new Promise((resolve) => setImmediate(resolve));
    expect(events).toEqual([{ data: 1, id: 'kept' }]);
  });

  it('what both clients send is the same bytes', async () => {
    const seen: string[] = [];
    aedes.subscribe(
      'compare/#',
      (packet, done) => {
        seen.push(packet.payload.toString().replace(/"id":"[^"]*"/, '"id":"*"'));
        done();
      },
      () => undefined,
    );
    const builtIn = ClientProxyFactory.create({ transport: Transport.MQTT, options: { url } }) as ClientMqtt;
    const ours = proxy(4);
    for (const [index, client] of [builtIn, ours].entries()) {
      await client.connect();
      await lastValueFrom(client.emit('compare/event', { a: 1 }));
      const subscription = client.send('compare/request', [1, 2]).subscribe({ error: () => undefined });
      while (seen.length < 2 * (index + 1)) await new Promise((resolve) => setImmediate(resolve));
      subscription.unsubscribe();
    }
    await builtIn.close();
    expect(seen).toHaveLength(4);
    expect(seen.slice(2)).toEqual(seen.slice(0, 2));
  });
});
