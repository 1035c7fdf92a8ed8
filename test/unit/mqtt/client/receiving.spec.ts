import { cutAndReconnect, handedOut, ids, newClient, startBroker, startPair } from '../harness.js';

describe('messages that arrive before SUBSCRIBE', () => {
  it.each([5, 4] as const)('MQTT %i: a resumed session delivers at once', async (protocolVersion) => {
    const { broker, client } = await startPair({ protocolVersion });
    await client.close();
    broker.publish('t/a', 'queued');
    const again = newClient(broker, { protocolVersion });
    await again.connect();
    await handedOut(broker, again, 1);
    expect(again.payloads).toEqual(['queued']);
    expect(broker.log.received('subscribe')).toHaveLength(1);
  });
});

describe('without DUP on redelivery (aedes)', () => {
  it('a copy is a new message; the failed one is dropped, the running one ends without an acknowledgement', async () => {
    const { broker, client } = await startPair({}, { dupOnResend: false });
    broker.publish('t/a', 'failed');
    broker.publish('t/a', 'running');
    await handedOut(broker, client, 2);
    const [failed, running] = client.handedOut;
    client.fail(failed);
    client.start(running);
    await cutAndReconnect(broker);
    await handedOut(broker, client, 4);
    expect(client.dropped).toEqual([failed]);
    expect(failed.state).toBe('settled');
    expect(client.acknowledge(running)).toBe(true);
    expect(client.stats).toMatchObject({ superseded: 2, staleAcknowledgements: 1 });
    // Said once, with the cure.
    expect(client.warnings.filter((text) => text.includes('bindWithoutDup: true'))).toHaveLength(1);
    client.acknowledge(client.handedOut[2]);
    client.acknowledge(client.handedOut[3]);
    await broker.log.waitForReceived('puback', 2);
    expect(broker.violations).toEqual([]);
  });

  it('another message under the identifier of a held one: what we hold is the only copy left', async () => {
    const { broker, client } = await startPair();
    for (const text of ['failed', 'running', 'done']) broker.publish('t/a', text);
    await handedOut(broker, client, 3);
    const [failed, running, done] = client.handedOut;
    client.fail(failed);
    client.start(running);
    client.acknowledge(done);
    // The session is lost and made anew, and nothing of that reaches us: the CONNACK goes with its connection.
    broker.dropSession('client');
    const stop = broker.onSend((packet, connection) => {
      if (packet.cmd !== 'connack') return undefined;
      stop();
      connection.cut();
      return 'withhold';
    });
    broker.cut();
    await broker.log.waitFor(
      () => broker.connections.some((one) => one.number === 3 && one.session !== undefined) || undefined,
    );
    await client.subscribe([{ filter: 'u', qos: 1 }]);
    for (const text of ['new 1', 'new 2', 'new 3']) broker.publish('u', text);
    await handedOut(broker, client, 6);
    expect(client.payloads.slice(3)).toEqual(['new 1', 'new 2', 'new 3']);
    expect(client.dropped).toEqual([]);
    expect([failed, running].map(({ state, orphaned }) => [state, orphaned])).toEqual([
      ['failed', true],
      ['running', true],
    ]);
    expect(client.start(failed)).toBe(true);
    expect(client.fail(running)).toBe(true);
    expect(running.state).toBe('failed');
    client.acknowledge(failed);
    for (const delivery of client.handedOut.slice(3)) client.acknowledge(delivery);
    await broker.log.waitForReceived('puback', 3);
    expect(client.stats).toMatchObject({ superseded: 3, staleAcknowledgements: 2 });
    expect(broker.violations).toEqual([]);
  });

  it('bindWithoutDup recognises it', async () => {
    const { broker, client } = await startPair({ bindWithoutDup: true }, { dupOnResend: false });
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    client.start(client.handedOut[0]);
    await cutAndReconnect(broker);
    await broker.log.waitFor(() => client.stats.bound === 1);
    client.acknowledge(client.handedOut[0]);
    await broker.log.waitForReceived('puback', 1);
    expect(client.handedOut).toHaveLength(1);
  });
});

describe('an acknowledgement that was written', () => {
  it('ends the memory of its identifier: a copy after it is a new message', async () => {
    const { broker, client } = await startPair();
    const stop = broker.onReceive((packet) => (packet.cmd === 'puback' ? 'ignore' : undefined));
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    client.acknowledge(client.handedOut[0]);
    await broker.log.waitForReceived('puback', 1);
    stop();
    await cutAndReconnect(broker);
    await handedOut(broker, client, 2);
    expect(client.handedOut[1]).not.toBe(client.handedOut[0]);
  });

  it('carries reason code and properties in MQTT 5, and neither in 3.1.1', async () => {
    for (const protocolVersion of [5, 4] as const) {
      const { broker, client } = await startPair({ protocolVersion });
      broker.publish('t/a', 'x');
      await handedOut(broker, client, 1);
      client.acknowledge(client.handedOut[0], 0x83, { reasonString: 'no' });
      const [puback] = await broker.log.waitForReceived('puback', 1);
      if (protocolVersion === 5) expect(puback).toMatchObject({ reasonCode: 0x83, properties: { reasonString: 'no' } });
      else expect(broker.log.of('puback')[0].bytes).toHaveLength(4);
    }
  });

  it("leaves its properties out where the server's Maximum Packet Size has no room for them", async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 }, { limits: { maximumPacketSize: 40 } });
    broker.publish('t/a', '1');
    broker.publish('t/a', '2');
    await handedOut(broker, client, 2);
    const [first, second] = client.handedOut;
    client.acknowledge(first, 0x83, { reasonString: 'no' });
    client.acknowledge(second, 0x83, { reasonString: 'x'.repeat(40) });
    const told = (await broker.log.waitForReceived('puback', 2)).map(({ reasonCode, properties }) => [
      reasonCode,
      properties?.reasonString,
    ]);
    expect(told).toEqual([
      [0x83, 'no'],
      [0x83, undefined],
    ]);
  });

  it('that no packet can carry is refused at the call, and the delivery is as it was', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.publish('t/a', 'x');
    broker.publish('t/b', 'x', { qos: 2 });
    await handedOut(broker, client, 2);
    const local = expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL' });
    for (const delivery of client.handedOut) {
      expect(() => client.acknowledge(delivery, 0x92)).toThrow(local);
      expect(() => client.acknowledge(delivery, 0, { userProperties: [['a', 1 as never]] })).toThrow(local);
      expect(() => client.acknowledge(delivery, 0, { contentType: 'x' })).toThrow(local);
      expect(delivery.state).toBe('waiting');
      expect(client.acknowledge(delivery)).toBe(true);
    }
    await broker.log.waitForReceived('puback', 1);
    await broker.log.waitForReceived('pubcomp', 1);
    expect(client.errors).toEqual([]);
  });

  it('a refused QoS 2 message is over: no PUBREL is awaited', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.publish('t/a', 'x', { qos: 2 });
    await handedOut(broker, client, 1);
    client.acknowledge(client.handedOut[0], 0x99);
    await broker.log.waitForReceived('pubrec', 1);
    expect(client.window.used).toBe(0);
  });
});

describe('the owner', () => {
  it('may call everything at any time; what does not fit is refused and counted', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    const [delivery] = client.handedOut;
    expect(client.retry(delivery)).toBe(false);
    expect(client.start(delivery)).toBe(true);
    expect(client.start(delivery)).toBe(false);
    expect(client.retry(delivery)).toBe(true);
    expect(client.start(delivery)).toBe(true);
    expect(client.acknowledge(delivery)).toBe(true);
    expect(client.acknowledge(delivery)).toBe(false);
    expect(client.fail(delivery)).toBe(false);
    expect(client.stats.refusedTransitions).toBe(3);
    expect(delivery.state).toBe('succeeded');
    await broker.log.waitForReceived('puback', 1);
    expect(delivery.state).toBe('settled');
  });

  it('a failed QoS 0 message is over', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', 'x', { qos: 0 });
    await handedOut(broker, client, 1);
    client.fail(client.handedOut[0]);
    expect(client.handedOut[0].state).toBe('settled');
  });

  it('sees the oldest one and the window', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', '1');
    broker.publish('t/a', '2', { qos: 2 });
    await handedOut(broker, client, 2);
    expect(client.window).toEqual({ used: 2, size: 128 });
    expect(client.oldestUnacknowledged()?.delivery).toBe(client.handedOut[0]);
    client.acknowledge(client.handedOut[0]);
    expect(client.oldestUnacknowledged()?.delivery).toBe(client.handedOut[1]);
  });

  it('can run a failed one again that the broker has forgotten', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    const [delivery] = client.handedOut;
    client.fail(delivery);
    expect(client.unclaimed()).toEqual([]);
    // The broker loses the session behind a CONNACK that does not arrive, and the next one says "session present".
    const stop = broker.onSend((packet, connection) => {
      if (packet.cmd !== 'connack') return undefined;
      connection.cut();
      return 'withhold';
    });
    broker.cut();
    broker.dropSession('client');
    await broker.log.waitForReceived('connect', 2);
    stop();
    await broker.log.waitFor(() => client.status.state === 'connected');
    expect(client.unclaimed()).toEqual([delivery]);
    expect(client.start(delivery)).toBe(true);
    expect(delivery.attempt).toBe(2);
    expect(client.acknowledge(delivery)).toBe(true);
  });
});

describe('backpressure', () => {
  it('pauseIntake() stops deliveries and the reading of the socket; resumeIntake() goes on', async () => {
    const { broker, client } = await startPair();
    client.pauseIntake();
    for (let i = 0; i < 10; i++) broker.publish('t/a', String(i));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(client.handedOut).toEqual([]);
    expect(client.status.readingPaused).toBe(true);
    client.resumeIntake();
    await handedOut(broker, client, 10);
    expect(client.stats.pausedMs).toBeGreaterThan(0);
  });

  it('a silent server is no dead link while we do not read', async () => {
    const { broker, client } = await startPair({ keepAlive: 1, pingTimeout: 50 });
    client.pauseIntake();
    await broker.log.waitForReceived('pingreq', 2);
    expect(broker.log.received('connect')).toHaveLength(1);
    client.resumeIntake();
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
  });

  it('3.1.1, which has no window: reading pauses when receiveMaximum is reached', async () => {
    const { broker, client } = await startPair({ protocolVersion: 4, receiveMaximum: 5 });
    for (let i = 0; i < 50; i++) broker.publish('t/a', String(i));
    await handedOut(broker, client, 5);
    await broker.log.waitFor(() => client.status.readingPaused);
    expect(client.handedOut).toHaveLength(5);
    client.onDelivery = (delivery) => {
      client.handedOut.push(delivery);
      client.acknowledge(delivery);
    };
    for (const delivery of client.handedOut.slice()) client.acknowledge(delivery);
    await broker.log.waitForReceived('puback', 50);
    expect(ids(broker, 'puback')).toEqual(broker.log.sent('publish').map(({ messageId }) => messageId));
  });

  it('a broker that overruns the Receive Maximum is tolerated, or refused where that is asked for', async () => {
    const tolerant = await startPair({ receiveMaximum: 2 }, { overrun: 3 });
    for (let i = 0; i < 5; i++) tolerant.broker.publish('t/a', String(i));
    await handedOut(tolerant.broker, tolerant.client, 3);
    expect(tolerant.client.warnings.join()).toContain('overruns the Receive Maximum of 2');
    for (const delivery of tolerant.client.handedOut.slice()) tolerant.client.acknowledge(delivery);
    await handedOut(tolerant.broker, tolerant.client, 5);

    const strict = await startPair(
      { receiveMaximum: 2, strictReceiveMaximum: true, protocolVersion: 5 },
      { overrun: 3 },
    );
    for (let i = 0; i < 5; i++) strict.broker.publish('t/a', String(i));
    const [{ reasonCode }] = await strict.broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x93);
  });

  it('the bound of that is overrunLimit: while an answer is awaited, reading goes on to it and no further', async () => {
    const { broker, client } = await startPair(
      { receiveMaximum: 2, overrunLimit: 10, protocolVersion: 5 },
      { overrun: 100 },
    );
    const stop = broker.withhold('puback');
    const published = client.publish({ topic: 'p', payload: '', qos: 1 });
    await broker.log.waitForReceived('publish', 1);
    for (let i = 0; i < 11; i++) broker.publish('t/a', String(i));
    const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x93);
    expect(client.handedOut).toHaveLength(10);
    // The session stays: with the answer there, and the oldest acknowledged, nothing is lost.
    stop();
    client.onDelivery = (delivery) => {
      client.handedOut.push(delivery);
      client.acknowledge(delivery);
    };
    for (const delivery of client.handedOut.slice()) client.acknowledge(delivery);
    await published;
    await handedOut(broker, client, 11);
    expect(client.payloads).toEqual(Array.from({ length: 11 }, (_, i) => String(i)));
    expect(client.stats.sessionsLost).toBe(0);
  });

  it('drain() hands out nothing new; what came stays with the broker', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', '1');
    await handedOut(broker, client, 1);
    await client.drain();
    expect(client.status.state).toBe('draining');
    broker.publish('t/a', '2');
    client.acknowledge(client.handedOut[0]);
    await broker.log.waitForReceived('puback', 1);
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(client.handedOut).toHaveLength(1);
    await client.close();
    expect(client.stats.abandoned).toBe(0);
    expect(broker.session('client')).toBeDefined();
  });

  it('resumeIntake() ends a drain() and hands out what came meanwhile', async () => {
    const { broker, client } = await startPair();
    await client.drain();
    broker.publish('t/a', '1');
    const published = client.publish({ topic: 'marker', payload: '', qos: 1 });
    await published;
    expect(client.handedOut).toEqual([]);
    client.resumeIntake();
    await handedOut(broker, client, 1);
    expect(client.status.state).toBe('connected');
  });
});

describe('subscriptions', () => {
  it('carry their options and identifiers, one identifier in a packet', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { protocolVersion: 5 });
    await client.connect();
    await client.subscribe([
      { filter: 'a', qos: 1, noLocal: true, retainAsPublished: true, retainHandling: 2, subscriptionIdentifier: 7 },
      { filter: 'b', qos: 0, subscriptionIdentifier: 7 },
      { filter: 'c', qos: 2 },
    ]);
    const packets = broker.log.received('subscribe');
    expect(packets.map(({ properties }) => properties?.subscriptionIdentifier)).toEqual([7, undefined]);
    expect(packets[0].subscriptions).toMatchObject([
      { topic: 'a', qos: 1, nl: true, rap: true, rh: 2 },
      { topic: 'b', qos: 0, nl: false, rap: false, rh: 0 },
    ]);
  });

  it('go out in batches, and wait for a connection', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { subscribeBatchSize: 10 });
    const subscribed = client.subscribe(Array.from({ length: 25 }, (_, i) => ({ filter: `f/${i}`, qos: 1 as const })));
    await client.connect();
    expect(await subscribed).toHaveLength(25);
    expect(broker.log.received('subscribe').map(({ subscriptions }) => subscriptions.length)).toEqual([10, 10, 5]);
  });

  it('on a resumed session do not bring retained messages a second time', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    await client.close();
    const again = newClient(broker, { protocolVersion: 5 });
    await again.connect();
    await again.subscribe([{ filter: 't/#', qos: 2 }]);
    expect(broker.log.received('subscribe')[1].subscriptions).toMatchObject([{ rh: 1 }]);
  });

  it('an answer that does not come is an error', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { subscribeTimeout: 50 });
    await client.connect();
    broker.withhold('suback');
    await expect(client.subscribe([{ filter: 'a', qos: 1 }])).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
  });

  it('an answer for another number of filters is a protocol error', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { protocolVersion: 5 });
    await client.connect();
    broker.onSend((packet) => (packet.cmd === 'suback' ? { ...packet, granted: [1, 1] } : undefined));
    client.subscribe([{ filter: 'a', qos: 1 }]).catch(() => undefined);
    const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x82);
  });

  it.each([
    [{ filter: 'a/#/b', qos: 1 as const }, /'#' must be alone in the last level/],
    [{ filter: '$share/g/a', qos: 1 as const, noLocal: true }, /noLocal/],
    [{ filter: 'a', qos: 3 as never }, /QoS must be/],
    [{ filter: 'a', qos: 1 as const, subscriptionIdentifier: 0 }, /identifier/],
  ])('what cannot be asked for is refused here: %j', async (subscription, text) => {
    const { client } = await startPair();
    await expect(client.subscribe([subscription])).rejects.toThrow(text);
  });

  it('what the server says it lacks is refused here, at the call and where it waited for a connection', async () => {
    const limits = { wildcardSubscriptionAvailable: false, sharedSubscriptionAvailable: false };
    const broker = await startBroker({ limits });
    const client = newClient(broker, { protocolVersion: 5 });
    const early = client.subscribe(['a', 'a/+', '$share/g/a'].map((filter) => ({ filter, qos: 1 as const })));
    await client.connect();
    expect((await early).map(({ filter, reasonCode }) => [filter, reasonCode])).toEqual([
      ['a', 1],
      ['a/+', 0xa2],
      ['$share/g/a', 0x9e],
    ]);
    await expect(client.subscribe([{ filter: '#', qos: 1 }])).rejects.toThrow(/no wildcard subscriptions/);
    await expect(client.subscribe([{ filter: '$share/g/b', qos: 1 }])).rejects.toThrow(/no shared subscriptions/);
    expect(broker.log.received('subscribe').flatMap(({ subscriptions }) => subscriptions)).toMatchObject([
      { topic: 'a' },
    ]);
  });

  it('after a failover to a server that lacks them they are named, and come back with one that has them', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.options.limits = { wildcardSubscriptionAvailable: false };
    broker.dropSession('client');
    await cutAndReconnect(broker);
    await broker.log.waitFor(() => client.errors.length > 0);
    expect(client.status.refusedFilters).toEqual(['t/#']);
    expect(broker.log.received('subscribe')).toHaveLength(1);
    broker.options.limits = {};
    broker.dropSession('client');
    await cutAndReconnect(broker);
    await broker.log.waitFor(() => client.status.refusedFilters.length === 0);
    expect(broker.log.received('subscribe')).toHaveLength(2);
  });

  it('open ones are rejected by close()', async () => {
    const { broker, client } = await startPair();
    broker.withhold('suback', 'unsuback');
    const open = [client.subscribe([{ filter: 'a', qos: 1 }]), client.unsubscribe(['b'])].map((promise) =>
      expect(promise).rejects.toMatchObject({ code: 'ERR_CLOSED' }),
    );
    await client.close();
    await Promise.all(open);
  });
});

describe('topic aliases of the server', () => {
  it('are resolved, also for the copy on the next connection', async () => {
    const { broker, client } = await startPair(
      { protocolVersion: 5, topicAliasMaximum: 16 },
      { useTopicAliases: true },
    );
    broker.publish('t/long/topic', '1');
    broker.publish('t/long/topic', '2');
    await handedOut(broker, client, 2);
    expect(client.handedOut.map(({ message }) => message.topic)).toEqual(['t/long/topic', 't/long/topic']);
    expect(broker.log.sent('publish')[1].topic).toBe('');
    for (const delivery of client.handedOut) client.start(delivery);
    await cutAndReconnect(broker);
    await broker.log.waitFor(() => client.stats.bound === 2);
    expect(client.handedOut).toHaveLength(2);
  });

  it('one out of range ends the connection with 0x94', async () => {
    const { broker } = await startPair({ protocolVersion: 5, topicAliasMaximum: 2 });
    broker.connection!.send({
      cmd: 'publish',
      topic: 't/a',
      payload: '',
      qos: 0,
      dup: false,
      retain: false,
      properties: { topicAlias: 3 },
    });
    const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x94);
  });
});
