import { unique } from './harness.js';
import { describeEachBroker } from './mqtt-live.js';

// mochi 2.7.9 has one table for the identifiers of both sides.
describeEachBroker('packet identifiers of ours and of deliveries that are not acknowledged', (live) => {
  it('publishes and subscriptions meanwhile make the broker forget none', async () => {
    const topic = unique('identifiers');
    const clientId = unique('identifiers');
    const client = await live().connected({ clientId });
    client.hold = true;
    await client.subscribe([{ filter: topic, qos: 1 }]);
    const peer = await live().peer();
    const payloads = ['0', '1', '2', '3', '4'];
    for (const payload of payloads) await peer.client.publishAsync(topic, payload, { qos: 1 });
    await client.received(payloads.length);
    for (let i = 0; i < payloads.length; i += 1) {
      await client.publish({ topic: unique('other'), payload: 'x', qos: 1 });
      const grants = await client.subscribe([{ filter: unique('other'), qos: 1 }]);
      expect(grants.map(({ reasonCode }) => reasonCode)).toEqual([1]);
    }
    client.destroy();

    // Another process: it does not know what the broker has under way.
    const next = live().client({ clientId });
    expect(await next.connect()).toMatchObject({ sessionPresent: true });
    const grants = await next.subscribe([{ filter: unique('new'), qos: 1 }]);
    expect(grants.map(({ reasonCode }) => reasonCode)).toEqual([1]);
    await next.received(payloads.length);
    expect([...next.payloads].sort()).toEqual(payloads);
  });
});
