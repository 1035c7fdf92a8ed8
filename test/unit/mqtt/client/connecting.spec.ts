import { createServer, type Server, type Socket } from 'node:net';
import { type AddressInfo } from 'node:net';
import { handedOut, newClient, startBroker, startPair, TestClient } from '../harness.js';

describe('protocolVersion auto', () => {
  it('uses 5 where the server has it', async () => {
    const broker = await startBroker();
    const result = await newClient(broker).connect();
    expect(result.protocolVersion).toBe(5);
    expect(broker.log.received('connect')).toHaveLength(1);
  });

  it.each(['connack-4', 'connack-5', 'close'] as const)('falls back to 3.1.1 after %s', async (unsupportedVersion) => {
    const broker = await startBroker({ versions: [4], unsupportedVersion });
    const client = newClient(broker);
    const fallbacks: boolean[] = [];
    client.on('disconnect', ({ fallsBack }) => fallbacks.push(fallsBack));
    const result = await client.connect();
    expect(result.protocolVersion).toBe(4);
    expect(fallbacks).toEqual([true]);
    expect(broker.log.received('connect').map(({ protocolVersion }) => protocolVersion)).toEqual([5, 4]);
    // Once known it stays.
    broker.cut();
    await broker.log.waitForReceived('connect', 3);
    expect(broker.log.received('connect')[2].protocolVersion).toBe(4);
    expect(fallbacks).toEqual([true, false]);
  });

  it('an outage during the fallback does not decide for 3.1.1', async () => {
    const broker = await startBroker();
    broker.onReceive(({ cmd }, connection) => {
      if (cmd !== 'connect' || connection.number > 2) return undefined;
      // A broker that is shutting down: the first connection ends without an answer, the next one is refused.
      if (connection.number === 2) connection.cut({ reset: true });
      else connection.end();
      return 'ignore';
    });
    const client = newClient(broker, { waitForBroker: true });
    await client.connect();
    const versions = broker.log.received('connect').map(({ protocolVersion }) => protocolVersion);
    expect(versions.slice(0, 3)).toEqual([5, 4, 5]);
    expect(client.protocolVersion).toBe(5);
  });

  it('a server that was replaced by one without 5 is served', async () => {
    const broker = await startBroker();
    const client = newClient(broker);
    await client.connect();
    broker.options.versions = [4];
    broker.cut();
    await broker.log.waitFor(() => client.protocolVersion === 4 || undefined);
    expect(broker.log.received('connect').map(({ protocolVersion }) => protocolVersion)).toEqual([5, 5, 4]);
  });

  it('a fixed version does not fall back', async () => {
    const broker = await startBroker({ versions: [4], unsupportedVersion: 'connack-5' });
    await expect(newClient(broker, { protocolVersion: 5 }).connect()).rejects.toMatchObject({
      code: 'ERR_CONNECTION',
      reasonCode: 0x84,
    });
  });
});

describe('connect()', () => {
  it('tells what the server said', async () => {
    const broker = await startBroker({
      limits: { receiveMaximum: 7, maximumQos: 1, retainAvailable: false, maximumPacketSize: 999, serverKeepAlive: 3 },
      connackProperties: { responseInformation: 'replies/', userProperties: { zone: 'a' } },
    });
    const result = await newClient(broker, { requestResponseInformation: true }).connect();
    expect(result).toMatchObject({
      sessionPresent: false,
      clientId: 'client',
      keepAlive: 3,
      responseInformation: 'replies/',
      userProperties: [['zone', 'a']],
      limits: { receiveMaximum: 7, maximumQos: 1, retainAvailable: false, maximumPacketSize: 999 },
    });
    expect(broker.log.received('connect')[0]).toMatchObject({
      clean: false,
      keepalive: 30,
      properties: { sessionExpiryInterval: 86_400, receiveMaximum: 128, requestResponseInformation: true },
    });
  });

  it('rejects where nobody listens, and can be called again', async () => {
    const broker = await startBroker();
    await broker.stopListening();
    const client = newClient(broker);
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CONNECTION', retriable: true });
    expect(client.status.state).toBe('failed');
    await broker.listen();
    await expect(client.connect()).resolves.toMatchObject({ sessionPresent: false });
  });

  it('rejects within connectTimeout where nobody answers', async () => {
    const broker = await startBroker({ automatic: false });
    await expect(newClient(broker, { connectTimeout: 50, protocolVersion: 5 }).connect()).rejects.toMatchObject({
      code: 'ERR_CONNECTION',
      timeoutMs: 50,
    });
  });

  it('tries several servers in turn', async () => {
    const [dead, alive] = [await startBroker(), await startBroker()];
    await dead.stopListening();
    const client = newClient(alive, { url: [dead.url, alive.url] });
    const { server } = await client.connect();
    expect(server).toBe(`tcp://127.0.0.1:${alive.port}`);
  });

  it('with waitForBroker keeps trying', async () => {
    const broker = await startBroker();
    await broker.stopListening();
    const client = newClient(broker, { waitForBroker: true });
    const connected = client.connect();
    await broker.log.waitFor(() => client.status.lastError !== undefined);
    await broker.listen();
    await connected;
    expect(client.status.state).toBe('connected');
  });

  it('refuses a server that takes the session away, and warns of a shorter one', async () => {
    const broker = await startBroker({ limits: { sessionExpiry: 0 } });
    await expect(newClient(broker).connect()).rejects.toMatchObject({ code: 'ERR_SESSION' });
    await broker.log.waitForReceived('disconnect', 1);

    broker.options.limits = { sessionExpiry: 60 };
    const client = newClient(broker, { clientId: 'other' });
    expect((await client.connect()).sessionExpiry).toBe(60);
    expect(client.warnings.join()).toContain('60 s instead of 86400 s');
    expect(client.status.notes.join()).toContain('60 s');
  });

  it('rejects after close(), and close() before it ends at once', async () => {
    const broker = await startBroker();
    const client = newClient(broker);
    await client.close();
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('a close() during connect() rejects it', async () => {
    const broker = await startBroker({ automatic: false });
    const client = newClient(broker, { protocolVersion: 5 });
    const connecting = expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await broker.log.waitForReceived('connect', 1);
    await client.close();
    await connecting;
  });

  it('takes the client id that the server assigns, also for the next connection', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { clientId: '', allowEphemeralSession: true, protocolVersion: 5 });
    const { clientId } = await client.connect();
    expect(clientId).not.toBe('');
    broker.cut();
    await broker.log.waitForReceived('connect', 2);
    expect(broker.log.received('connect')[1].clientId).toBe(clientId);
  });
});

it('what does not fit into a CONNECT is told at once', async () => {
  const broker = await startBroker();
  const client = newClient(broker, { username: 'x'.repeat(70_000), waitForBroker: true });
  await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_LOCAL_PROTOCOL' });
});

describe('a lost connection', () => {
  it('is made again with backoff, also when it is closed at once each time', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { reconnect: { initial: 20, max: 100 } });
    await client.connect();
    const delays: number[] = [];
    client.on('disconnect', () => delays.push(client.status.nextDialIn ?? -1));
    client.on('connect', () => broker.cut());
    broker.cut();
    await broker.log.waitFor(() => delays.length >= 6);
    // The bounds grow: 20, 40, 80, 100, so no delay is over its bound.
    expect(delays[0]).toBeLessThanOrEqual(20);
    expect(delays[1]).toBeLessThanOrEqual(40);
    for (const delay of delays) expect(delay).toBeLessThanOrEqual(100);
  });

  it('a DISCONNECT of the server is told', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    const told: unknown[] = [];
    client.on('serverDisconnect', (event) => told.push(event));
    broker.connection!.disconnect(0x8b, { reasonString: 'restart' });
    await broker.log.waitForReceived('connect', 2);
    expect(told).toMatchObject([{ reasonCode: 0x8b, reasonString: 'restart' }]);
    expect(client.status.lastError?.message).toContain('Server shutting down (0x8b): restart');
  });

  it('a takeover is not fought: long backoff, then the end', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { protocolVersion: 5, maxTakeovers: 2, longBackoff: { initial: 1, max: 2 } });
    await client.connect();
    client.on('connect', () => broker.connection?.disconnect(0x8e));
    broker.connection!.disconnect(0x8e);
    await broker.log.waitFor(() => client.status.state === 'failed');
    expect(broker.log.received('connect')).toHaveLength(3);
    expect(client.errors[0]).toMatchObject({ code: 'ERR_CONNECTION', reasonCode: 0x8e });
  });

  it('any number of reconnect() calls make one reconnect', async () => {
    const { broker, client } = await startPair();
    client.reconnect('a');
    client.reconnect('b');
    client.reconnect('c');
    await broker.log.waitFor(() => broker.log.received('connect').length === 2 && client.status.state === 'connected');
    await client.publish({ topic: 'marker', payload: '', qos: 1 });
    expect(broker.log.received('connect')).toHaveLength(2);
    expect(broker.log.received('disconnect')).toMatchObject([{ reasonCode: 0 }]);
  });

  it('malformed bytes end it with the reason code, and it comes back', async () => {
    const { broker } = await startPair({ protocolVersion: 5 });
    broker.connection!.sendRaw(Buffer.from([0x36, 0x00]));
    const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x81);
    await broker.log.waitForReceived('connect', 2);
  });
});

describe('keep alive', () => {
  it('pings, and takes silence for a dead link', async () => {
    const { broker, client } = await startPair({ keepAlive: 1, pingTimeout: 200 });
    await broker.log.waitForReceived('pingreq', 2);
    expect(broker.log.received('connect')).toHaveLength(1);
    broker.withhold('pingresp');
    await broker.log.waitForReceived('connect', 2);
    expect(client.status.lastError).toMatchObject({ code: 'ERR_CONNECTION' });
  });

  it('does not wait for ever for the end of a packet whose length is wrong', async () => {
    const { broker } = await startPair({ keepAlive: 1, pingTimeout: 200 });
    // A PUBLISH of 1 MiB that never ends: every PINGRESP is taken for a part of it.
    broker.connection!.sendRaw(Buffer.from([0x30, 0x80, 0x80, 0x40]));
    await broker.log.waitForReceived('connect', 2);
  });

  it('the server decides its length', async () => {
    const broker = await startBroker({ limits: { serverKeepAlive: 1 } });
    await newClient(broker, { keepAlive: 60 }).connect();
    await broker.log.waitForReceived('pingreq', 1);
  });
});

describe('close()', () => {
  it('leaves subscriptions with the session, and resolves where nobody answers any more', async () => {
    const { broker, client } = await startPair();
    broker.publish('t/a', 'x');
    await handedOut(broker, client, 1);
    broker.stall();
    broker.connection!.halfOpen();
    await client.close({ timeout: 200 });
    expect(client.status.state).toBe('closed');
    expect(broker.log.received('unsubscribe')).toEqual([]);
    expect(client.handedOut[0].state).toBe('abandoned');
    expect(client.stats.abandoned).toBe(1);
  });

  it('is one promise, waits for publishes and rejects what cannot be sent', async () => {
    const { broker, client } = await startPair();
    broker.delay('puback', 50);
    const published = client.publish({ topic: 'p', payload: '1', qos: 1 });
    const closing = client.close();
    expect(client.close()).toBe(closing);
    await expect(client.publish({ topic: 'p', payload: '2', qos: 1 })).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await closing;
    await expect(published).resolves.toEqual({ reasonCode: 0 });
  });

  it('can change the session expiry and publish the will', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5, will: { topic: 'gone', payload: 'bye' } });
    await client.close({ sessionExpiry: 5, withWill: true });
    expect(await broker.log.waitForReceived('disconnect', 1)).toMatchObject([
      { reasonCode: 4, properties: { sessionExpiryInterval: 5 } },
    ]);
  });

  it('does not ask for a session that CONNECT did not ask for [MQTT5 3.14.2.2.2]', async () => {
    const options = { protocolVersion: 5 as const, sessionExpiry: 0, allowEphemeralSession: true };
    const { broker, client } = await startPair(options);
    await client.close({ sessionExpiry: 5 });
    const [{ reasonCode, properties }] = await broker.log.waitForReceived('disconnect', 1);
    expect([reasonCode, properties]).toEqual([0, undefined]);
    expect(client.warnings.join()).toContain('session expiry was 0');
  });
});

describe('destroy()', () => {
  it('ends at once and leaves nothing running', async () => {
    const { broker, client } = await startPair();
    client.destroy();
    client.destroy();
    expect(client.status.state).toBe('closed');
    await broker.log.waitFor(() => broker.connections.length === 0);
    expect(broker.log.received('disconnect')).toEqual([]);
  });
});

describe('a hook for the user', () => {
  it("the user's own dialer is asked for every connection", async () => {
    const broker = await startBroker();
    const asked: string[] = [];
    const { createDialer } = await import('../../../../lib/net/dial.js');
    const client = newClient(broker, {
      url: 'mqtt://far.example:1',
      dialer: (endpoint) => {
        asked.push(`${endpoint.host}:${endpoint.port}`);
        return createDialer({ scheme: 'tcp', host: '127.0.0.1', port: broker.port });
      },
    });
    await client.connect();
    broker.cut();
    await broker.log.waitForReceived('connect', 2);
    expect(asked).toEqual(['far.example:1', 'far.example:1']);
  });

  it('an error thrown by a callback does not stop the session', async () => {
    const { broker, client } = await startPair();
    client.onDelivery = (delivery) => {
      client.handedOut.push(delivery);
      throw new Error('in the callback');
    };
    broker.publish('t/a', '1');
    broker.publish('t/a', '2');
    await handedOut(broker, client, 2);
    await broker.log.waitFor(() => client.errors.length === 2);
    expect(client.errors[0].message).toBe('in the callback');
  });
});

describe('a server that is no MQTT server', () => {
  let server: Server;
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    server.close();
  });

  it('is left with an error that names it', async () => {
    server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 400 Bad Request\r\n\r\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const client = new TestClient({ url: `mqtt://127.0.0.1:${port}`, protocolVersion: 5 });
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_REMOTE_PROTOCOL' });
    client.destroy();
  });
});

// mochi 2.7.9 does that when another client takes the client id.
it('a DISCONNECT that 3.1.1 does not have is refused, and counts as a connection that was closed without a reason', async () => {
  const broker = await startBroker();
  const client = newClient(broker, { protocolVersion: 4, clientId: 'twice' });
  const causes: string[] = [];
  client.on('disconnect', ({ cause }) => causes.push(cause?.message ?? ''));
  await client.connect();
  for (let round = 1; round <= 5; round += 1) {
    const connection = await broker.waitFor(() => client.stats.connects === round && broker.connection);
    connection.sendRaw(Buffer.from([0xe0, 0x00]));
    await broker.waitFor(() => causes.length === round);
  }
  expect(new Set(causes)).toEqual(new Set(['Protocol error by the server: DISCONNECT in MQTT 3.1.1']));
  expect(client.warnings).toEqual([
    "5 connections in a row were closed without a reason: does another client use the client id 'twice'?",
  ]);
});
