import { ConnectionState } from '../../../lib/pulsar/protocol/connection-state.js';
import { PulsarWorld, received, text } from './support/world.js';

type State = ConnectionState<string>;

/** Keep alive and requests of one connection, under a clock of the test's own. */
describe('ConnectionState', () => {
  const config = {
    peer: 'pulsar://broker:6650',
    clientVersion: 'test',
    authMethod: undefined,
    renewableIdentity: false,
    proxyToBrokerUrl: undefined,
    connectTimeout: 1000,
    keepAlive: 100,
  };
  /** Connected at 0. */
  const ready = (changes: Partial<typeof config> = {}): State => {
    const state = new ConnectionState<string>({ ...config, ...changes }, 0);
    state.opened();
    state.authData(undefined);
    state.command({ type: 'connected', serverVersion: 'x' }, 0);
    state.actions.length = 0;
    return state;
  };
  /** Runs until `end`, waking when the state asks for it; gives what was written and why it closed, with the time. */
  const run = (state: State, from: number, end: number): string[] => {
    const seen: string[] = [];
    for (let now = state.nextDeadline(); now <= end; now = state.nextDeadline()) {
      state.handleTimeout(Math.max(now, from));
      for (const action of state.actions.splice(0)) {
        if (action.kind === 'write') seen.push(`${now} ${action.command.type}`);
        else if (action.kind === 'close') seen.push(`${now} ${action.error.message}`);
        else if (action.kind === 'expired') seen.push(`${now} expired ${action.token}`);
      }
    }
    return seen;
  };

  it('asks for a sign of life after keepAlive of silence, and ends after another one', () => {
    const state = ready();
    expect(run(state, 0, 1000)).toEqual(['100 ping', '200 pulsar://broker:6650: no sign of life for 200 ms']);
    expect(state.phase).toBe('closed');
    expect(state.nextDeadline()).toBe(Infinity);
  });

  it('takes a few bytes of a command that does not end for no sign of life', () => {
    const state = ready();
    for (let now = 10; now <= 190; now += 10) state.received(now, 14);
    expect(run(state, 0, 1000)).toEqual(['100 ping', '200 pulsar://broker:6650: no sign of life for 200 ms']);
  });

  it('takes a large command that comes slowly for one', () => {
    const state = ready();
    for (let now = 1; now <= 400; now += 1) {
      state.received(now, 20);
      expect(run(state, now, now)).toEqual([]);
    }
  });

  it('counts every command that comes as a sign of life', () => {
    const state = ready();
    expect(run(state, 0, 100)).toEqual(['100 ping']);
    state.received(150);
    state.command({ type: 'pong' }, 150);
    expect(run(state, 150, 340)).toEqual(['250 ping']);
    state.received(345);
    expect(run(state, 345, 440)).toEqual([]);
    expect(state.phase).toBe('ready');
  });

  it('does not ping a broker that sends', () => {
    const state = ready();
    for (let now = 50; now <= 1000; now += 50) {
      state.received(now);
      expect(run(state, now, now)).toEqual([]);
    }
  });

  it('takes its own long stop for no silence of the broker', () => {
    const state = ready();
    expect(run(state, 0, 100)).toEqual(['100 ping']);
    // The process stood still from 100 to 900: what came meanwhile is unread.
    state.handleTimeout(900);
    expect(state.phase).toBe('ready');
    expect(state.actions.splice(0)).toMatchObject([{ kind: 'write', command: { type: 'ping' } }]);
    expect(state.nextDeadline()).toBe(1000);
    state.handleTimeout(1000);
    expect(state.phase).toBe('closed');
  });

  it('never pings with keepAlive 0', () => {
    expect(ready({ keepAlive: 0 }).nextDeadline()).toBe(Infinity);
  });

  it('answers PING at once', () => {
    const state = ready();
    expect(state.command({ type: 'ping' }, 5)).toBe(true);
    expect(state.actions).toMatchObject([{ kind: 'write', command: { type: 'pong' } }]);
  });

  it('lets requests expire one by one, and not those the broker has queued', () => {
    const state = ready({ keepAlive: 0 });
    const ask = (token: string, deadline: number): void =>
      state.request((requestId) => ({ type: 'closeProducer', producerId: 1, requestId }), token, deadline);
    ask('a', 300);
    ask('b', 200);
    ask('c', 400);
    state.command({ type: 'producerSuccess', requestId: 2, producerName: 'p', producerReady: false }, 10);
    expect(state.actions.splice(0).at(-1)).toEqual({ kind: 'queued', token: 'c' });
    expect(run(state, 0, 10_000)).toEqual(['200 expired b', '300 expired a']);
  });

  it('gives the broker connectTimeout, and tells what was missing', () => {
    const state = new ConnectionState<string>(config, 0);
    expect(run(state, 0, 5000)).toEqual(['1000 pulsar://broker:6650: no CONNECTED within 1000 ms']);
  });
});

describe('keep alive on the wire', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('keeps a silent connection', async () => {
    const broker = await world.broker();
    const producer = await world.client(broker, { keepAlive: 40 }).createProducer({ topic: 'unit' });
    await broker.waitFor(() => received(broker, 'ping') >= 4);
    expect(producer.stats.connects).toBe(1);
    expect(broker.allConnections).toHaveLength(1);
  });

  it('answers the pings of the broker, which would cut otherwise', async () => {
    const broker = await world.broker({ keepAliveInterval: 30 });
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await broker.waitFor(() => received(broker, 'pong') >= 5);
    await producer.send(text('in'));
    expect(broker.allConnections).toHaveLength(1);
  });

  it.each(['stall', 'halfOpen'] as const)('notices a dead link (%s), dials anew and loses nothing', async (fault) => {
    const broker = await world.broker({ livenessTimeout: 50 });
    const client = world.client(broker, { keepAlive: 50 });
    const producer = await client.createProducer({ topic: 'unit', batching: false });
    const causes: string[] = [];
    client.on('disconnected', ({ cause }) => causes.push(cause.message));
    await producer.send(text('before'));
    const [first] = broker.connections;
    if (fault === 'halfOpen') first.halfOpen();
    else first.stall({ reads: true, writes: true });
    await Promise.all(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    expect(broker.topic('unit').texts).toEqual(['before', 'a', 'b', 'c']);
    expect(causes[0]).toMatch(/no sign of life for \d+ ms/);
    expect(broker.allConnections.length).toBeGreaterThan(1);
  });

  it('does not wait for ever for the end of a frame whose length is wrong', async () => {
    const broker = await world.broker();
    const client = world.client(broker, { keepAlive: 50 });
    const producer = await client.createProducer({ topic: 'unit', batching: false });
    // A frame of 1 MiB that never ends: every receipt and every PONG is taken for a part of it.
    broker.connections[0].sendRaw(Buffer.from([0x00, 0x10, 0x00, 0x00]));
    await Promise.all(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    expect(new Set(broker.topic('unit').texts)).toEqual(new Set(['a', 'b', 'c']));
    expect(broker.allConnections.length).toBeGreaterThan(1);
  });
});
