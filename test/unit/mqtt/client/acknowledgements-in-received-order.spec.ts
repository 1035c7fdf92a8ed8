import { handedOut, ids, startPair } from '../harness.js';

it.each([5, 4] as const)(
  'MQTT %i acknowledges in received order, whatever the order of completion',
  async (protocolVersion) => {
    const { broker, client } = await startPair({ protocolVersion });
    for (let i = 1; i <= 5; i++) broker.publish('t/a', String(i));
    await handedOut(broker, client, 5);
    const byPayload = (text: string) => client.handedOut[client.payloads.indexOf(text)];
    const sent = broker.log.sent('publish').map(({ messageId }) => messageId ?? 0);

    client.acknowledge(byPayload('5'));
    client.acknowledge(byPayload('3'));
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(ids(broker, 'puback')).toEqual([]);

    client.acknowledge(byPayload('1'));
    await broker.log.waitForReceived('puback', 1);
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(ids(broker, 'puback')).toEqual(sent.slice(0, 1));

    client.acknowledge(byPayload('2'));
    await broker.log.waitForReceived('puback', 3);
    expect(ids(broker, 'puback')).toEqual(sent.slice(0, 3));

    client.acknowledge(byPayload('4'));
    await broker.log.waitForReceived('puback', 5);
    expect(ids(broker, 'puback')).toEqual(sent);
    expect(broker.violations).toEqual([]);
  },
);
