import { handedOut, ids, startPair } from '../harness.js';

it.each([5, 4] as const)(
  'MQTT %i never acknowledges a new message with the end of an old one',
  async (protocolVersion) => {
    const { broker, client } = await startPair({ protocolVersion });
    const lost = new Promise((resolve) => client.on('sessionLost', resolve));
    broker.publish('t/a', 'old');
    await handedOut(broker, client, 1);
    const [old] = client.handedOut;
    client.start(old);
    broker.cut();
    broker.dropSession('client');
    expect(await lost).toEqual({ orphaned: 1 });
    expect(old).toMatchObject({ state: 'running', orphaned: true });

    await broker.log.waitForReceived('subscribe', 2);
    broker.publish('t/a', 'new');
    await handedOut(broker, client, 2);
    const [, fresh] = client.handedOut;
    const [first, second] = broker.log.sent('publish').map(({ messageId }) => messageId ?? 0);
    expect(second).toBe(first);

    expect(client.acknowledge(old)).toBe(true);
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(ids(broker, 'puback')).toEqual([]);
    expect(client.stats.staleAcknowledgements).toBe(1);

    client.acknowledge(fresh);
    await broker.log.waitForReceived('puback', 1);
    expect(ids(broker, 'puback')).toEqual([second]);
  },
);
