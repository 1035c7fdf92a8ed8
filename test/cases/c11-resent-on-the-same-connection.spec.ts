import { handedOut, ids, startPair } from '../unit/mqtt/harness.js';

describe.each([5, 4] as const)('C11: MQTT %i, a message sent again on the same connection', (protocolVersion) => {
  it.each([true, false])('starts nothing and is acknowledged once (DUP %s)', async (dup) => {
    const { broker, client } = await startPair({ protocolVersion });
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    client.start(client.handedOut[0]);
    const [{ messageId }] = broker.log.sent('publish');
    broker.connection!.resend(messageId!, { dup });
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    await broker.log.waitFor(() => client.stats.bound === 1);

    client.acknowledge(client.handedOut[0]);
    await broker.log.waitForReceived('puback', 1);
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(client.handedOut).toHaveLength(1);
    expect(ids(broker, 'puback')).toEqual([messageId]);
  });

  it('runs a failed one again', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    const [delivery] = client.handedOut;
    client.fail(delivery);
    broker.connection!.resend(broker.log.sent('publish')[0].messageId!);
    await handedOut(broker, client, 2);
    expect(client.handedOut[1]).toBe(delivery);
    expect(delivery.attempt).toBe(2);
  });
});

it('C11: with strictResends it is a protocol error', async () => {
  const { broker, client } = await startPair({ strictResends: true, protocolVersion: 5 });
  broker.publish('t/a', 'x');
  await handedOut(broker, client, 1);
  broker.connection!.resend(broker.log.sent('publish')[0].messageId!, { dup: true });
  const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
  expect(reasonCode).toBe(0x82);
});

it('C11: with strictResends also between PUBREC and PUBREL', async () => {
  const { broker, client } = await startPair({ strictResends: true, protocolVersion: 5 });
  broker.withhold('pubrel');
  broker.publish('t/a', 'x', { qos: 2 });
  await handedOut(broker, client, 1);
  client.acknowledge(client.handedOut[0]);
  await broker.log.waitForReceived('pubrec');
  const [{ messageId }] = broker.log.sent('publish');
  broker.connection!.send({
    cmd: 'publish',
    topic: 't/a',
    payload: 'x',
    qos: 2,
    dup: true,
    retain: false,
    messageId: messageId!,
  });
  const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
  expect(reasonCode).toBe(0x82);
});

it('C11: another message under a live identifier is a protocol error', async () => {
  const { broker, client } = await startPair({ protocolVersion: 5 });
  broker.publish('t/a', 'x');
  await handedOut(broker, client, 1);
  const [{ messageId }] = broker.log.sent('publish');
  broker.connection!.send({
    cmd: 'publish',
    topic: 't/a',
    payload: 'y',
    qos: 1,
    dup: true,
    retain: false,
    messageId: messageId!,
  });
  const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
  expect(reasonCode).toBe(0x82);
});
