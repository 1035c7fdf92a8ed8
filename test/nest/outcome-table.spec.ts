import { Catch, Controller, type ExceptionFilter, UseFilters } from '@nestjs/common';
import { Ctx, EventPattern, type ReadPacket } from '@nestjs/microservices';
import { readFileSync } from 'node:fs';
import { concat, EMPTY, of, throwError, timer } from 'rxjs';
import {
  type DetachedDelivery,
  MqttClientProxy,
  MqttEvent,
  MqttMessageContext,
  MqttRequest,
  PulsarClientProxy,
} from '../../lib/index.js';
import { type MqttClient } from '../../lib/mqtt/index.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

/** What the scenarios open, hold and let go. */
let work = gate();
let receipt = gate();
let handle: DetachedDelivery | undefined;
let runs = 0;
let pulsar: PulsarClientProxy;
let mqtt: MqttClientProxy;

@Catch()
class ToValue implements ExceptionFilter {
  catch() {
    return of('handled');
  }
}
@Catch()
class Rethrow implements ExceptionFilter {
  catch(error: Error): never {
    throw error;
  }
}
class Target extends EventClient {
  protected async dispatchEvent<T>(_packet: ReadPacket): Promise<T> {
    await receipt.promise;
    return undefined as T;
  }
}

@Controller()
class Handlers {
  @EventPattern<string>('value')
  value() {
    return 'done';
  }
  @EventPattern<string>('promise')
  promise() {
    return work.promise;
  }
  @EventPattern<string>('observable')
  observable() {
    return concat(of(1), timer(5));
  }
  @EventPattern<string>('empty')
  empty() {
    return EMPTY;
  }
  @EventPattern<string>('filter-value')
  @UseFilters(ToValue)
  filterValue() {
    throw new Error('no');
  }
  @EventPattern<string>('emit-pulsar')
  emitPulsar(): void {
    pulsar.emit('out', Buffer.from('x'));
  }
  @EventPattern<string>('emit-mqtt')
  emitMqtt(): void {
    mqtt.emit('elsewhere', Buffer.from('x'));
  }
  @EventPattern<string>('throws')
  throws() {
    throw new Error('no');
  }
  @EventPattern<string>('rejects')
  async rejects() {
    await Promise.reject(new Error('no'));
  }
  @EventPattern<string>('errors')
  errors() {
    return throwError(() => new Error('no'));
  }
  @EventPattern<string>('filter-rethrows')
  @UseFilters(Rethrow)
  filterRethrows() {
    throw new Error('no');
  }
  @MqttEvent('slow', { handlerTimeout: 30 })
  slow() {
    return new Promise(() => undefined);
  }
  @EventPattern<string>('emit-fails')
  emitFails(): void {
    pulsar.emit('out', Buffer.alloc(6 * 1024 * 1024));
  }
  @EventPattern<string>('detach')
  detach(@Ctx() context: MqttMessageContext): void {
    handle = context.detach();
  }
  @MqttEvent('discard', { failure: { then: 'discard' } })
  discard() {
    throw new Error('no');
  }
  @MqttEvent('reject', { failure: { then: 'reject', rejectReasonCode: 0x99 } })
  reject() {
    throw new Error('no');
  }
  @MqttEvent('reject-by-hand')
  rejectByHand(@Ctx() context: MqttMessageContext): void {
    context.reject(0x97);
  }
  @MqttEvent('dead', { failure: { then: 'deadLetter' } })
  dead() {
    throw new Error('no');
  }
  @MqttEvent('dead-by-hand')
  deadByHand(@Ctx() context: MqttMessageContext): void {
    context.deadLetter('not for me');
  }
  @MqttEvent('halt', { failure: { then: 'halt' } })
  halt() {
    runs += 1;
    if (runs === 1) throw new Error('no');
  }
  @MqttEvent('retried', { failure: { retry: { attempts: 3, initialDelay: 1 }, then: 'discard' } })
  retried() {
    runs += 1;
    if (runs < 3) throw new Error('no');
  }
  @MqttEvent('later')
  later(@Ctx() context: MqttMessageContext): void {
    runs += 1;
    if (runs < 3) context.retryLater(1);
  }
  @MqttEvent('undecodable', { payload: 'json' })
  undecodable(): void {
    runs += 1;
  }
  @MqttEvent('undecodable/discard', { payload: 'json', failure: { retry: 3, then: 'discard' } })
  undecodableDiscarded(): void {
    runs += 1;
  }
  @EventPattern<string>('both')
  both1(): void {}
  @EventPattern<string>('both')
  async both2(): Promise<void> {
    await work.promise;
  }
  @MqttRequest('request')
  request() {
    return 'answer';
  }
  @MqttRequest('request/fails')
  requestFails() {
    throw new Error('no');
  }
}

interface Scenario {
  readonly topic: string;
  /** The reason code of the acknowledgement in MQTT 5; `undefined`: none. */
  readonly code: number | undefined;
  /** It must not be acknowledged before this. */
  readonly then?: () => unknown;
  /** For a request. */
  readonly responseTopic?: string;
  /** With QoS 0: the counter that tells the end. Default `discarded` where nothing is acknowledged, else `succeeded`. */
  readonly qos0?: 'succeeded' | 'discarded' | 'rejected' | 'deadLettered' | 'unmatched';
}

const ok = (topic: string, then?: () => unknown): Scenario => ({ topic, code: 0, ...(then !== undefined && { then }) });
const nothing = (topic: string): Scenario => ({ topic, code: undefined });
let release: () => void = () => undefined;

/** The first column of README's table, and what is played for it. */
const ROWS: Readonly<Record<string, readonly Scenario[]>> = {
  'returns a value, fulfils its promise, completes its Observable (also without a value)': [
    ok('value'),
    ok('promise', () => work.open()),
    ok('observable'),
    ok('empty'),
  ],
  'an exception filter turns the error into a value': [ok('filter-value')],
  'emits through `PulsarClientProxy` or `MqttClientProxy`, awaited or not': [
    ok('emit-pulsar', () => pulsarBroker.releaseReceipts()),
    ok('emit-mqtt', () => release()),
  ],
  'throws, rejects, its Observable errors, a filter rethrows or decides nothing': [
    nothing('throws'),
    nothing('rejects'),
    nothing('errors'),
    nothing('filter-rethrows'),
  ],
  'does not end within `handlerTimeout` (60 s)': [nothing('slow')],
  'an emit fails, and nobody subscribed to it or the handler had ended': [nothing('emit-fails')],
  '`context.detach()`': [ok('detach', () => handle?.acknowledge())],
  'the payload cannot be decoded': [
    nothing('undecodable'),
    { topic: 'undecodable/discard', code: 0, qos0: 'discarded' },
  ],
  '`context.retryLater(ms)`, or the policy retries': [ok('retried'), ok('later')],
  'policy `discard`': [{ topic: 'discard', code: 0, qos0: 'discarded' }],
  'policy `reject` or `context.reject(code)`': [
    { topic: 'reject', code: 0x99, qos0: 'discarded' },
    { topic: 'reject-by-hand', code: 0x97, qos0: 'discarded' },
  ],
  'policy `deadLetter` or `context.deadLetter(reason)`': [
    { topic: 'dead', code: 0, then: () => receipt.open(), qos0: 'deadLettered' },
    { topic: 'dead-by-hand', code: 0, then: () => receipt.open(), qos0: 'deadLettered' },
  ],
  'policy `halt`': [ok('halt', () => running.strategy.resume())],
  'several handlers match': [ok('both', () => work.open())],
  'a request handler ends, or fails, and an answer is asked for': [
    { topic: 'request', code: 0, responseTopic: 'answers', then: () => release() },
    { topic: 'request/fails', code: 0, responseTopic: 'answers', then: () => release() },
  ],
  'no handler matches': [{ topic: 'nobody', code: undefined, qos0: 'unmatched' }],
};

const bytesOf = (kind: 'puback' | 'pubrec', version: 4 | 5, packetId: number, code: number): string => {
  const first = kind === 'puback' ? 0x40 : 0x50;
  const id = [packetId >> 8, packetId & 0xff];
  // MQTT 5 leaves the reason code 0x00 out [3.4.2.1, 3.5.2.1]; 3.1.1 has none.
  const packet = version === 4 || code === 0 ? [first, 2, ...id] : [first, 3, ...id, code];
  return Buffer.from(packet).toString('hex');
};

/** What the broker answers to our own publishes is kept back until the returned function is called. */
function holdPubacks(): () => void {
  const kept: (() => void)[] = [];
  const stop = running.broker.onSend((packet, connection) => {
    if (packet.cmd !== 'puback') return undefined;
    kept.push(() => connection.send(packet));
    return 'withhold';
  });
  return () => {
    stop();
    for (const send of kept.splice(0)) send();
  };
}

let running: RunningApp;
let pulsarBroker: InMemoryPulsarBroker;
const target = new Target();

it('README has a row for every scenario, and the other way round', () => {
  const [, table = ''] = readFileSync('README.md', 'utf8').split('## What a handler does, and what goes on the wire');
  const rows = [...table.split('\n## ')[0].matchAll(/^\| (.+?) +\| .*\|$/gm)]
    .map(([, first]) => first)
    .filter((first) => first !== 'the handler' && !/^-+$/.test(first));
  expect(rows).toEqual(Object.keys(ROWS));
});

describe.each([5, 4] as const)('MQTT %i', (version) => {
  beforeAll(async () => {
    pulsarBroker = await InMemoryPulsarBroker.start();
    pulsar = new PulsarClientProxy({ url: pulsarBroker.url });
    running = await startApp([Handlers], {
      strategy: {
        protocolVersion: version,
        deadLetter: { client: target, pattern: 'dead' },
        unmatched: 'hold',
        reconnect: { initial: 5, max: 20 },
        qos: 2,
      },
    });
    mqtt = new MqttClientProxy({
      url: running.broker.url,
      protocolVersion: version,
      reconnect: { initial: 5, max: 20 },
    });
    // A filter that no handler has, as an earlier version of the app could have left it.
    await running.strategy.unwrap<MqttClient>().subscribe([{ filter: 'nobody', qos: 2 }]);
  });
  afterAll(async () => {
    await running.close();
    await mqtt.close();
    await pulsar.close();
    await pulsarBroker.close();
  });
  beforeEach(() => {
    work = gate();
    receipt = gate();
    runs = 0;
    handle = undefined;
  });

  const cases = Object.entries(ROWS).flatMap(([row, scenarios]) =>
    scenarios.flatMap((scenario) => ([0, 1, 2] as const).map((qos) => [row, scenario.topic, qos, scenario] as const)),
  );
  it.each(cases)('%s: %s, QoS %i', async (_row, topic, qos, scenario) => {
    const { broker, strategy } = running;
    // 3.1.1 has no Response Topic: nothing asks for an answer, and a failure is one like any other.
    const asks = scenario.responseTopic !== undefined && version === 5;
    const code = topic === 'request/fails' && !asks ? undefined : scenario.code;
    const since = broker.log.position;
    const before = { ...strategy.stats };
    const acknowledgements = (): string[] =>
      (['puback', 'pubrec'] as const).flatMap((kind) =>
        broker.log.of(kind, { direction: 'in', since }).map(({ bytes }) => bytes.toString('hex')),
      );
    if (topic === 'emit-pulsar') pulsarBroker.holdReceipts();
    release = topic === 'emit-mqtt' || asks ? holdPubacks() : () => undefined;

    broker.publish(topic, '{', { qos, ...(asks && { properties: { responseTopic: scenario.responseTopic } }) });

    if (scenario.then !== undefined && (scenario.responseTopic === undefined || asks)) {
      await until(() => strategy.stats.received > before.received);
      if (topic === 'halt') await until(() => strategy.state === 'halted');
      await settled();
      // Replies and emits of a QoS 0 delivery may be QoS 0 themselves: nothing holds those.
      expect(acknowledgements()).toEqual([]);
      scenario.then();
    }
    release();
    if (qos === 0) {
      const counter = scenario.qos0 ?? (code === undefined ? 'discarded' : 'succeeded');
      await until(() => strategy.stats[counter] > before[counter], `${counter} of ${topic}`);
      await settled();
      expect(acknowledgements()).toEqual([]);
      return;
    }
    const { messageId } = broker.log.sent('publish', { since }).find((packet) => packet.topic === topic)!;
    const kind = qos === 1 ? 'puback' : 'pubrec';
    if (code === undefined) {
      await until(() => strategy.stats.held + strategy.stats.unmatched > before.held + before.unmatched);
      await settled();
      expect(acknowledgements()).toEqual([]);
      expect(strategy.state).toBe('stalled');
      // Out of the way of the lane for the next ones: the broker forgets, and so does the session.
      broker.dropSession('app');
      broker.cut();
      await broker.waitForClient('app');
      await until(() => strategy.unwrap<MqttClient>().status.state === 'connected');
      await settled();
      return;
    }
    await broker.log.waitForReceived(kind, 1, { since });
    await settled();
    expect(acknowledgements()).toEqual([bytesOf(kind, version, messageId!, code)]);
    if (asks) {
      // The reply was accepted first.
      const order = broker.log.entries.filter((entry) => entry.order >= since);
      const reply = order.findIndex(({ type, direction }) => type === 'puback' && direction === 'out');
      const own = order.findIndex(({ type, direction }) => type === kind && direction === 'in');
      expect(reply).toBeGreaterThanOrEqual(0);
      expect(reply).toBeLessThan(own);
    }
    // QoS 2 goes on only after a PUBREC below 0x80 [MQTT-4.3.3-9].
    const done = broker.log.received('pubcomp', { since });
    expect(done).toHaveLength(qos === 2 && (version === 4 || code < 0x80) ? 1 : 0);
    expect(broker.violations).toEqual([]);
  });
});
