import { createServer, type Server, type AddressInfo } from 'node:net';
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import {
  MqttClient,
  MqttClientProxy,
  MqttEvent,
  MqttPulsarHealth,
  MqttRequest,
  MqttServerStrategy,
  OptionsError,
  PulsarClient,
  PulsarClientProxy,
} from '../../lib/index.js';

/** A misspelt option that is silently ignored, a wrong value that falls back (nestjs/nest#757, #1039; milvus#53449). */
describe('C56', () => {
  let server: Server;
  let connections = 0;
  let port = 0;

  beforeAll(async () => {
    server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
    expect(connections).toBe(0);
  });

  const mqtt = (): object => ({ url: `mqtt://127.0.0.1:${port}`, clientId: 'c' });
  const pulsar = (): object => ({ url: `pulsar://127.0.0.1:${port}` });
  const makers: Record<string, (options: object) => unknown> = {
    MqttClient: (options) => new MqttClient({ ...mqtt(), ...options }),
    MqttServerStrategy: (options) => new MqttServerStrategy({ ...mqtt(), ...options }),
    MqttClientProxy: (options) => new MqttClientProxy({ ...mqtt(), ...options }),
    PulsarClient: (options) => new PulsarClient({ ...pulsar(), ...options } as never),
    PulsarClientProxy: (options) => new PulsarClientProxy({ ...pulsar(), ...options } as never),
  };
  const failure = (maker: string, options: object): OptionsError => {
    try {
      makers[maker](options);
    } catch (error) {
      expect(error).toBeInstanceOf(OptionsError);
      return error as OptionsError;
    }
    throw new Error(`${maker} accepted ${JSON.stringify(options)}`);
  };

  it.each([
    ['MqttClient', { keepAliv: 1 }, 'mqtt.keepAliv', 'keepAlive'],
    ['MqttServerStrategy', { concurency: 1 }, 'mqtt.concurency', 'concurrency'],
    ['MqttServerStrategy', { reciveMaximum: 1 }, 'mqtt.reciveMaximum', 'receiveMaximum'],
    ['MqttServerStrategy', { unmatchd: 'hold' }, 'mqtt.unmatchd', 'unmatched'],
    ['MqttClientProxy', { requestTimout: 1 }, 'mqtt.requestTimout', 'requestTimeout'],
    ['MqttClientProxy', { usrname: 'u' }, 'mqtt.usrname', 'username'],
    ['MqttClientProxy', { envelop: 'nest' }, 'mqtt.envelop', 'envelope'],
    ['PulsarClient', { operationTimeot: 1 }, 'pulsar.operationTimeot', 'operationTimeout'],
    ['PulsarClientProxy', { maxProducer: 1 }, 'pulsar.maxProducer', 'maxProducers'],
    ['PulsarClientProxy', { connectTimout: 1 }, 'pulsar.connectTimout', 'connectTimeout'],
    ['PulsarClientProxy', { producer: { compresion: 'lz4' } }, 'producer.compresion', 'compression'],
  ])('%s: an unknown name %j is refused, and the nearest one named', (maker, options, path, nearest) => {
    const error = failure(maker, options);
    expect([error.path, error.didYouMean]).toEqual([path, nearest]);
    expect(error.message).toContain(`Did you mean '${nearest}'?`);
  });

  it.each([
    ['MqttServerStrategy', { hostt: 'localhost' }, 'mqtt.hostt'],
    ['MqttClientProxy', { hostt: 'localhost' }, 'mqtt.hostt'],
    ['PulsarClientProxy', { hostt: 'localhost' }, 'pulsar.hostt'],
  ])('%s: a name like none of ours is refused with the list of what there is', (maker, options, path) => {
    const error = failure(maker, options);
    expect(error.path).toBe(path);
    expect(error.message).toContain('url');
  });

  it('the list is of all names, those of the strategy or the proxy first', () => {
    expect(failure('MqttServerStrategy', { xyz: 1 }).expected).toMatch(
      /^one of name, qos, .*failure, deadLetter.* url, /,
    );
    expect(failure('MqttClientProxy', { xyz: 1 }).expected).toMatch(/^one of qos, retain, .* url, /);
    expect(failure('PulsarClientProxy', { xyz: 1 }).expected).toMatch(/^one of producer, tenant, .* url, /);
    expect(failure('PulsarClientProxy', { backoff: { xyz: 1 } }).expected).toBe('one of initial, max, factor');
  });

  it.each([
    ['MqttServerStrategy', { failure: 'deadLetter' }, "or a function (write { then: 'deadLetter' })"],
    ['MqttServerStrategy', { failure: { then: 'deadLetter' } }, "(set the strategy's `deadLetter`)"],
    ['MqttServerStrategy', { unmatched: 'deadLetter' }, "(set the strategy's `deadLetter`)"],
    ['MqttServerStrategy', { deadLetter: {} }, 'client (a ClientProxy) and pattern, received neither'],
    ['MqttServerStrategy', { host: 'h' }, "Did you mean 'url'?"],
    ['MqttServerStrategy', { retries: 3 }, "Did you mean 'failure'?"],
    ['MqttServerStrategy', { url: undefined }, 'received undefined (is an environment variable missing?)'],
    ['MqttClientProxy', { url: undefined }, 'received undefined (is an environment variable missing?)'],
    ['MqttClientProxy', { url: 'localhost:1883' }, 'put mqtt:// before it'],
    ['PulsarClientProxy', { url: undefined }, 'received undefined (is an environment variable missing?)'],
    ['PulsarClientProxy', { url: 'pulsar://a:1,pulsar://b:1' }, 'several URLs are an array'],
    ['PulsarClientProxy', { serviceUrl: 'pulsar://a' }, "Did you mean 'url'?"],
    ['PulsarClientProxy', { token: 't' }, "Did you mean 'auth'?"],
  ])('%s %j: the error says what to write', (maker, options, text) => {
    expect(failure(maker, options).message).toContain(text);
  });

  it('PulsarClientProxy without a URL', () => {
    expect(() => new PulsarClientProxy({} as never)).toThrow(
      "Option 'pulsar.url': expected a URL such as pulsar://localhost:6650, or an array of them, received nothing.",
    );
  });

  it.each([
    [undefined, 'health'],
    [{ health: () => undefined }, 'health'],
    [{ mqtt: undefined }, 'health.mqtt'],
  ])('MqttPulsarHealth of %j', (sources, path) => {
    const error = expect.objectContaining({ name: 'OptionsError', path }) as OptionsError;
    expect(() => new MqttPulsarHealth(sources as never)).toThrow(error);
  });

  it.each([
    ['MqttServerStrategy', { qos: 3 }, 'mqtt.qos'],
    ['MqttServerStrategy', { unmatched: 'mannual' }, 'mqtt.unmatched'],
    ['MqttServerStrategy', { failure: { then: 'dicard' } }, 'mqtt.failure.then'],
    ['MqttServerStrategy', { concurrency: 0 }, 'mqtt.concurrency'],
    ['MqttServerStrategy', { handlerTimeout: '60s' }, 'mqtt.handlerTimeout'],
    ['MqttServerStrategy', { unsubscribe: ['a', 'a/#/b'] }, 'mqtt.unsubscribe[1]'],
    ['MqttServerStrategy', { failure: { retry: { factor: Infinity } } }, 'mqtt.failure.retry.factor'],
    ['MqttServerStrategy', { failure: { retry: null } }, 'mqtt.failure.retry'],
    [
      'MqttServerStrategy',
      { deadLetter: { client: { emit: () => undefined }, pattern: '' } },
      'mqtt.deadLetter.pattern',
    ],
    ['MqttClientProxy', { qos: 3 }, 'mqtt.qos'],
    ['MqttClientProxy', { retain: 1 }, 'mqtt.retain'],
    ['MqttClientProxy', { envelope: 'jest' }, 'mqtt.envelope'],
    ['MqttClientProxy', { responseTopic: 'a/#' }, 'mqtt.responseTopic'],
    ['MqttClientProxy', { messageProperties: { a: 1 } }, 'mqtt.messageProperties'],
    ['MqttClientProxy', { serializer: {} }, 'mqtt.serializer'],
    ['MqttClientProxy', { url: 'localhost:1883' }, 'mqtt.url'],
    ['PulsarClientProxy', { url: 'localhost:6650' }, 'pulsar.url'],
    ['PulsarClientProxy', { url: undefined }, 'pulsar.url'],
    ['PulsarClientProxy', { tenant: 'a/b' }, 'pulsar.tenant'],
    ['PulsarClientProxy', { namespace: '' }, 'pulsar.namespace'],
    ['PulsarClientProxy', { maxProducers: 0 }, 'pulsar.maxProducers'],
    ['PulsarClientProxy', { topic: 'always-this' }, 'pulsar.topic'],
    ['PulsarClientProxy', { producer: { topic: 't' } }, 'pulsar.producer'],
    ['PulsarClientProxy', { producer: { batching: 'yes' } }, 'producer.batching'],
    ['PulsarClientProxy', { producer: { accessMode: 'exclusiv' } }, 'producer.accessMode'],
    ['PulsarClientProxy', { serializer: (data: unknown) => data }, 'pulsar.serializer'],
  ])('%s: a wrong value %j is refused, and what is allowed named', (maker, options, path) => {
    const error = failure(maker, options);
    expect(error.path).toBe(path);
    expect(error.expected).not.toBe('');
  });

  it.each([[undefined], [null], ['pulsar://localhost'], [[]]])('a proxy refuses %j as options', (options) => {
    expect(() => new PulsarClientProxy(options as never)).toThrow(OptionsError);
    if (options !== undefined) expect(() => new MqttClientProxy(options as never)).toThrow(OptionsError);
  });

  describe('of a handler', () => {
    /** What the start of an application says whose only handler is declared like that. */
    const refusal = async (
      decorate: (filter: string, options: never) => MethodDecorator,
      filter: string,
      options: unknown,
    ) => {
      class Handlers {
        handle(): void {}
      }
      const descriptor = Object.getOwnPropertyDescriptor(Handlers.prototype, 'handle')!;
      decorate(filter, options as never)(Handlers.prototype, 'handle', descriptor);
      Controller()(Handlers);
      class App {}
      Module({ controllers: [Handlers] })(App);
      const strategy = new MqttServerStrategy(mqtt());
      const app = await NestFactory.createMicroservice(App, { strategy, logger: false });
      await app.listen();
    };
    const plain = (filter: string, extras: never): MethodDecorator => EventPattern<string>(filter, extras);

    it.each([
      ['a', { qso: 2 }, "handlers['a'].qso", 'qos'],
      ['a', { payload: 'jsno' }, "handlers['a'].payload", 'json'],
      ['a', { batch: { sise: 3, delay: 1 } }, "handlers['a'].batch.sise", 'size'],
      ['a', { failure: { thn: 'discard' } }, "handlers['a'].failure.thn", 'then'],
      ['a', { failure: { retry: { attempt: 3 } } }, "handlers['a'].failure.retry.attempt", 'attempts'],
      ['a', { failure: { then: 'dicard' } }, "handlers['a'].failure.then", 'discard'],
      ['a', { handlerTimeout: Infinity }, "handlers['a'].handlerTimeout", undefined],
      ['a', { failure: { retry: { initialDelay: 1e12 } } }, "handlers['a'].failure.retry.initialDelay", undefined],
      ['a', { failure: [] }, "handlers['a'].failure", undefined],
      ['a', { batch: null }, "handlers['a'].batch", undefined],
      ['a', { noLocal: 'yes' }, "handlers['a'].noLocal", undefined],
      ['a', { sharedGroup: 'x/y' }, "handlers['a'].sharedGroup", undefined],
      ['a', { sharedGroup: 'g', noLocal: true }, "handlers['a'].noLocal", undefined],
      ['a', { server: '' }, "handlers['a'].server", undefined],
      ['a', null, "handlers['a']", undefined],
      ['$share/g/a', { sharedGroup: 'h' }, "handlers['$share/g/a'].sharedGroup", undefined],
      ['a/#/b', {}, "handlers['a/#/b']", undefined],
      [undefined as unknown as string, {}, 'handlers', undefined],
    ])('%j with %j is refused before anything connects', async (filter, options, path, didYouMean) => {
      await expect((async () => refusal(MqttEvent, filter, options))()).rejects.toMatchObject({
        name: 'OptionsError',
        path,
        didYouMean,
      });
    });

    it.each([
      [{ batch: { size: 3 } }, 'expected an integer from 1 to 2147483647 (milliseconds), received nothing'],
      [{ batch: { delay: 3 } }, 'expected an integer, 1 or more, received nothing'],
      [{ failure: { then: 'deadLetter' } }, "set the strategy's `deadLetter`"],
      [{ failure: 'discard' }, "write { then: 'discard' }"],
    ])('%j: the error says what to write', async (options, text) => {
      await expect(refusal(MqttEvent, 'a', options)).rejects.toThrow(text);
    });

    it('a batch of requests is refused: each has an answer of its own', async () => {
      const batch = { batch: { size: 3, delay: 1 } };
      await expect(refusal(MqttRequest, 'a', batch)).rejects.toMatchObject({ path: "handlers['a'].batch" });
    });

    it("in Nest's own decorators ours are checked, what is not ours belongs to another transport", async () => {
      await expect(refusal(plain, 'a', { qos: 3 })).rejects.toMatchObject({ path: "handlers['a'].qos" });
      await expect(refusal(plain, 'a', { extras: { qos: 3 } })).rejects.toMatchObject({ path: "handlers['a'].qos" });
      const strategy = new MqttServerStrategy(mqtt());
      expect(() => strategy.addHandler('a', async () => undefined, true, { partition: 1 })).not.toThrow();
    });
  });

  it('no value of a secret is in an error', () => {
    expect(failure('MqttClientProxy', { password: 12345678 }).message).not.toContain('12345678');
  });
});
