import { PulsarWorld, received, text } from '../support/world.js';

// Row 14 (apache/pulsar-client-go #1272, #1274): a producer registered with a connection that had just ended was "ready"
// for ever. Row 15 (#582, #1061): PRODUCER timed out, the broker made it all the same, and the next try was refused.
// Row 16 (#1032): a lookup's ServiceNotReady ended the connection and with it everybody on it. Row 22, as far as a producer
// can have it (#1180, apache/pulsar #20591): what comes right behind the answer must find its handler.
describe('a link that dies while the producer is being opened', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it.each(['lookupTopic', 'producer'] as const)('at %s: the next one is used', async (command) => {
    const broker = await world.broker();
    let cuts = 3;
    broker.onReceive((type, _body, connection) => {
      if (type !== command || cuts === 0) return undefined;
      cuts--;
      connection.cut();
      return 'ignore';
    });
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await producer.send(text('stored'));
    expect(cuts).toBe(0);
    expect(broker.topic('unit').texts).toEqual(['stored']);
  });

  it('right behind PRODUCER_SUCCESS, in one piece with it: no producer that is ready and dead', async () => {
    const broker = await world.broker();
    let cuts = 3;
    const remove = broker.onSend((command, connection) => {
      if (command.type !== 'producerSuccess' || cuts === 0) return undefined;
      cuts--;
      setImmediate(() => connection.cut());
      return undefined;
    });
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    const results = Promise.all(['a', 'b', 'c'].map((value) => producer.send(text(value))));
    await broker.waitFor(() => cuts === 0);
    remove();
    await results;
    expect([...new Set(broker.topic('unit').texts)]).toEqual(['a', 'b', 'c']);
    expect(producer.state).toBe('ready');
  });

  it('CLOSE_PRODUCER in one piece with PRODUCER_SUCCESS reaches the producer', async () => {
    const broker = await world.broker();
    let closings = 2;
    broker.onSend((command, connection) => {
      if (command.type !== 'producerSuccess' || closings === 0) return undefined;
      closings--;
      const producer = connection.producers.get(0)!;
      producer.topic.producers.delete(producer.name);
      connection.producers.delete(0);
      const body = { producerId: 0, requestId: -1 };
      return [command, { type: 'closeProducer', body }];
    });
    const producer = await world.client(broker).createProducer({ topic: 'unit' });
    await producer.send(text('stored'));
    expect(broker.topic('unit').texts).toEqual(['stored']);
    expect(received(broker, 'producer')).toBe(3);
  });

  it('a PRODUCER without an answer is taken back, and the next try has a higher epoch', async () => {
    const broker = await world.broker();
    let withheld = 1;
    // The broker makes the producer; its answer never comes.
    broker.onSend((command) => (command.type === 'producerSuccess' && withheld-- > 0 ? 'withhold' : undefined));
    const producer = await world
      .client(broker, { operationTimeout: 100 })
      .createProducer({ topic: 'unit', name: 'gateway' });
    await producer.send(text('stored'));
    const epochs = broker.log.received('producer').map(({ epoch }) => epoch ?? 0);
    expect(epochs.length).toBeGreaterThanOrEqual(2);
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
    const order = broker.log.entries
      .filter(({ direction, type }) => direction === 'in' && (type === 'producer' || type === 'closeProducer'))
      .map(({ type }) => type);
    expect(order.slice(0, 3)).toEqual(['producer', 'closeProducer', 'producer']);
    expect(broker.allConnections).toHaveLength(1);
  });

  it("ServiceNotReady in a lookup is the lookup's: another producer on the connection does not notice", async () => {
    const broker = await world.broker();
    const client = world.client(broker);
    const other = await client.createProducer({ topic: 'other' });
    broker.failNext('lookupTopic', 'ServiceNotReady', 'not yet', 3);
    broker.failNext('producer', 'ServiceNotReady', 'not yet', 3);
    const [producer] = await Promise.all([client.createProducer({ topic: 'unit' }), other.send(text('a'))]);
    await Promise.all([producer.send(text('b')), other.send(text('c'))]);
    expect(broker.allConnections).toHaveLength(1);
    expect(other.stats).toMatchObject({ connects: 1, succeeded: 2 });
  });
});
