import { handedOut, newClient, startPair } from '../unit/mqtt/harness.js';

it('C05: what was acknowledged in the turn of close() leaves before DISCONNECT', async () => {
  const { broker, client } = await startPair();
  for (let i = 0; i < 3; i++) broker.publish('t/a', String(i));
  await handedOut(broker, client, 3);
  const since = broker.log.position;
  for (const delivery of client.handedOut) client.acknowledge(delivery);
  await client.close();
  expect(broker.log.summary({ since }).filter((entry) => entry.startsWith('>'))).toEqual([
    '>puback',
    '>puback',
    '>puback',
    '>disconnect',
    '>close',
  ]);

  const again = newClient(broker);
  const { sessionPresent } = await again.connect();
  expect(sessionPresent).toBe(true);
  await again.publish({ topic: 'marker', payload: '', qos: 1 });
  expect(again.handedOut).toEqual([]);
});
