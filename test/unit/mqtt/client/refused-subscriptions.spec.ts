import { assertGranted, SubscriptionError } from '../exports.js';
import { newClient, startBroker } from '../harness.js';

it('a refused filter and a lower QoS are named', async () => {
  const broker = await startBroker({
    subackCode: (filter) => (filter === 'secret' ? 0x87 : filter === 'low' ? 0 : undefined),
  });
  const client = newClient(broker, { protocolVersion: 5 });
  await client.connect();
  const grants = await client.subscribe([
    { filter: 'secret', qos: 1 },
    { filter: 'fine', qos: 1 },
    { filter: 'low', qos: 1 },
  ]);
  expect(grants.map(({ reasonCode }) => reasonCode)).toEqual([0x87, 1, 0]);
  let error: unknown;
  try {
    assertGranted(grants);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(SubscriptionError);
  expect((error as SubscriptionError).code).toBe('ERR_SUBSCRIPTION');
  expect((error as SubscriptionError).refused).toEqual([
    { filter: 'secret', reasonCode: 0x87 },
    { filter: 'low', reasonCode: 0 },
  ]);
  expect((error as SubscriptionError).message).toMatch(/'secret'.*Not authorized.*'low'.*QoS 0 granted instead of 1/);
  expect(() => assertGranted(grants.slice(1), { allowLower: true })).not.toThrow();
});

it('the reason string of the server is told', async () => {
  const broker = await startBroker({ subackCode: () => 0x87 });
  broker.onSend((packet) =>
    packet.cmd === 'suback' ? { ...packet, properties: { reasonString: 'not for you' } } : undefined,
  );
  const client = newClient(broker, { protocolVersion: 5 });
  await client.connect();
  const grants = await client.subscribe([{ filter: 'a', qos: 1 }]);
  expect(grants).toEqual([{ filter: 'a', requestedQos: 1, reasonCode: 0x87, reasonString: 'not for you' }]);
});

it('3.1.1 tells a failure by 0x80', async () => {
  const broker = await startBroker({ subackCode: () => 0x80 });
  const client = newClient(broker, { protocolVersion: 4 });
  await client.connect();
  const grants = await client.subscribe([{ filter: 'a', qos: 1 }]);
  expect(() => assertGranted(grants)).toThrow(/'a'/);
});
