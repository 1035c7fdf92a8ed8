import { cutAndReconnect, handedOut, ids, startPair } from '../harness.js';

it.each([5, 4] as const)(
  'MQTT %i sends no PUBREC for a failed QoS 2 message, and runs it again',
  async (protocolVersion) => {
    const { broker, client } = await startPair({ protocolVersion });
    broker.publish('t/a', 'x', { qos: 2 });
    await handedOut(broker, client, 1);
    client.start(client.handedOut[0]);
    client.fail(client.handedOut[0]);
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(ids(broker, 'pubrec')).toEqual([]);

    await cutAndReconnect(broker);
    await handedOut(broker, client, 2);
    client.acknowledge(client.handedOut[1]);
    await broker.log.waitForReceived('pubcomp', 1);
    expect(ids(broker, 'pubrec', 2)).toHaveLength(1);
    expect(client.handedOut[1].attempt).toBe(2);
  },
);

it('after PUBREC a copy is only acknowledged again', async () => {
  const { broker, client } = await startPair();
  const stop = broker.onReceive((packet) => (packet.cmd === 'pubrec' ? 'ignore' : undefined));
  broker.publish('t/a', 'x', { qos: 2 });
  await handedOut(broker, client, 1);
  client.acknowledge(client.handedOut[0]);
  await broker.log.waitForReceived('pubrec', 1);
  stop();
  await cutAndReconnect(broker);
  await broker.log.waitForReceived('pubcomp', 1);
  expect(client.handedOut).toHaveLength(1);
  expect(ids(broker, 'pubrec', 2)).toHaveLength(1);
});
