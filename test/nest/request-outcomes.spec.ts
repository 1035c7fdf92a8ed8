import { Controller } from '@nestjs/common';
import { Ctx, type ReadPacket, RpcException } from '@nestjs/microservices';
import { concat, from, ignoreElements, map, NEVER, Observable, of, throwError } from 'rxjs';
import { MqttRequest } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type MqttServerStats } from '../../lib/nest/task-host.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';
import { holdPubacks, Requester } from './support/requester.js';

class Target extends EventClient {
  readonly taken: Record<string, string>[] = [];
  protected dispatchEvent<T>(packet: ReadPacket): Promise<T> {
    this.taken.push(packet.data as Record<string, string>);
    return Promise.resolve(undefined as T);
  }
}

let runs = 0;
let values = gate();

/** Fails in its first `times` runs. */
function failing(times: number): string {
  runs += 1;
  if (runs <= times) throw new Error('secret');
  return 'done';
}

const twice = { attempts: 2, initialDelay: 1 };

@Controller()
class Handlers {
  @MqttRequest('succeeds')
  succeeds(): string {
    return failing(0);
  }
  @MqttRequest('retry/succeeds', { failure: { retry: twice } })
  retrySucceeds(): string {
    return failing(1);
  }
  @MqttRequest('retry/ends', { failure: { retry: twice } })
  retryEnds(): string {
    return failing(2);
  }
  @MqttRequest('rpc', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  rpc(): never {
    runs += 1;
    throw new RpcException({ status: 'error', message: 'known' });
  }
  @MqttRequest('timeout', { handlerTimeout: 30 })
  timeout() {
    runs += 1;
    return NEVER;
  }
  @MqttRequest('discard', { failure: { then: 'discard' } })
  discard(): string {
    return failing(1);
  }
  @MqttRequest('reject', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  reject(): string {
    return failing(1);
  }
  @MqttRequest('dead', { failure: { then: 'deadLetter' } })
  dead(): string {
    return failing(1);
  }
  @MqttRequest('halt', { failure: { then: 'halt' } })
  halt(): string {
    return failing(1);
  }
  @MqttRequest('by-hand/later')
  later(@Ctx() context: MqttMessageContext): number {
    runs += 1;
    if (runs < 3) context.retryLater(1);
    return runs;
  }
  @MqttRequest('by-hand/no-time', { failure: { retry: { maxHold: 10 }, then: 'discard' } })
  noTime(@Ctx() context: MqttMessageContext): number {
    runs += 1;
    context.retryLater(1_000);
    return runs;
  }
  @MqttRequest('by-hand/reject')
  rejectByHand(@Ctx() context: MqttMessageContext): string {
    runs += 1;
    context.reject(0x97);
    return 'not for you';
  }
  @MqttRequest('by-hand/reject-later')
  async rejectLater(@Ctx() context: MqttMessageContext): Promise<string> {
    runs += 1;
    await settled(2);
    context.reject(0x97);
    return 'not for you';
  }
  @MqttRequest('by-hand/reject-behind-a-value')
  rejectBehind(@Ctx() context: MqttMessageContext) {
    runs += 1;
    return new Observable<string>((subscriber) => {
      subscriber.next('not for you');
      context.reject(0x97);
      subscriber.next('nor this');
      subscriber.complete();
    });
  }
  @MqttRequest('by-hand/reject-and-say-why')
  rejectAndSay(@Ctx() context: MqttMessageContext): never {
    runs += 1;
    context.reject(0x97);
    throw new RpcException({ status: 'error', message: 'over quota' });
  }
  @MqttRequest('by-hand/reject-from-other-work')
  rejectFromWork(@Ctx() context: MqttMessageContext): string {
    runs += 1;
    context.waitUntil(settled(2).then(() => void context.reject(0x97)));
    return 'not for you';
  }
  @MqttRequest('by-hand/dead')
  deadByHand(@Ctx() context: MqttMessageContext): string {
    runs += 1;
    context.deadLetter('not mine');
    return 'not for you';
  }
  @MqttRequest('stream/fails-at-once', { failure: { retry: twice } })
  failsAtOnce() {
    runs += 1;
    return runs === 1
      ? concat(
          of(1),
          throwError(() => new Error('secret')),
        )
      : of(2);
  }
  @MqttRequest('stream/later', { failure: { retry: twice, then: 'discard' } })
  streamLater(@Ctx() context: MqttMessageContext) {
    runs += 1;
    const rest = from(values.promise).pipe(
      map(() => {
        context.retryLater(1);
        return 2;
      }),
    );
    return concat(of(1), rest);
  }
  @MqttRequest('stream/fails', { failure: { retry: twice } })
  streamFails() {
    runs += 1;
    return concat(
      of(1),
      from(values.promise).pipe(ignoreElements()),
      throwError(() => new Error('secret')),
    );
  }
  @MqttRequest('work/fails', { failure: { then: 'discard' } })
  workFails(@Ctx() context: MqttMessageContext): string {
    runs += 1;
    context.waitUntil(settled(2).then(() => Promise.reject(new Error('secret'))));
    return 'done?';
  }
  @MqttRequest('work/fails-once', { failure: { retry: twice } })
  workFailsOnce(@Ctx() context: MqttMessageContext): number {
    runs += 1;
    if (runs === 1) context.waitUntil(settled(2).then(() => Promise.reject(new Error('secret'))));
    return runs;
  }
  @MqttRequest('detached')
  detached(@Ctx() context: MqttMessageContext): string {
    runs += 1;
    const handle = context.detach();
    void values.promise.then(() => handle.acknowledge());
    return 'done';
  }
  @MqttRequest('undecodable', { payload: 'json' })
  undecodable(): string {
    return failing(0);
  }
  @MqttRequest('undecodable/dead', { payload: 'json', failure: { retry: 3, then: 'deadLetter' } })
  undecodableDead(): string {
    return failing(0);
  }
}

const INTERNAL = { status: 'error', message: 'Internal server error' };

interface Expected {
  readonly replies: readonly (readonly ['next' | 'last' | 'error', unknown])[];
  /** The reason code in MQTT 5. Default 0. */
  readonly code?: number;
  readonly counted: 'succeeded' | 'discarded' | 'rejected' | 'deadLettered';
  readonly runs?: number;
  /** Why it is a dead letter. */
  readonly letter?: string;
  /** Nothing more happens before this. */
  readonly then?: () => void;
}
const error = (what: unknown = INTERNAL) => ['error', what] as const;
const value = (what: unknown) => ['last', what] as const;

const EXPECTED: Readonly<Record<string, Expected>> = {
  succeeds: { replies: [value('done')], counted: 'succeeded' },
  'retry/succeeds': { replies: [value('done')], counted: 'succeeded', runs: 2 },
  'retry/ends': { replies: [error()], counted: 'succeeded', runs: 2 },
  rpc: { replies: [error({ status: 'error', message: 'known' })], code: 0x99, counted: 'rejected' },
  timeout: { replies: [error()], counted: 'succeeded' },
  discard: { replies: [error()], counted: 'discarded' },
  reject: { replies: [error()], code: 0x99, counted: 'rejected' },
  dead: { replies: [error()], counted: 'deadLettered', letter: 'handler' },
  'by-hand/later': { replies: [value(3)], counted: 'succeeded', runs: 3 },
  'by-hand/no-time': { replies: [error()], counted: 'discarded' },
  'by-hand/reject': { replies: [error()], code: 0x97, counted: 'rejected' },
  'by-hand/reject-later': { replies: [error()], code: 0x97, counted: 'rejected' },
  'by-hand/reject-behind-a-value': { replies: [error()], code: 0x97, counted: 'rejected' },
  'by-hand/reject-and-say-why': {
    replies: [error({ status: 'error', message: 'over quota' })],
    code: 0x97,
    counted: 'rejected',
  },
  'by-hand/reject-from-other-work': { replies: [error()], code: 0x97, counted: 'rejected' },
  'by-hand/dead': { replies: [error()], counted: 'deadLettered', letter: 'not mine' },
  'stream/fails-at-once': { replies: [value(2)], counted: 'succeeded', runs: 2 },
  // A requester that got values would get them twice.
  'stream/later': { replies: [['next', 1], error()], counted: 'discarded', then: () => values.open() },
  'stream/fails': { replies: [['next', 1], error()], counted: 'succeeded', then: () => values.open() },
  'work/fails': { replies: [error()], counted: 'discarded' },
  'work/fails-once': { replies: [value(2)], counted: 'succeeded', runs: 2 },
  detached: { replies: [value('done')], counted: 'succeeded', then: () => values.open() },
};

describe.each([5, 4] as const)('MQTT %i', (version) => {
  let running: RunningApp;
  let requester: Requester;
  const target = new Target();

  beforeEach(async () => {
    runs = target.taken.length = 0;
    values = gate();
    running = await startApp([Handlers], {
      strategy: {
        protocolVersion: version,
        ...(version === 4 && { envelope: 'nest' as const }),
        qos: 2,
        shutdownTimeout: 500,
        deadLetter: { client: target, pattern: 'dead' },
      },
    });
    requester = new Requester(running.broker, version);
  });
  afterEach(async () => {
    expect(running.broker.violations).toEqual([]);
    await running.close();
  });

  /** Of the request, as bytes. */
  const acknowledgement = (qos: 1 | 2, packetId: number, code: number): string => {
    const first = qos === 1 ? 0x40 : 0x50;
    const id = [packetId >> 8, packetId & 0xff];
    return Buffer.from(version === 4 || code === 0 ? [first, 2, ...id] : [first, 3, ...id, code]).toString('hex');
  };
  const acknowledged = (qos: 1 | 2): string[] =>
    running.broker.log
      .of(qos === 1 ? 'puback' : 'pubrec', { direction: 'in' })
      .map(({ bytes }) => bytes.toString('hex'));

  const cases = Object.entries(EXPECTED).flatMap(([topic, expected]) =>
    (version === 5 ? ([1, 2] as const) : ([1] as const)).map((qos) => [topic, qos, expected] as const),
  );
  it.each(cases)('%s, QoS %i: its replies, and behind them the acknowledgement', async (topic, qos, expected) => {
    const { broker, strategy } = running;
    const release = holdPubacks(broker);
    requester.ask(topic, '1', qos);
    if (expected.then !== undefined) {
      const open = expected.replies.length - 1;
      await until(() => runs === 1 && requester.replies(topic).length === open);
      await settled();
      expect(requester.replies(topic)).toHaveLength(open);
      expected.then();
    }
    await until(() => requester.replies(topic).length === expected.replies.length);
    await settled();
    // The broker has not accepted them yet.
    expect(acknowledged(qos)).toEqual([]);
    expect(target.taken).toEqual([]);
    release();
    await broker.log.waitForReceived(qos === 1 ? 'puback' : 'pubrec');
    await settled();
    const { messageId } = broker.log.sent('publish').find((packet) => packet.topic === topic)!;
    expect(acknowledged(qos)).toEqual([acknowledgement(qos, messageId!, expected.code ?? 0)]);
    const replies = requester.replies(topic);
    expect(replies.map(({ kind, value: given }) => [kind, given])).toEqual(expected.replies);
    expect(replies.map(({ payload }) => payload).join()).not.toContain('secret');
    expect(runs).toBe(expected.runs ?? 1);
    const counters = ['succeeded', 'discarded', 'rejected', 'deadLettered', 'held'] as const;
    const counted = counters.filter((name: keyof MqttServerStats) => strategy.stats[name] > 0);
    expect(counted).toEqual([expected.counted]);
    expect(target.taken.map((letter) => letter['dead-letter-reason'])).toEqual(
      expected.letter === undefined ? [] : [expected.letter],
    );
  });

  it('the error reply, byte for byte', async () => {
    requester.ask('reject');
    await running.broker.log.waitForReceived('puback');
    const [{ topic, payload }] = requester.replies('reject');
    expect(topic).toBe(version === 5 ? 'replies/reject' : 'reject/reply');
    expect(payload).toBe(
      version === 5
        ? '{"status":"error","message":"Internal server error"}'
        : '{"id":"request-7","err":{"status":"error","message":"Internal server error"},"isDisposed":true}',
    );
  });

  it('halt: no reply, held; resume() runs it again, and the reply comes first', async () => {
    const { broker, strategy } = running;
    requester.ask('halt');
    await until(() => strategy.state === 'halted');
    await settled();
    expect([requester.replies('halt'), acknowledged(1)]).toEqual([[], []]);
    const release = holdPubacks(broker);
    strategy.resume();
    await until(() => requester.replies('halt').length === 1);
    await settled();
    expect(acknowledged(1)).toEqual([]);
    release();
    await broker.log.waitForReceived('puback');
    expect(requester.replies('halt')).toMatchObject([{ kind: 'last', value: 'done' }]);
    expect(runs).toBe(2);
  });

  it('QoS 0: the error reply is all there is; counted like QoS 1', async () => {
    const { strategy } = running;
    requester.ask('retry/ends', '1', 0);
    await until(() => strategy.stats.succeeded === 1);
    runs = 0;
    requester.ask('reject', '1', 0);
    await until(() => strategy.stats.discarded === 1);
    expect(requester.replies('retry/ends')).toMatchObject([{ kind: 'error' }]);
    expect(requester.replies('reject')).toMatchObject([{ kind: 'error' }]);
  });
});

describe('a payload that does not decode', () => {
  it('MQTT 5: no run and no retry; the requester is told, then the policy decides', async () => {
    const target = new Target();
    runs = 0;
    const running = await startApp([Handlers], {
      strategy: { protocolVersion: 5, deadLetter: { client: target, pattern: 'dead' } },
    });
    const requester = new Requester(running.broker, 5);
    for (const topic of ['undecodable', 'undecodable/dead']) {
      const release = holdPubacks(running.broker);
      const since = running.broker.log.position;
      requester.ask(topic, '{');
      await until(() => requester.replies(topic).length === 1);
      await settled();
      expect(running.broker.log.received('puback', { since })).toEqual([]);
      release();
      const [acknowledged] = await running.broker.log.waitForReceived('puback', 1, { since });
      expect(acknowledged.reasonCode ?? 0).toBe(0);
      expect(requester.replies(topic)).toMatchObject([
        { kind: 'error', value: { status: 'error', message: 'The payload could not be decoded' } },
      ]);
    }
    expect(runs).toBe(0);
    expect(running.strategy.stats).toMatchObject({ succeeded: 1, deadLettered: 1, held: 0 });
    expect(target.taken).toMatchObject([{ 'dead-letter-reason': 'undecodable', payload: btoa('{') }]);
    await running.close();
  });

  it("3.1.1: no envelope, so nobody to tell: the policy's end alone", async () => {
    const target = new Target();
    runs = 0;
    const running = await startApp([Handlers], {
      strategy: { protocolVersion: 4, envelope: 'nest', deadLetter: { client: target, pattern: 'dead' } },
    });
    const { broker, strategy } = running;
    broker.publish('undecodable/dead', '{', { qos: 1 });
    await broker.log.waitForReceived('puback');
    broker.publish('undecodable', '{"pattern":"undecodable"}', { qos: 1 });
    await until(() => strategy.stats.held === 1);
    await settled();
    expect(broker.log.received('puback')).toHaveLength(1);
    expect(broker.log.received('publish')).toEqual([]);
    expect(runs).toBe(0);
    expect(target.taken).toMatchObject([{ 'dead-letter-reason': 'undecodable', payload: btoa('{') }]);
    await running.close();
  });
});
