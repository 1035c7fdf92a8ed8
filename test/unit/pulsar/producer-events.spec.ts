import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { isTransportError, type TransportError } from '../../../lib/errors.js';
import { type PulsarProducer } from '../../../lib/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

const NAMES = ['connected', 'queued', 'disconnected', 'reconnecting', 'terminated', 'closed'] as const;
type Told = readonly [name: string, detail: string | undefined];

/** What a producer tells, in order: the name, and of a cause its code. */
function listen(producer: PulsarProducer): Told[] {
  const told: Told[] = [];
  for (const name of NAMES) {
    producer.on(name, (payload) => {
      const cause = (payload as { cause?: TransportError } | undefined)?.cause;
      if (cause !== undefined && !isTransportError(cause))
        throw new TypeError(`${name}: the cause is no TransportError`);
      told.push([name, cause?.code]);
    });
  }
  return told;
}

describe('events of a producer', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('tell a lost connection, each try with its delay, and the new link, all with their cause', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const told = listen(producer);
    const tries: number[] = [];
    producer.on('reconnecting', ({ partition, attempt, delay }) => {
      expect(partition).toBe(-1);
      expect(delay).toBeGreaterThan(0);
      tries.push(attempt);
    });
    const links: unknown[] = [];
    producer.on('connected', ({ partition, broker: url, epoch }) => links.push([partition, url, epoch]));
    broker.failNext('producer', 'ServiceNotReady', 'not now', 2);
    broker.cut();
    await producer.send(text('a'));
    expect(told).toEqual([
      ['disconnected', 'ERR_CONNECTION'],
      ['reconnecting', 'ERR_CONNECTION'],
      ['reconnecting', 'ERR_BROKER'],
      ['reconnecting', 'ERR_BROKER'],
      ['connected', undefined],
    ]);
    expect(tries).toEqual([1, 2, 3]);
    expect(links).toEqual([[-1, broker.url, 4]]);
  });

  it('tell the end once, and that nothing comes after it', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const told = listen(producer);
    broker.terminate('unit');
    await broker.waitFor(() => producer.state === 'terminated');
    await producer.close();
    expect(told).toEqual([
      ['disconnected', 'ERR_CONNECTION'],
      ['reconnecting', 'ERR_CONNECTION'],
      ['terminated', 'ERR_TERMINATED'],
      ['closed', undefined],
    ]);
    expect(producer.state).toBe('closed');
  });

  it('tell of which partition they are, and leave the others out', async () => {
    const broker = await world.broker();
    broker.cluster.setPartitions('unit', 3);
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const partitions: unknown[] = [];
    for (const name of ['disconnected', 'reconnecting', 'connected'] as const) {
      producer.on(name, ({ partition }) => partitions.push([name, partition]));
    }
    broker.unload('unit-partition-1');
    await broker.waitFor(() => partitions.length === 3);
    expect(partitions).toEqual([
      ['disconnected', 1],
      ['reconnecting', 1],
      ['connected', 1],
    ]);
  });

  it('tell a producer that has to wait for its topic as queued, then as connected', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker).createProducer({ topic: 'unit', accessMode: 'waitForExclusive' });
    const told = listen(producer);
    let admit: (() => void) | undefined;
    const off = broker.onSend((command, connection) => {
      if (command.type !== 'producerSuccess') return undefined;
      off();
      admit = () => connection.send('producerSuccess', command.body);
      return { type: 'producerSuccess', body: { ...command.body, producerReady: false } };
    });
    broker.closeProducers('unit');
    await broker.waitFor(() => producer.state === 'queued');
    const send = producer.send(text('a'));
    admit!();
    await send;
    expect(told.map(([name]) => name)).toEqual(['disconnected', 'reconnecting', 'queued', 'connected']);
  });

  it('go out on the diagnostics channel too, and a listener that is taken off hears nothing', async () => {
    const broker = await world.broker();
    const states: unknown[] = [];
    const onEvent = (message: unknown): void => {
      const { topic, state } = message as { topic: string; state: string };
      if (topic === 'persistent://public/default/unit') states.push(state);
    };
    subscribe('nestjs-mqtt-pulsar:pulsar.producer', onEvent);
    try {
      const producer = await world.client(broker).createProducer({ topic: 'unit' });
      let heard = 0;
      const off = producer.on('disconnected', () => heard++);
      off();
      broker.cut();
      await broker.waitFor(() => received(broker, 'producer') === 2);
      await producer.send(text('a'));
      await producer.close();
      expect(heard).toBe(0);
      expect(states).toEqual(['connected', 'disconnected', 'reconnecting', 'connected', 'closed']);
    } finally {
      unsubscribe('nestjs-mqtt-pulsar:pulsar.producer', onEvent);
    }
  });
});
