import { jest } from '@jest/globals';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setImmediate as turn } from 'node:timers/promises';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { ConnectionError, TransportError } from '../../../lib/errors.js';
import { DeliveryScope } from '../../../lib/nest/delivery-scope.js';
import { type PulsarClientProxyOptions } from '../../../lib/nest/proxy-options.js';
import { PulsarRecord, PulsarRecordBuilder } from '../../../lib/nest/pulsar-record.js';
import { type EmitEvent } from '../../../lib/observability/channels.js';
import { FakeProducer, stored } from './support/fake-producers.js';

/** Stands for the Pulsar client: what the proxy asks of it, and producers whose receipts the test gives. */
class FakeClient {
  static last: FakeClient;
  readonly producers = new Map<string, FakeProducer>();
  readonly options: Record<string, unknown>[] = [];
  status = { state: 'open', connected: false, lastError: undefined as unknown, connections: [], producers: 0 };
  refusal: unknown = undefined;
  closed = 0;
  private readonly listeners = new Map<string, ((payload: object) => void)[]>();

  constructor(readonly given: Record<string, unknown>) {
    FakeClient.last = this;
  }

  async createProducer(options: { topic: string }): Promise<FakeProducer> {
    this.options.push(options);
    if (this.refusal !== undefined) throw this.refusal as Error;
    const producer = new FakeProducer(options.topic);
    this.producers.set(options.topic, producer);
    return producer;
  }

  async connect(): Promise<void> {}

  on(event: string, listener: (payload: object) => void): () => void {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
    return () => undefined;
  }

  tell(event: string): void {
    for (const listener of this.listeners.get(event) ?? [])
      listener({ broker: 'pulsar://broker:6650', cause: new ConnectionError('gone') });
  }

  async close(): Promise<void> {
    this.closed += 1;
  }

  destroy(): void {
    this.closed += 1;
  }
}

jest.unstable_mockModule('../../../lib/pulsar/index.js', () => ({
  PulsarClient: FakeClient,
  parseProducerOptions: () => undefined,
}));
const { PulsarClientProxy } = await import('../../../lib/nest/pulsar-client.proxy.js');

const TOPIC = 'persistent://public/default/t';

describe('PulsarClientProxy', () => {
  let client: FakeClient;
  const proxy = (options: Partial<PulsarClientProxyOptions> = {}) => {
    const made = new PulsarClientProxy({ url: 'pulsar://localhost:6650', ...options });
    client = FakeClient.last;
    made['logger'].localInstance.error = jest.fn();
    return made;
  };
  const sent = (topic = TOPIC) => client.producers.get(topic)!.submitted.map(({ message }) => message);

  it('gives its own options to itself and the others to the client, and the producer options to each producer', async () => {
    const made = proxy({ connectTimeout: 5, tenant: 'iot', namespace: 'raw', producer: { compression: 'lz4' } });
    expect(client.given).toEqual({ url: 'pulsar://localhost:6650', connectTimeout: 5 });
    made.emit('a/b', 1);
    expect(client.options).toEqual([{ compression: 'lz4', topic: 'persistent://iot/raw/a%2Fb' }]);
  });

  it('emit() is hot, resolves to one message id and completes, for late subscribers too', async () => {
    const made = proxy();
    const emit = made.emit('t', { a: 1 });
    await turn();
    expect(sent()).toEqual([{ payload: Buffer.from('{"a":1}') }]);
    const early = lastValueFrom(emit.pipe(toArray()));
    const { messageId } = stored();
    client.producers.get(TOPIC)!.submitted[0].done(undefined, { messageId, sequenceId: 0, deduplicated: false });
    expect(await early).toEqual([messageId]);
    expect(await firstValueFrom(emit)).toBe(messageId);
    expect(made.stats).toMatchObject({ stored: 1, failed: 0, pending: 0, producers: 1 });
  });

  it('keeps bytes, strings and records; a record sets the rest of the message', async () => {
    const made = proxy();
    const bytes = Buffer.from([0, 255, 254, 128]);
    made.emit('t', bytes);
    made.emit('t', 'text');
    made.emit('t', new PulsarRecordBuilder(bytes).setKey('k').setProperty('p', '1').build());
    made.emit('t', new PulsarRecord(null, { key: 'gone' }));
    await turn();
    expect(sent()).toEqual([
      { payload: bytes },
      { payload: Buffer.from('text') },
      { payload: bytes, key: 'k', properties: { p: '1' } },
      { payload: null, key: 'gone' },
    ]);
    expect(sent()[0].payload).toBe(bytes);
  });

  it('uses the serializer, the dispatch hook, and lets the record win', async () => {
    const seen: unknown[] = [];
    const made = proxy({
      serializer: {
        serialize: (packet, options) => {
          seen.push(packet.pattern, packet.data, options);
          return { payload: `<${String(packet.data)}>`, properties: { a: 'serializer', b: 'serializer' } };
        },
      },
    });
    made.setOnDispatchHook((packet) => {
      (packet as { metadata?: unknown }).metadata = { a: 'hook', b: 'hook', c: 'hook', n: 1 };
    });
    made.emit({ cmd: 'x' }, new PulsarRecord('data', { key: 'k', properties: { b: 'record' } }));
    await turn();
    expect(seen).toEqual([{ cmd: 'x' }, 'data', { key: 'k', properties: { b: 'record' } }]);
    expect(sent('persistent://public/default/%7B%22cmd%22%3A%22x%22%7D')).toEqual([
      { payload: Buffer.from('<data>'), key: 'k', properties: { a: 'serializer', b: 'record', c: 'hook', n: '1' } },
    ]);
  });

  it('maps patterns with a function where one is given', async () => {
    const made = proxy({ topic: (pattern) => `persistent://t/n/${pattern.split('/')[0]}` });
    made.emit('a/1', 1);
    made.emit('a/2', 2);
    await turn();
    expect(sent('persistent://t/n/a').map(({ payload }) => String(payload))).toEqual(['1', '2']);
  });

  it('two patterns of one topic share the producer and the order', async () => {
    const made = proxy();
    made.emit('t', '1');
    made.emit(TOPIC, '2');
    await turn();
    expect(client.options).toHaveLength(1);
    expect(client.producers.get(TOPIC)!.payloads).toEqual(['1', '2']);
  });

  it.each([
    ['undefined', 't', undefined],
    ['null', 't', null],
    ['a bigint', 't', 10n],
    ['an empty pattern', '', 'x'],
    ['no pattern', undefined, 'x'],
    ['half a topic name', 'persistent://t/n', 'x'],
    ['a time that is none', 't', new PulsarRecord('x', { eventTime: Number.NaN })],
  ])('errors for %s, and sends nothing', async (_name, pattern, data) => {
    const made = proxy();
    await expect(lastValueFrom(made.emit(pattern, data))).rejects.toBeInstanceOf(TransportError);
    expect(client.options).toHaveLength(0);
    expect(made.stats).toMatchObject({ failed: 1, pending: 0, unobservedFailures: 0 });
  });

  it('send() is refused with a clear error', async () => {
    await expect(lastValueFrom(proxy().send('t', 1))).rejects.toMatchObject({ code: 'ERR_NOT_SUPPORTED' });
  });

  describe('an emit inside a handler', () => {
    const inScope = (scope: DeliveryScope, fn: () => void) => scope.run(fn);

    it('holds its delivery until the receipt', async () => {
      const made = proxy();
      const scope = new DeliveryScope('Handler.method');
      inScope(scope, () => made.emit('t', 1));
      expect(scope.pending).toBe(1);
      await turn();
      client.producers.get(TOPIC)!.receive();
      expect([scope.pending, scope.failure()]).toEqual([0, undefined]);
    });

    it('fails it, also with an error that was there before emit() returned', () => {
      const made = proxy();
      const scope = new DeliveryScope('Handler.method');
      inScope(scope, () => made.emit('t', undefined));
      expect([scope.pending, scope.failure()!.error]).toMatchObject([0, { code: 'ERR_SERIALIZATION' }]);
    });

    it('is taken back while it waits for its producer', () => {
      const made = proxy();
      const scope = new DeliveryScope('Handler.method');
      inScope(scope, () => made.emit('t', 1));
      scope.cancelUnwritten();
      expect([scope.pending, made.stats.pending]).toEqual([0, 0]);
    });

    it('holds nothing where the record says so', () => {
      const made = proxy();
      const scope = new DeliveryScope('Handler.method');
      inScope(scope, () => made.emit('t', new PulsarRecordBuilder(1).setHoldsAcknowledgement(false).build()));
      expect([scope.pending, made.stats.pending]).toEqual([0, 1]);
    });

    it('is sent, counted and warned about once after the delivery was settled', async () => {
      const made = proxy();
      const warn = jest.fn();
      made['logger'].localInstance.warn = warn;
      for (let i = 0; i < 3; i++) {
        const scope = new DeliveryScope('Late.handler');
        scope.close();
        inScope(scope, () => made.emit('t', i));
      }
      await turn();
      client.producers.get(TOPIC)!.receive();
      expect(made.stats).toMatchObject({ late: 3, stored: 3 });
      expect(warn).toHaveBeenCalledTimes(1);
      expect(String(warn.mock.calls[0][0])).toContain("Late.handler emitted 't' after its delivery was settled");
    });
  });

  describe('a failure nobody subscribed to', () => {
    const events: EmitEvent[] = [];
    const collect = (event: unknown): void => void events.push(event as EmitEvent);
    beforeEach(() => {
      events.length = 0;
      subscribe('nestjs-mqtt-pulsar:emit', collect);
    });
    afterEach(() => unsubscribe('nestjs-mqtt-pulsar:emit', collect));

    it('is counted, on the channel and in the log, once', async () => {
      const made = proxy();
      const error = new ConnectionError('refused');
      client.refusal = error;
      for (let i = 0; i < 3; i++) made.emit('t', i);
      await turn();
      expect(events).toEqual(Array(3).fill({ pattern: 't', outcome: 'unobservedFailure', error }));
      expect(made.stats).toMatchObject({ failed: 3, unobservedFailures: 3 });
      expect(made['logger'].localInstance.error).toHaveBeenCalledTimes(1);
    });

    it('with a subscriber it is a failure like any other', async () => {
      const made = proxy();
      client.refusal = new ConnectionError('refused');
      const emit = made.emit('t', 1);
      await expect(lastValueFrom(emit)).rejects.toBe(client.refusal);
      await turn();
      expect(events).toEqual([{ pattern: 't', outcome: 'failed', error: client.refusal }]);
    });

    it('success is on the channel too', async () => {
      proxy().emit('t', 1);
      await turn();
      client.producers.get(TOPIC)!.receive();
      expect(events).toEqual([{ pattern: 't', outcome: 'stored' }]);
    });
  });

  it('close() waits for receipts, closes producers and client once, then refuses', async () => {
    const made = proxy();
    const emit = lastValueFrom(made.emit('t', 1));
    await turn();
    const closing = made.close();
    expect(made.close()).toBe(closing);
    await turn();
    expect(client.closed).toBe(0);
    client.producers.get(TOPIC)!.receive();
    await closing;
    await emit;
    expect([client.closed, client.producers.get(TOPIC)!.closed]).toEqual([1, true]);
    await expect(lastValueFrom(made.emit('t', 1))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await expect(made.connect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('tells its status and its health', async () => {
    const made = proxy();
    const seen: string[] = [];
    made.status.subscribe((status) => seen.push(status));
    expect(made.health()).toMatchObject({ status: 'up', details: { connected: false } });
    client.status.connected = true;
    client.tell('connected');
    expect(made.health().status).toBe('up');
    client.status.connected = false;
    client.tell('disconnected');
    expect(made.health()).toMatchObject({ status: 'down', reason: 'no connection to a broker' });
    client.status.lastError = new ConnectionError('refused by 127.0.0.1:1');
    client.tell('connectFailed');
    expect(made.health()).toMatchObject({ status: 'down', reason: 'refused by 127.0.0.1:1' });
    client.status.state = 'closed';
    await made.close();
    expect(made.health()).toMatchObject({ status: 'down', reason: 'the client is closed' });
    expect(seen).toEqual(['connected', 'disconnected', 'closed']);
  });

  it('hands out its client', () => {
    const made = proxy();
    expect(made.unwrap()).toBe(client);
  });
});
