import { Controller } from '@nestjs/common';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  RpcException,
  Transport,
} from '@nestjs/microservices';
import { lastValueFrom, of, toArray } from 'rxjs';
import { type RunningApp, startApp, until } from './support/app.js';

const events: unknown[] = [];

@Controller()
class Handlers {
  @MessagePattern<object>({ cmd: 'sum' })
  sum(@Payload() numbers: number[]): number {
    return numbers.reduce((a, b) => a + b, 0);
  }
  @MessagePattern<string>('stream')
  stream() {
    return of(1, 2, 3);
  }
  @MessagePattern<string>('fails')
  fails(): never {
    throw new RpcException('known');
  }
  @EventPattern<string>('event')
  event(@Payload() data: unknown): void {
    events.push(data);
  }
}

describe.each([5, 4] as const)(
  "Nest's own MQTT client, the strategy with envelope: 'nest' on MQTT %i",
  (protocolVersion) => {
    let running: RunningApp;
    let client: ReturnType<typeof ClientProxyFactory.create>;
    beforeAll(async () => {
      running = await startApp([Handlers], { strategy: { protocolVersion, envelope: 'nest' } });
      client = ClientProxyFactory.create({ transport: Transport.MQTT, options: { url: running.broker.url } });
    });
    afterAll(async () => {
      await client.close();
      await running.close();
    });

    it('gets values, streams and errors', async () => {
      expect(await lastValueFrom(client.send({ cmd: 'sum' }, [1, 2, 3]))).toBe(6);
      expect(await lastValueFrom(client.send('stream', {}).pipe(toArray()))).toEqual([1, 2, 3]);
      await expect(lastValueFrom(client.send('fails', {}))).rejects.toMatchObject({ message: 'known' });
    });

    it('its events reach their handler without the envelope', async () => {
      events.length = 0;
      client.emit('event', { id: 'kept', data: 1 });
      await until(() => events.length === 1);
      expect(events).toEqual([{ id: 'kept', data: 1 }]);
    });
  },
);
