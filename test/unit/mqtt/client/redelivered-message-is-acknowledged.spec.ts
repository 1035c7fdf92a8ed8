import { cutAndReconnect, handedOut, ids, startPair } from '../harness.js';

it.each([5, 4] as const)(
  'MQTT %i acknowledges a failed message after its redelivery, and goes on',
  async (protocolVersion) => {
    const { broker, client } = await startPair({ protocolVersion, receiveMaximum: 1 });
    broker.publish('t/a', 'first');
    await handedOut(broker, client, 1);
    const [delivery] = client.handedOut;
    client.start(delivery);
    client.fail(delivery);

    await cutAndReconnect(broker);
    await handedOut(broker, client, 2);
    expect(client.handedOut[1]).toBe(delivery);
    expect(delivery).toMatchObject({ state: 'waiting', attempt: 2 });
    client.start(delivery);
    client.acknowledge(delivery);
    await broker.log.waitForReceived('puback', 1, { connection: 2 });

    broker.publish('t/a', 'second');
    await handedOut(broker, client, 3);
    client.acknowledge(client.handedOut[2]);
    await broker.log.waitForReceived('puback', 2, { connection: 2 });
    expect(ids(broker, 'puback', 1)).toEqual([]);
    expect(client.window.used).toBe(0);
    expect(client.stats.deliveries).toEqual({ waiting: 0, running: 0, retrying: 0, succeeded: 0, failed: 0 });
  },
);

it('nine behind a failed head are acknowledged after the resume without a second run', async () => {
  const { broker, client } = await startPair();
  for (let i = 0; i < 10; i++) broker.publish('t/a', String(i));
  await handedOut(broker, client, 10);
  const [head, ...behind] = client.handedOut;
  client.fail(head);
  for (const delivery of behind) client.acknowledge(delivery);
  client.reconnect('the head failed');

  await handedOut(broker, client, 11);
  expect(client.handedOut[10]).toBe(head);
  client.acknowledge(head);
  await broker.log.waitForReceived('puback', 10);
  const resent = broker.log.sent('publish', { connection: 2 }).map(({ messageId }) => messageId);
  expect(ids(broker, 'puback', 2)).toEqual(resent);
  expect(client.handedOut).toHaveLength(11);
  expect(broker.violations).toEqual([]);
});
