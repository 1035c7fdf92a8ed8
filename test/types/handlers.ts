/**
 * Compile-only checks of what users write, in TypeScript strict: part of `npm run typecheck`, never run. A line under
 * `@ts-expect-error` must be refused by the compiler.
 */
import { Controller, Inject, Injectable, Module, type Type } from '@nestjs/common';
import {
  ClientProxy,
  ClientsModule,
  type CustomTransportStrategy,
  Ctx,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
} from '@nestjs/microservices';
import { lastValueFrom, type Observable } from 'rxjs';
import {
  type ComponentHealth,
  type MessageId,
  MqttClientProxy,
  MqttEarlyShutdown,
  MqttEvent,
  type MqttMessageContext,
  MqttPublishRecordBuilder,
  MqttPulsarHealth,
  MqttPulsarModule,
  MqttRequest,
  MqttServerStrategy,
  PulsarClientProxy,
  PulsarRecordBuilder,
  type PublishResult,
} from '../../lib/index.js';

interface Reading {
  readonly celsius: number;
}

/** Our decorators take every shape of handler; Nest 12's `@EventPattern('x')` refuses the first two (TS1241). */
@Controller()
export class OurDecorators {
  constructor(
    @Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy,
    @Inject(MqttClientProxy) private readonly mqtt: MqttClientProxy,
  ) {}

  @MqttEvent('a')
  noParameters(): void {}

  @MqttEvent('b/+', { qos: 2, sharedGroup: 'g', payload: 'json', failure: { retry: 3, then: 'deadLetter' } })
  typedContext(@Payload() reading: Reading, @Ctx() context: MqttMessageContext): Observable<MessageId> {
    return this.pulsar.emit(`out/${context.getParams()[0]}`, reading);
  }

  @MqttEvent('c')
  async promise(@Ctx() context: MqttMessageContext): Promise<void> {
    const id: MessageId = await lastValueFrom(this.pulsar.emit('out', context.getPayload()));
    const result: PublishResult = await lastValueFrom(this.mqtt.emit('out', id.toString()));
    context.waitUntil(Promise.resolve(result.reasonCode));
  }

  @MqttRequest('sum', { acknowledge: 'onFirstReply' })
  sum(@Payload() numbers: number[]): number {
    return numbers.length;
  }

  @MqttEvent('d', { server: 'second' })
  private(): void {}
}

/** Nest's own decorators work with the type argument. */
@Controller()
export class NestDecorators {
  @EventPattern<string>('a', { qos: 1 })
  event(@Payload() _payload: Buffer, @Ctx() _context: MqttMessageContext): void {}

  @MessagePattern('b')
  request(@Ctx() _context: MqttMessageContext): string {
    return 'x';
  }
}

export const wrongOptions = [
  // @ts-expect-error there is no QoS 3
  MqttEvent('a', { qos: 3 }),
  // @ts-expect-error misspelt
  MqttEvent('a', { handlerTimout: 1 }),
  // @ts-expect-error no such step
  MqttEvent('a', { failure: { then: 'dicard' } }),
  // @ts-expect-error the URL is required
  () => new PulsarClientProxy({}),
  // @ts-expect-error misspelt
  () => new PulsarClientProxy({ url: 'pulsar://h', maxProducer: 1 }),
  // @ts-expect-error the topic of a producer is that of the pattern
  () => new PulsarClientProxy({ url: 'pulsar://h', producer: { topic: 't' } }),
  // @ts-expect-error no such envelope
  () => new MqttClientProxy({ envelope: 'jest' }),
  // @ts-expect-error keys are text or bytes
  () => new PulsarRecordBuilder('x').setKey(1),
];

/** The classes fit where Nest takes one. */
export const asCustomClass: Type<ClientProxy>[] = [PulsarClientProxy, MqttClientProxy];
export const asStrategy: CustomTransportStrategy = new MqttServerStrategy({ clientId: 'types' });
export const asMicroserviceOptions: MicroserviceOptions = { strategy: new MqttServerStrategy({ clientId: 'types' }) };

export const modules = [
  ClientsModule.register([
    { name: 'A', customClass: PulsarClientProxy, options: { url: 'pulsar://h' } },
    { name: 'B', customClass: MqttClientProxy },
  ]),
  ClientsModule.registerAsync([
    { name: 'C', useFactory: () => ({ customClass: PulsarClientProxy, options: { url: 'pulsar://h' } }) },
  ]),
  MqttPulsarModule.forRoot({ isGlobal: true, pulsar: { url: ['pulsar://a', 'pulsar://b'] } }),
  MqttPulsarModule.forRootAsync({
    isGlobal: true,
    inject: ['CONFIG'],
    useFactory: async (url: string) => ({ pulsar: { url }, mqtt: { url: 'mqtt://h', clientId: 'c' }, mqttClient: {} }),
  }),
];

@Module({ imports: modules, providers: [MqttEarlyShutdown] })
export class AppModule {}

/** Behind Nest's own type a proxy is a client like any other. */
@Injectable()
export class Emitter {
  constructor(
    @Inject('A') private readonly client: ClientProxy,
    @Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy,
    @Inject(MqttClientProxy) private readonly mqtt: MqttClientProxy,
  ) {}

  emit(): Observable<MessageId> {
    return this.client.emit<MessageId>('t', new PulsarRecordBuilder({ a: 1 }).setKey(Uint8Array.of(1)).build());
  }

  send(): Observable<number> {
    return this.mqtt.send<number>('sum', new MqttPublishRecordBuilder([1, 2]).setQos(2).setRequestTimeout(100).build());
  }

  listen(): void {
    this.pulsar.on('connectFailed', ({ broker, cause }) => [broker.length, cause.code]);
    const remove: () => void = this.mqtt.on('serverDisconnect', ({ reasonCode }) => reasonCode + 1);
    remove();
    // @ts-expect-error no such event
    this.mqtt.on('conect', () => undefined);
    const status: Observable<string> = this.pulsar.status;
    status.subscribe();
  }
}

export function health(strategy: MqttServerStrategy, pulsar: PulsarClientProxy): MqttPulsarHealth {
  const own = { health: (): ComponentHealth => ({ status: 'up', details: {} }) };
  return new MqttPulsarHealth({ strategy, pulsar, own });
}
