import { handedOut, ids, startPair } from '../unit/mqtt/harness.js';

it('C04: a QoS 1 message that never ends does not hold back QoS 2', async () => {
  const { broker, client } = await startPair();
  broker.publish('t/a', 'stuck', { qos: 1 });
  broker.publish('t/a', 'two', { qos: 2 });
  broker.publish('t/a', 'three', { qos: 2 });
  await handedOut(broker, client, 3);
  const [, two, three] = client.handedOut;
  const [, idTwo, idThree] = broker.log.sent('publish').map(({ messageId }) => messageId ?? 0);

  client.acknowledge(three);
  client.acknowledge(two);
  await broker.log.waitForReceived('pubcomp', 2);
  expect(ids(broker, 'pubrec')).toEqual([idTwo, idThree]);
  expect(ids(broker, 'puback')).toEqual([]);
});
