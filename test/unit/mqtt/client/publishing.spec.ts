import { type PublishResult } from '../../../../lib/mqtt/index.js';
import { cutAndReconnect, handedOut, newClient, startBroker, startPair } from '../harness.js';

/** `qos:payload:dup` of every publish received on a connection. */
function received(broker: Awaited<ReturnType<typeof startBroker>>, connection?: number): string[] {
  return broker.log
    .received('publish', connection === undefined ? {} : { connection })
    .map(({ payload, dup }) => `${payload.toString()}${dup ? ' dup' : ''}`);
}

describe.each([5, 4] as const)('MQTT %i', (protocolVersion) => {
  it('resolves on the socket, on PUBACK and on PUBCOMP', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    const results: PublishResult[] = [];
    for (const qos of [0, 1, 2] as const) results.push(await client.publish({ topic: 'p', payload: `q${qos}`, qos }));
    expect(results).toEqual([{ reasonCode: 0 }, { reasonCode: 0 }, { reasonCode: 0 }]);
    expect(received(broker)).toEqual(['q0', 'q1', 'q2']);
    expect(broker.log.received('pubrel')).toHaveLength(1);
  });

  it('sends again on a resumed session, in order, with DUP and the same identifiers, before new ones', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    const stop = broker.withhold('puback', 'pubrec');
    const open = [1, 2, 3].map((n) => client.publish({ topic: 'p', payload: String(n), qos: n === 2 ? 2 : 1 }));
    await broker.log.waitForReceived('publish', 3);
    stop();
    await broker.stopListening();
    broker.cut();
    await broker.log.waitFor(() => client.status.state === 'reconnecting');
    open.push(client.publish({ topic: 'p', payload: '4', qos: 1 }));
    await broker.listen();
    await Promise.all(open);
    expect(received(broker, 2)).toEqual(['1 dup', '2 dup', '3 dup', '4']);
    const idsOf = (connection: number) =>
      broker.log.received('publish', { connection }).map(({ messageId }) => messageId);
    expect(idsOf(2).slice(0, 3)).toEqual(idsOf(1));
  });

  it('sends only PUBREL after PUBREC', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    const stop = broker.withhold('pubcomp');
    const published = client.publish({ topic: 'p', payload: 'x', qos: 2 });
    await broker.log.waitForReceived('pubrel', 1);
    stop();
    await cutAndReconnect(broker);
    await published;
    expect(received(broker, 2)).toEqual([]);
    expect(broker.log.received('pubrel', { connection: 2 })).toHaveLength(1);
  });

  it.each(['republish', 'reject'] as const)('a lost session: %s', async (onSessionLost) => {
    const { broker, client } = await startPair({ protocolVersion, onSessionLost });
    const stop = broker.withhold('puback');
    const published = client.publish({ topic: 'p', payload: 'x', qos: 1 });
    const outcome = published.then(
      () => 'published',
      (error: { code: string; ambiguous: boolean }) => `${error.code} ${error.ambiguous}`,
    );
    await broker.log.waitForReceived('publish', 1);
    stop();
    broker.cut();
    broker.dropSession('client');
    if (onSessionLost === 'republish') {
      expect(await outcome).toBe('published');
      expect(received(broker, 2)).toEqual(['x']);
      expect(client.stats.possibleDuplicates).toBe(1);
    } else {
      expect(await outcome).toBe('ERR_SESSION_LOST true');
      expect(received(broker, 2)).toEqual([]);
    }
  });

  it('awaiting a publish inside a handler works, also while the intake is paused', async () => {
    const { broker, client } = await startPair({ protocolVersion });
    const done: string[] = [];
    client.onDelivery = (delivery) => {
      client.pauseIntake();
      void client.publish({ topic: 'out', payload: delivery.message.payload, qos: 1 }).then(() => {
        done.push(delivery.message.payload.toString());
        client.acknowledge(delivery);
        client.resumeIntake();
      });
    };
    for (let i = 0; i < 20; i++) broker.publish('t/a', String(i));
    await broker.log.waitFor(() => done.length === 20);
    await broker.log.waitForReceived('puback', 20);
  });
});

describe('limits of the server', () => {
  it('the Receive Maximum bounds what is under way; QoS 0 and other packets pass', async () => {
    const { broker, client } = await startPair({}, { limits: { receiveMaximum: 2 } });
    const stop = broker.withhold('puback');
    const open = [1, 2, 3, 4].map((n) => client.publish({ topic: 'p', payload: String(n), qos: 1 }));
    await client.publish({ topic: 'p', payload: 'zero' });
    await client.subscribe([{ filter: 'x', qos: 1 }]);
    expect(received(broker)).toEqual(['1', '2', 'zero']);
    stop();
    for (const { messageId } of broker.log.received('publish')) {
      if (messageId !== undefined) broker.connection!.send({ cmd: 'puback', messageId });
    }
    await Promise.all(open);
    expect(received(broker)).toEqual(['1', '2', 'zero', '3', '4']);
    expect(broker.violations).toEqual([]);
  });

  it('what they do not allow is refused here', async () => {
    const limits = { maximumQos: 1 as const, retainAvailable: false, maximumPacketSize: 100 };
    const { broker, client } = await startPair({}, { limits });
    const refused = async (message: Parameters<typeof client.publish>[0]) =>
      client.publish(message).catch((error: { code: string; message: string }) => `${error.code} ${error.message}`);
    expect(await refused({ topic: 'p', payload: '', qos: 2 })).toMatch(/ERR_LOCAL_PROTOCOL.*Maximum QoS is 1/);
    expect(await refused({ topic: 'p', payload: '', retain: true })).toMatch(/ERR_LOCAL_PROTOCOL.*retained/);
    expect(await refused({ topic: 'p', payload: 'x'.repeat(200), qos: 1 })).toMatch(/ERR_MESSAGE_TOO_LARGE.*100/);
    expect(await refused({ topic: 'a/#', payload: '' })).toMatch(/ERR_LOCAL_PROTOCOL.*wildcards/);
    expect(received(broker)).toEqual([]);
    expect(client.stats.pendingPublishes).toBe(0);
  });

  it('topic aliases are used as far as the server allows, and start anew on a new connection', async () => {
    const { broker, client } = await startPair({}, { limits: { topicAliasMaximum: 1 } });
    const send = (topic: string) => client.publish({ topic, payload: 'x', qos: 1 });
    for (const topic of ['a', 'a', 'b', 'a']) await send(topic);
    await cutAndReconnect(broker);
    await send('a');
    const seen = broker.log.received('publish').map(({ topic, properties }) => [topic, properties?.topicAlias]);
    expect(seen).toEqual([
      ['a', 1],
      ['', 1],
      ['b', 1],
      ['a', 1],
      ['a', 1],
    ]);
    expect(broker.violations).toEqual([]);
  });

  it('a publish that is refused here gives the server no topic alias', async () => {
    const { broker, client } = await startPair({}, { limits: { topicAliasMaximum: 1, maximumPacketSize: 100 } });
    const send = (topic: string, bytes: number) => client.publish({ topic, payload: 'x'.repeat(bytes), qos: 0 });
    await send('a', 1);
    await expect(send('b', 100)).rejects.toMatchObject({ code: 'ERR_MESSAGE_TOO_LARGE' });
    // 100 bytes without an alias, which would make it too large.
    await send('b', 94);
    await send('b', 1);
    await send('a', 1);
    const seen = (await broker.log.waitForReceived('publish', 4)).map(({ topic, properties }) => [
      topic,
      properties?.topicAlias,
    ]);
    expect(seen).toEqual([
      ['a', 1],
      ['b', undefined],
      ['b', 1],
      ['a', 1],
    ]);
    expect(client.stats.connects).toBe(1);
    expect(broker.violations).toEqual([]);
  });
});

describe('the answer of the server', () => {
  it('a refusal rejects with its reason', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.onPublish = () => 0x97;
    broker.onSend((packet) =>
      packet.cmd === 'puback' || packet.cmd === 'pubrec'
        ? { ...packet, properties: { reasonString: 'quota of tenant 7' } }
        : undefined,
    );
    for (const qos of [1, 2] as const) {
      await expect(client.publish({ topic: 'p', payload: '', qos })).rejects.toMatchObject({
        code: 'ERR_PUBLISH',
        reasonCode: 0x97,
        retriable: true,
        message: expect.stringContaining('quota of tenant 7'),
      });
    }
    expect(broker.log.received('pubrel')).toEqual([]);
  });

  it('that nobody had subscribed is told', async () => {
    const { client } = await startPair({ protocolVersion: 5 }, { reportNoSubscribers: true });
    await expect(client.publish({ topic: 'p', payload: '', qos: 1 })).resolves.toEqual({ reasonCode: 0x10 });
  });

  it('one that nobody asked for is counted, and answered where the protocol wants it', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    for (const cmd of ['puback', 'pubrec', 'pubcomp', 'pubrel', 'suback'] as const) {
      broker.connection!.send({ cmd, messageId: 999, ...(cmd === 'suback' && { granted: [0] }) } as never);
    }
    await broker.log.waitFor(() => client.stats.unknownAcknowledgements === 5);
    await client.publish({ topic: 'p', payload: '', qos: 1 });
    expect(broker.log.received('pubrel')).toMatchObject([{ messageId: 999, reasonCode: 0x92 }]);
    expect(broker.log.received('pubcomp')).toMatchObject([{ messageId: 999, reasonCode: 0x92 }]);
    expect(broker.log.received('connect')).toHaveLength(1);
  });
});

describe('properties', () => {
  it('go out as they are, user properties in order', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    client.onDelivery = (delivery) => {
      client.handedOut.push(delivery);
      client.acknowledge(delivery);
    };
    const properties = {
      contentType: 'text/plain',
      payloadFormatIndicator: 1 as const,
      responseTopic: 'r',
      correlationData: Buffer.from([1, 2]),
      userProperties: [
        ['a', '1'],
        ['b', '2'],
        ['a', '3'],
      ] as const,
    };
    await client.publish({
      topic: 't/x',
      payload: 'x',
      qos: 1,
      properties: { ...properties, userProperties: [...properties.userProperties] },
    });
    await handedOut(broker, client, 1);
    expect(client.handedOut[0].message.properties).toMatchObject({
      contentType: 'text/plain',
      payloadFormatIndicator: 1,
      responseTopic: 'r',
      correlationData: Buffer.from([1, 2]),
    });
  });

  it('a message that expired in the queue is not sent', async () => {
    let skew = 0;
    const { systemClock } = await import('../../../../lib/net/clock.js');
    const broker = await startBroker();
    const client = newClient(broker, { clock: { ...systemClock, now: () => systemClock.now() + skew } });
    const properties = (messageExpiryInterval: number) => ({ messageExpiryInterval });
    const gone = client.publish({ topic: 'p', payload: 'gone', qos: 1, properties: properties(5) });
    const kept = client.publish({ topic: 'p', payload: 'kept', qos: 1, properties: properties(60) });
    const rejected = expect(gone).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    skew = 10_000;
    await client.connect();
    await rejected;
    await kept;
    expect(broker.log.received('publish')).toMatchObject([{ properties: { messageExpiryInterval: 50 } }]);
  });

  it.each([-1, 0.5, 2 ** 32])('an expiry of %d s is refused', async (messageExpiryInterval) => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    const publish = client.publish({ topic: 'p', payload: '', qos: 1, properties: { messageExpiryInterval } });
    await expect(publish).rejects.toMatchObject({ code: 'ERR_LOCAL_PROTOCOL' });
    expect(received(broker)).toEqual([]);
  });

  it('are left out of 3.1.1, with one warning', async () => {
    const { broker, client } = await startPair({ protocolVersion: 4 });
    for (let i = 0; i < 2; i++) {
      await client.publish({ topic: 'p', payload: '', qos: 1, properties: { contentType: 'x' } });
    }
    expect(received(broker)).toHaveLength(2);
    expect(client.warnings).toHaveLength(1);
  });
});

describe('the queue', () => {
  it('rejects what does not fit, by count and by bytes', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { publishQueue: { maxMessages: 2, maxBytes: 1000 } });
    const full = (payload: string) => expect(client.publish({ topic: 'p', payload, qos: 1 })).rejects;
    const first = client.publish({ topic: 'p', payload: '1', qos: 1 });
    await full('x'.repeat(950)).toMatchObject({ code: 'ERR_QUEUE_FULL', retriable: true });
    const second = client.publish({ topic: 'p', payload: '2', qos: 1 });
    await full('3').toMatchObject({ code: 'ERR_QUEUE_FULL' });
    await client.connect();
    await Promise.all([first, second]);
    expect(received(broker)).toEqual(['1', '2']);
  });

  it('or drops the oldest', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { publishQueue: { maxMessages: 2, overflow: 'dropOldest' } });
    const [first, ...rest] = ['1', '2', '3'].map((payload) => client.publish({ topic: 'p', payload, qos: 1 }));
    await expect(first).rejects.toMatchObject({ code: 'ERR_QUEUE_FULL' });
    await client.connect();
    await Promise.all(rest);
    expect(received(broker)).toEqual(['2', '3']);
  });

  it('QoS 0 without a connection waits, or is rejected', async () => {
    const broker = await startBroker();
    const waits = newClient(broker, { clientId: 'a' });
    const published = waits.publish({ topic: 'p', payload: '0' });
    await waits.connect();
    await published;
    const rejects = newClient(broker, { clientId: 'b', publishQueue: { offlineQos0: false } });
    await expect(rejects.publish({ topic: 'p', payload: '0' })).rejects.toMatchObject({ code: 'ERR_CONNECTION' });
  });

  it('a waiting publish can be cancelled, a written one not', async () => {
    const broker = await startBroker();
    const client = newClient(broker);
    const outcome: string[] = [];
    const tell = (error?: Error) =>
      outcome.push(error === undefined ? 'ok' : ((error as { code?: string }).code ?? ''));
    const waiting = client.submit({ topic: 'p', payload: '1', qos: 1 }, tell);
    expect(waiting.cancel()).toBe(true);
    expect(waiting.cancel()).toBe(false);
    await client.connect();
    broker.withhold('puback');
    const written = client.submit({ topic: 'p', payload: '2', qos: 1 }, tell);
    await broker.log.waitForReceived('publish', 1);
    expect(written.written).toBe(true);
    expect(written.cancel()).toBe(false);
    await client.close({ timeout: 50 });
    expect(outcome).toEqual(['ERR_ABORTED', 'ERR_CLOSED']);
  });

  it('a callback never comes before submit() has returned', async () => {
    const { client } = await startPair();
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      client.submit({ topic: 'a/#', payload: '' }, () => order.push('refused'));
      client.submit({ topic: 'p', payload: '' }, () => {
        order.push('sent');
        resolve();
      });
      order.push('returned');
    });
    expect(order[0]).toBe('returned');
    expect(order.slice(1).sort()).toEqual(['refused', 'sent']);
  });
});

describe('packet identifiers', () => {
  /** As many as may be under way without a Receive Maximum; the other identifiers are for SUBSCRIBE. */
  const ALL = 65_280;

  /** A client with all of them under way, none answered. */
  async function startFull(more: number, callback: (n: number) => void) {
    const broker = await startBroker();
    const client = newClient(broker, { protocolVersion: 5, publishQueue: { maxMessages: 100_000 } });
    await client.connect();
    const used = new Set<number | undefined>();
    let received = 0;
    const stop = broker.onReceive((packet) => {
      if (packet.cmd !== 'publish') return undefined;
      received += 1;
      used.add(packet.messageId);
      return 'ignore';
    });
    for (let n = 1; n <= ALL + more; n++) client.submit({ topic: 'p', payload: '', qos: 1 }, () => callback(n));
    await broker.waitFor(() => received === ALL, 25_000);
    expect(used.size).toBe(ALL);
    stop();
    return { broker, client };
  }

  it('are never used twice at a time: with all of them under way the next publish waits, SUBSCRIBE does not', async () => {
    const done: number[] = [];
    const { broker, client } = await startFull(1, (n) => done.push(n));
    await client.subscribe([{ filter: 's', qos: 1 }]);
    expect(client.stats.pendingPublishes).toBe(ALL + 1);
    const since = broker.log.position;
    broker.connection!.send({ cmd: 'puback', messageId: 4_711 });
    const [last] = await broker.log.waitForReceived('publish', 1, { since });
    expect(last.messageId).not.toBeUndefined();
    await broker.waitFor(() => done.length === 2);
    expect(done).toEqual([4_711, ALL + 1]);
  });

  // mochi 2.7.9 forgets an un-acknowledged delivery when a publish has its identifier.
  it('are never those of deliveries that are not acknowledged, also not over a reconnect', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    for (let i = 0; i < 5; i += 1) broker.publish('t/x', String(i), { qos: 1 });
    await handedOut(broker, client, 5);
    const theirs = broker.log.sent('publish').map(({ messageId }) => messageId);
    for (let i = 0; i < 5; i += 1) await client.publish({ topic: 'p', payload: 'x', qos: 1 });
    await cutAndReconnect(broker);
    for (let i = 0; i < 5; i += 1) await client.publish({ topic: 'p', payload: 'x', qos: 2 });
    const ours = broker.log.received('publish').map(({ messageId }) => messageId);
    expect(ours).toHaveLength(10);
    expect(ours.filter((id) => theirs.includes(id))).toEqual([]);
    for (const delivery of client.handedOut) client.acknowledge(delivery);
  });

  it('a session lost while a publish waits for one goes on with everything', async () => {
    let done = 0;
    const { broker } = await startFull(10, () => (done += 1));
    broker.cut();
    broker.dropSession('client');
    await broker.waitFor(() => done === ALL + 10, 25_000);
  });
});
