import { handedOut, startPair } from '../harness.js';

it('a new QoS 2 message under an identifier of a lost session is handled', async () => {
  const { broker, client } = await startPair();
  broker.withhold('pubrel');
  broker.publish('t/a', 'old', { qos: 2 });
  await handedOut(broker, client, 1);
  client.acknowledge(client.handedOut[0]);
  await broker.log.waitForReceived('pubrec', 1);

  broker.cut();
  broker.dropSession('client');
  await broker.log.waitForReceived('subscribe', 2);
  broker.publish('t/a', 'new', { qos: 2 });
  await handedOut(broker, client, 2);
  const [first, second] = broker.log.sent('publish').map(({ messageId }) => messageId);
  expect(second).toBe(first);
  expect(client.payloads).toEqual(['old', 'new']);
});
