import { Controller } from '@nestjs/common';
import { Ctx, Payload, type ReadPacket, RpcException } from '@nestjs/microservices';
import { from } from 'rxjs';
import { MqttEvent, MqttRequest } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';
import { holdPubacks, Requester } from './support/requester.js';

type Letter = Record<string, string>;

/** Refuses what it is told to. */
class Target extends EventClient {
  readonly tried: Letter[] = [];
  readonly taken: Letter[] = [];
  refuses: (letter: Letter) => boolean = () => false;
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    const letter = packet.data as Letter;
    this.tried.push(letter);
    if (this.refuses(letter)) return Promise.reject(new Error('not now'));
    this.taken.push(letter);
    return Promise.resolve(undefined as T);
  }
}

let runs: string[] = [];
let failures = 0;
let data: unknown;

function failing(name: string): string {
  runs.push(name);
  if (failures === 0) return name;
  failures -= 1;
  throw new Error(name);
}

@Controller()
class Handlers {
  @MqttEvent('two')
  first(@Ctx() context: MqttMessageContext): void {
    runs.push('first');
    context.deadLetter('first');
  }
  @MqttEvent('two')
  second(@Ctx() context: MqttMessageContext): void {
    runs.push('second');
    context.deadLetter('second');
  }
  @MqttRequest('dead', { failure: { then: 'deadLetter' } })
  dead(): string {
    return failing('dead');
  }
  @MqttRequest('answers')
  answers(): string {
    return failing('answers');
  }
  @MqttRequest('mixed/x', { failure: { then: 'deadLetter' } })
  mixedRequest(): never {
    runs.push('request');
    throw new Error('request');
  }
  @MqttEvent('mixed/+')
  mixedEvent(@Ctx() context: MqttMessageContext): void {
    runs.push(`event ${context.getAttempt()}`);
    if (context.getAttempt() < 3) throw new Error('event');
  }
  @MqttRequest('settled/x')
  settledRequest(): never {
    runs.push('request');
    throw new Error('request');
  }
  @MqttEvent('settled/+')
  settledEvent(@Ctx() context: MqttMessageContext): void {
    runs.push(`event ${context.getAttempt()}`);
    if (context.getAttempt() === 1) throw new Error('event');
  }
  @MqttRequest('data')
  data(@Payload() payload: unknown): void {
    data = payload;
  }
  @MqttRequest('unsendable')
  unsendable(@Payload() payload: Buffer | string): unknown {
    runs.push('unsendable');
    const big = 'x'.repeat(10_000);
    const circular: { self?: unknown } = {};
    circular.self = circular;
    const what = payload.toString();
    if (what.includes('stream')) return from([1, circular, 2]);
    return what.includes('large') ? big : what.includes('big') ? 1n : circular;
  }
  @MqttRequest('circular')
  circular(): never {
    const error: { self?: unknown } = {};
    error.self = error;
    throw new RpcException(error);
  }
}

let running: RunningApp;
let target: Target;
let requester: Requester;

async function start(
  version: 4 | 5,
  strategy: Partial<MqttServerOptions> = {},
  receiveMaximum?: number,
  maximumPacketSize?: number,
) {
  running = await startApp([Handlers], {
    broker: {
      limits: {
        ...(receiveMaximum !== undefined && { receiveMaximum }),
        ...(maximumPacketSize !== undefined && { maximumPacketSize }),
      },
    },
    strategy: {
      protocolVersion: version,
      ...(version === 4 && { envelope: 'nest' as const }),
      redeliverAfter: 20,
      shutdownTimeout: 500,
      closeTimeout: 200,
      deadLetter: { client: target, pattern: 'dead-letters' },
      ...strategy,
    },
  });
  requester = new Requester(running.broker, version);
}

beforeEach(() => {
  runs = [];
  failures = 0;
  data = 'not called';
  target = new Target();
});
afterEach(() => running.close());

it.each([5, 4] as const)(
  'MQTT %i: of two dead letters for one message, only the one not taken is sent again',
  async (version) => {
    await start(version);
    let refusals = 3;
    target.refuses = (letter) => letter['dead-letter-reason'] === 'second' && refusals-- > 0;
    running.broker.publish('two', '{"data":1}', { qos: 1 });
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect(target.tried.map((letter) => letter['dead-letter-reason'])).toEqual([
      'first',
      ...Array<string>(4).fill('second'),
    ]);
    expect(target.taken).toHaveLength(2);
    expect(runs).toEqual(['first', 'second']);
    expect(running.broker.log.received('puback')).toHaveLength(1);
    expect(running.strategy.stats).toMatchObject({ deadLettered: 1, deadLetterFailures: 3 });
  },
);

it.each([5, 4] as const)(
  'MQTT %i: a request whose letter is refused for a while gets one error reply',
  async (version) => {
    await start(version);
    let refusals = 3;
    target.refuses = () => refusals-- > 0;
    failures = 1;
    requester.ask('dead');
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect(requester.replies('dead')).toMatchObject([{ kind: 'error' }]);
    expect([target.tried.length, target.taken.length]).toEqual([4, 1]);
    expect(runs).toEqual(['dead']);
  },
);

/** The publishes that fill the queue to the last place, until the returned function is called. */
async function fillPublishQueue(): Promise<() => void> {
  const release = holdPubacks(running.broker);
  const client = running.strategy.unwrap<MqttClient>();
  for (let i = 0; i < 2; i += 1) client.publish({ topic: 'filler', payload: 'x', qos: 1 }).catch(() => undefined);
  await until(() => running.broker.log.received('publish').length === 1);
  return release;
}

it('an error reply that cannot be delivered now is sent again; the handler does not run again', async () => {
  await start(5, { publishQueue: { maxMessages: 1 } }, 1);
  const release = await fillPublishQueue();
  failures = 1;
  requester.ask('answers');
  await until(() => running.strategy.stats.held >= 3);
  expect(requester.replies('answers')).toEqual([]);
  expect(running.broker.log.received('puback')).toEqual([]);
  expect(running.strategy.state).toBe('stalled');
  expect(running.logged.some((line) => line.includes("error reply to a request on 'answers'"))).toBe(true);
  release();
  await running.broker.log.waitForReceived('puback');
  await settled();
  expect(requester.replies('answers')).toMatchObject([{ kind: 'error' }]);
  expect(runs).toEqual(['answers']);
  expect(running.strategy.stats).toMatchObject({ succeeded: 1, reconnects: 0 });
});

it('a value that cannot be delivered now is given by a further run, and never an error reply', async () => {
  await start(5, { publishQueue: { maxMessages: 1 } }, 1);
  const release = await fillPublishQueue();
  requester.ask('answers');
  await until(() => running.strategy.stats.held >= 2);
  expect(running.broker.log.received('puback')).toEqual([]);
  release();
  await running.broker.log.waitForReceived('puback');
  await settled();
  expect(requester.replies('answers')).toMatchObject([{ kind: 'last', value: 'answers' }]);
  expect(runs.length).toBeGreaterThanOrEqual(3);
  expect(running.strategy.stats).toMatchObject({ succeeded: 1, reconnects: 0 });
});

it('a lost session takes the error reply with it: it is sent again, and the request is settled here', async () => {
  await start(5);
  const { broker, strategy } = running;
  const release = holdPubacks(broker);
  failures = 1;
  requester.ask('answers');
  await until(() => requester.replies('answers').length === 1);
  broker.dropSession('app');
  broker.cut();
  await until(() => requester.replies('answers').length === 2);
  await settled();
  expect(strategy.stats.succeeded).toBe(0);
  release();
  await until(() => strategy.stats.succeeded === 1);
  await settled();
  expect(runs).toEqual(['answers']);
  // The broker knows nothing of it any more.
  expect(broker.log.received('puback')).toEqual([]);
});

it.each([5, 4] as const)(
  'MQTT %i: a request with its error reply does not run again with another handler',
  async (version) => {
    await start(version);
    requester.ask('settled/x');
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect([...runs].sort()).toEqual(['event 1', 'event 2', 'request']);
    expect(requester.replies('settled/x')).toMatchObject([{ kind: 'error' }]);
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, reconnects: 1 });
  },
);

it.each([5, 4] as const)(
  'MQTT %i: its letter waits for the other handler, and tells of its own attempt',
  async (version) => {
    await start(version);
    requester.ask('mixed/x');
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect([...runs].sort()).toEqual(['event 1', 'event 2', 'event 3', 'request']);
    expect(requester.replies('mixed/x')).toMatchObject([{ kind: 'error' }]);
    expect(target.tried).toMatchObject([
      { 'dead-letter-error': 'request', 'dead-letter-attempt': '1', 'dead-letter-run': '1' },
    ]);
    expect(running.strategy.stats).toMatchObject({ deadLettered: 1, succeeded: 0 });
  },
);

it.each([5, 4] as const)('MQTT %i: an error without a JSON form is an error reply all the same', async (version) => {
  await start(version);
  requester.ask('circular');
  await running.broker.log.waitForReceived('puback');
  expect(requester.replies('circular')).toMatchObject([{ kind: 'error', value: { status: 'error' } }]);
});

describe('a value that cannot be sent', () => {
  const TOLD = { kind: 'error', value: { status: 'error', message: 'The reply could not be sent' } };

  it.each([
    [5, '"circular"'],
    [5, '"big"'],
    [5, '"large"'],
    [4, '"circular"'],
    [4, '"big"'],
  ] as const)('MQTT %i, %s: one error reply, then the request is settled, counted', async (version, what) => {
    await start(version, {}, undefined, 5_000);
    requester.ask('unsendable', what);
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect(requester.replies('unsendable')).toMatchObject([TOLD]);
    expect(runs).toEqual(['unsendable']);
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, replyFailed: 1, held: 0 });
  });

  it('in a stream: what came before it, then the error, then nothing', async () => {
    await start(5);
    requester.ask('unsendable', '"stream"');
    await running.broker.log.waitForReceived('puback');
    await settled();
    expect(requester.replies('unsendable')).toMatchObject([{ kind: 'next', value: 1 }, TOLD]);
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, replyFailed: 1 });
  });
});

describe("an event in Nest's envelope at a request handler", () => {
  it('fails like an event: held, not taken for answered', async () => {
    await start(4, { redeliverAfter: 60_000 });
    failures = 1;
    running.broker.publish('answers', '{"pattern":"answers","data":1}', { qos: 1 });
    await until(() => running.strategy.stats.held === 1);
    await settled();
    expect(running.broker.log.received('puback')).toEqual([]);
    running.broker.cut();
    await running.broker.log.waitForReceived('puback');
    expect(runs).toEqual(['answers', 'answers']);
    expect(running.broker.log.received('publish')).toEqual([]);
  });

  it.each([null, false, 0, ''])('its data %j comes as it is', async (given) => {
    await start(4);
    running.broker.publish('data', JSON.stringify({ pattern: 'data', data: given, id: '1' }), { qos: 1 });
    await running.broker.log.waitForReceived('puback');
    expect(data).toBe(given);
  });
});
