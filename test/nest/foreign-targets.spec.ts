import { Controller } from '@nestjs/common';
import { ClientKafka, ClientRedis, ClientRMQ, EventPattern } from '@nestjs/microservices';
import { KafkaRequestSerializer } from '@nestjs/microservices/serializers/kafka-request.serializer.js';
import { RmqRecordSerializer } from '@nestjs/microservices/serializers/rmq-record.serializer.js';
import { concat, defer, EMPTY, NEVER, type Observable, of, throwError } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type DeadLetterOptions, type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

const BYTES = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
/** Names that mean something to one or the other of those clients. */
const PROPERTIES = { key: 'k', value: '21.5', headers: 'h', pattern: 'p', data: 'd', options: 'o' };

@Controller()
class Handlers {
  @MqttEvent('fails', { failure: { then: 'deadLetter' } })
  fails(): never {
    throw new Error('cannot read this');
  }
  @EventPattern<string>('good')
  good(): void {}
}

let running: RunningApp;
const start = async (client: DeadLetterOptions['client'], more: Partial<MqttServerOptions> = {}): Promise<void> => {
  running = await startApp([Handlers], {
    strategy: { protocolVersion: 5, redeliverAfter: 20, deadLetter: { client, pattern: 'dead' }, ...more },
  });
};
const fail = (): void => running.broker.publish('fails', BYTES, { qos: 1, properties: { userProperties: PROPERTIES } });
const pubacks = (): number => running.broker.log.received('puback').length;

/**
 * One of Nest's own clients with its own serializer and `dispatchEvent()`, but without the driver, which is not installed: the
 * constructors load it.
 */
function nestClient<T extends object>(type: { prototype: T }, fields: object): T {
  return Object.assign(Object.create(type.prototype) as T, { connect: () => Promise.resolve() }, fields);
}

/** What goes out, and how its receipt comes. */
interface Sink {
  readonly sent: { readonly to: string; readonly letter: unknown }[];
  receipt: () => Promise<void>;
}
const sink: Sink = { sent: [], receipt: () => Promise.resolve() };
const parsed = (text: string | Buffer): unknown => JSON.parse(text.toString());

const CLIENTS: Readonly<Record<string, () => DeadLetterOptions['client']>> = {
  ClientKafka: () =>
    nestClient(ClientKafka, {
      options: {},
      serializer: new KafkaRequestSerializer(),
      _producer: {
        send: async ({ topic, messages }: { topic: string; messages: { value: string; key?: unknown }[] }) => {
          expect(messages).toHaveLength(1);
          // A key of its own would mean that the device's `key` was taken for the letter's.
          expect(messages[0].key).toBeUndefined();
          sink.sent.push({ to: topic, letter: parsed(messages[0].value) });
          await sink.receipt();
        },
      },
    }),
  ClientRedis: () =>
    nestClient(ClientRedis, {
      options: {},
      serializer: { serialize: (packet: object) => packet },
      pubClient: {
        publish: (pattern: string, text: string, callback: (error?: Error) => void) => {
          sink.sent.push({ to: pattern, letter: (parsed(text) as { data: unknown }).data });
          void sink.receipt().then(() => callback(), callback);
        },
      },
    }),
  ClientRMQ: () =>
    nestClient(ClientRMQ, {
      options: {},
      queue: 'queue',
      serializer: new RmqRecordSerializer(),
      channel: {
        sendToQueue: (_queue: string, content: Buffer, _options: object, callback: (error?: Error) => void) => {
          const { pattern, data } = parsed(content) as { pattern: string; data: unknown };
          sink.sent.push({ to: pattern, letter: data });
          void sink.receipt().then(() => callback(), callback);
        },
      },
    }),
};

beforeEach(() => {
  sink.sent.length = 0;
  sink.receipt = () => Promise.resolve();
});
afterEach(() => running.close());

describe.each(Object.keys(CLIENTS))("Nest's %s as the target", (name) => {
  it('the original bytes and properties, what failed beside them; acknowledged on its receipt', async () => {
    const receipt = gate();
    sink.receipt = () => receipt.promise;
    await start(CLIENTS[name]());
    fail();
    await until(() => sink.sent.length === 1);
    await settled();
    expect(pubacks()).toBe(0);
    receipt.open();
    await running.broker.log.waitForReceived('puback');
    expect(sink.sent).toHaveLength(1);
    const [{ to, letter }] = sink.sent;
    expect(to).toBe('dead');
    expect(letter).toMatchObject({
      properties: PROPERTIES,
      'dead-letter-topic': 'fails',
      'dead-letter-reason': 'handler',
      'dead-letter-error': 'cannot read this',
      'dead-letter-attempt': '1',
      'dead-letter-run': '1',
    });
    expect(Buffer.from((letter as { payload: string }).payload, 'base64')).toEqual(BYTES);
  });

  it('what it does not take is not acknowledged, and sent again', async () => {
    let refusals = 2;
    sink.receipt = () => (refusals-- > 0 ? Promise.reject(new Error('down')) : Promise.resolve());
    await start(CLIENTS[name]());
    fail();
    await until(() => running.strategy.stats.deadLetterFailures === 1);
    expect(pubacks()).toBe(0);
    await running.broker.log.waitForReceived('puback');
    expect(sink.sent).toHaveLength(3);
    expect(running.strategy.stats).toMatchObject({ deadLetterFailures: 2, deadLettered: 1 });
  });
});

/** A client whose `emit()` gives what it is told to, cold: nothing happens before somebody subscribes. */
class Cold extends EventClient {
  subscriptions = 0;
  constructor(private readonly result: () => Observable<unknown>) {
    super();
  }
  override emit<T>(): Observable<T> {
    return defer(() => {
      this.subscriptions += 1;
      return this.result() as Observable<T>;
    });
  }
  protected dispatchEvent<T>(): Promise<T> {
    throw new Error('emit() is its own');
  }
}

describe('a target whose emit() is cold', () => {
  it.each<[string, Observable<unknown>]>([
    ['no value', EMPTY],
    ['one value', of('id')],
    ['several values', of(1, 2, 3)],
  ])('is subscribed to once; its end is the receipt (%s)', async (_name, result) => {
    const target = new Cold(() => result);
    await start(target);
    fail();
    await running.broker.log.waitForReceived('puback');
    expect(target.subscriptions).toBe(1);
  });

  it('a value before its error is no receipt', async () => {
    let times = 0;
    const target = new Cold(() =>
      times++ === 0
        ? concat(
            of(1),
            throwError(() => new Error('down')),
          )
        : EMPTY,
    );
    await start(target);
    fail();
    await running.broker.log.waitForReceived('puback');
    expect(running.strategy.stats).toMatchObject({ deadLetterFailures: 1, deadLettered: 1 });
  });
});

describe('a target that never answers', () => {
  it('keeps the message and no running place; it shows as stalled; close() is not kept', async () => {
    const target = new Cold(() => NEVER);
    await start(target, { concurrency: 1, stalledAfter: 60, shutdownTimeout: 50 });
    fail();
    await until(() => target.subscriptions === 1);
    running.broker.publish('good', 'x', { qos: 1 });
    await until(() => running.strategy.stats.succeeded === 1);
    await until(() => running.strategy.state === 'stalled');
    expect(running.strategy.health()).toMatchObject({ status: 'down', details: { oldestTopic: 'fails' } });
    expect(running.logged.filter((line) => line.startsWith('Stalled') && line.includes("'fails'"))).toHaveLength(1);
    // A copy that comes meanwhile starts nothing, and no second letter.
    running.broker.cut();
    await running.broker.waitForClient('app');
    await settled();
    await running.app.close();
    expect(running.broker.log.received('disconnect')).toHaveLength(1);
    expect(pubacks()).toBe(0);
    expect(target.subscriptions).toBe(1);
    expect(running.logged.filter((line) => /unfinished deliveries.*1 retrying/.test(line))).toHaveLength(1);
  });

  it('destroy() while a letter is under way: the receipt that comes later acknowledges nothing', async () => {
    const receipt = gate();
    const target = new Cold(() => defer(() => receipt.promise));
    await start(target);
    fail();
    await until(() => target.subscriptions === 1);
    running.strategy.destroy();
    receipt.open();
    await settled();
    expect(pubacks()).toBe(0);
  });
});
