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

// mochi 2.7.9 has one table for our identifiers and its own, so the first SUBSCRIBE of a resumed session meets those of its
// un-acknowledged deliveries.
describe('a server that takes the identifiers of its deliveries for ours', () => {
  const restarted = async (protocolVersion: 4 | 5) => {
    const refusal = protocolVersion === 5 ? 0x91 : 0x80;
    const broker = await startBroker();
    const first = newClient(broker, { protocolVersion, clientId: 'app' });
    await first.connect();
    await first.subscribe([{ filter: 'a', qos: 1 }]);
    for (let i = 0; i < 5; i += 1) broker.publish('a', String(i), { qos: 1 });
    await broker.waitFor(() => broker.log.sent('publish').length === 5);
    first.destroy();
    const lowest = 60_000;
    broker.onSend((packet) => {
      if (packet.cmd === 'suback' && (packet.messageId ?? 0) < lowest)
        return { ...packet, granted: [refusal, refusal] };
      if (packet.cmd === 'unsuback' && protocolVersion === 5 && (packet.messageId ?? 0) < lowest) {
        return { ...packet, granted: [refusal] };
      }
      return undefined;
    });
    const second = newClient(broker, { protocolVersion, clientId: 'app' });
    await second.connect();
    return { broker, second };
  };
  const filters = [
    { filter: 'a', qos: 1 },
    { filter: 'b', qos: 1 },
  ] as const;

  it.each([5, 4] as const)('MQTT version %d: is asked again, with one that it does not use', async (version) => {
    const { broker, second } = await restarted(version);
    expect((await second.subscribe(filters)).map(({ reasonCode }) => reasonCode)).toEqual([1, 1]);
    // One of the first client, two of the second.
    expect(broker.log.received('subscribe').map(({ messageId }) => messageId)).toEqual([1, expect.any(Number), 65_535]);
    // And goes on that way: a PUBLISH with the identifier of a delivery would make mochi forget the delivery.
    await second.publish({ topic: 'other', payload: 'x', qos: 1 });
    expect(broker.log.received('publish').map(({ messageId }) => messageId)).toEqual([65_534]);
  });

  it('an UNSUBSCRIBE as well', async () => {
    const { broker, second } = await restarted(5);
    // The broker of the tests had unsubscribed it at the first one.
    expect((await second.unsubscribe(['a'])).map(({ reasonCode }) => reasonCode)).toEqual([0x11]);
    expect(broker.log.received('unsubscribe').map(({ messageId }) => messageId)).toEqual([expect.any(Number), 65_535]);
  });

  it('is asked twice, not for ever', async () => {
    const broker = await startBroker({ subackCode: () => 0x91 });
    const client = newClient(broker, { protocolVersion: 5 });
    await client.connect();
    expect((await client.subscribe([{ filter: 'a', qos: 1 }]))[0].reasonCode).toBe(0x91);
    expect(broker.log.received('subscribe')).toHaveLength(2);
  });
});

describe('asked again with another identifier: not what was overtaken meanwhile', () => {
  const resumed = async (refused: 'suback' | 'unsuback') => {
    const broker = await startBroker();
    const first = newClient(broker, { protocolVersion: 5, clientId: 'app' });
    await first.connect();
    await first.subscribe([{ filter: 'a', qos: 1 }]);
    first.destroy();
    const stop = broker.onSend((packet) => {
      if (packet.cmd !== refused) return undefined;
      stop();
      return { ...packet, granted: [0x91] };
    });
    const client = newClient(broker, { protocolVersion: 5, clientId: 'app' });
    await client.connect();
    return { broker, client };
  };

  it('an UNSUBSCRIBE does not undo the SUBSCRIBE behind it', async () => {
    const { broker, client } = await resumed('unsuback');
    const [left, granted] = await Promise.all([client.unsubscribe(['a']), client.subscribe([{ filter: 'a', qos: 1 }])]);
    expect([left[0].reasonCode, granted[0].reasonCode]).toEqual([0x91, 1]);
    broker.publish('a', 'x', { qos: 1 });
    await broker.log.waitFor(() => client.handedOut.length === 1);
  });

  it('a SUBSCRIBE does not undo the UNSUBSCRIBE behind it', async () => {
    const { broker, client } = await resumed('suback');
    const [granted, left] = await Promise.all([client.subscribe([{ filter: 'a', qos: 1 }]), client.unsubscribe(['a'])]);
    expect([granted[0].reasonCode, left[0].reasonCode]).toEqual([0x91, 0]);
    expect(broker.log.received('subscribe')).toHaveLength(2);
    expect(broker.session('app')?.subscriptions.size).toBe(0);
  });
});
