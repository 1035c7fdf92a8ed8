import { setTimeout as sleep } from 'node:timers/promises';
import { unique, until } from './harness.js';
import { describeEachBroker, mqttBrokers } from './mqtt-live.js';

describeEachBroker('sessions', (live) => {
  it('finds its session again, and none after a clean start', async () => {
    const clientId = unique('session');
    const first = await live().connected({ clientId });
    expect(first.connection?.sessionPresent).toBe(false);
    await first.subscribe([{ filter: unique('any'), qos: 1 }]);
    await first.close();
    const second = await live().connected({ clientId });
    expect(second.connection?.sessionPresent).toBe(true);
    await second.close();
    const third = await live().connected({ clientId, cleanStart: true, allowEphemeralSession: true });
    expect(third.connection?.sessionPresent).toBe(false);
  });

  it('a client without a subscription has a session too, or not', async () => {
    const clientId = unique('session');
    await (await live().connected({ clientId })).close();
    const { sessionPresent } = await live().client({ clientId }).connect();
    expect(sessionPresent).toBe(!live().differs('keeps sessions of subscribers only'));
  });

  it('another client with its id takes over; the first tells so, and does not fight for ever', async () => {
    const clientId = unique('twin');
    const first = live().client({ clientId, maxTakeovers: 0 });
    const causes: (Error | undefined)[] = [];
    first.on('disconnect', ({ cause }) => causes.push(cause));
    const reasons: number[] = [];
    first.on('serverDisconnect', ({ reasonCode }) => reasons.push(reasonCode));
    await first.connect();
    const second = await live().connected({ clientId, reconnect: { initial: 60_000, max: 60_000 } });
    await until('the loss', () => causes.length > 0);
    if (live().version === 5 && !live().differs('does not tell of a takeover')) {
      await until('the end', () => first.status.state === 'failed');
      expect(reasons).toEqual([0x8e]);
      expect(first.status.lastError?.message).toMatch(/taken over/i);
      expect(second.status.state).toBe('connected');
    } else {
      // MQTT 3.1.1 cannot tell, a broker of MQTT 5 need not: it looks like any lost connection, and the first comes back after its backoff.
      await until('the first is back', () => first.stats.connects === 2);
      await until('the second is out', () => second.status.state === 'reconnecting');
    }
  });

  it('publishes the will of a client that disappears, and not that of one that leaves in good order', async () => {
    const topic = unique('will');
    const peer = await live().peer(`${topic}/#`);
    const will = (name: string) => ({ topic: `${topic}/${name}`, payload: name, qos: 1 as const });
    const leaving = await live().connected({ will: will('left') });
    const lost = await live().connected({ will: will('lost') });
    await leaving.close();
    lost.destroy();
    await peer.received(1);
    await peer.client.publishAsync(`${topic}/mark`, 'mark', { qos: 1 });
    await until('the mark', () => peer.payloads.includes('mark'));
    expect(peer.payloads).toEqual(['lost', 'mark']);
  });

  it('pings an idle connection, which stays', async () => {
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url, keepAlive: 1 });
    await until('two pings answered', () => wire.of('server', 'pingresp').length >= 2);
    expect(client.stats.connects).toBe(1);
    expect(wire.of('client', 'connect')[0]?.keepalive).toBe(1);
  });

  it('notices a connection that is dead without a sign, and makes a new one', async () => {
    const topic = unique('stalled');
    const wire = await live().wire();
    const client = await live().connected({ url: wire.url, keepAlive: 1, pingTimeout: 300 });
    await client.subscribe([{ filter: topic, qos: 1 }]);
    const causes: string[] = [];
    client.on('disconnect', ({ cause }) => causes.push(cause?.message ?? ''));
    wire.proxy.halfOpen();
    await until('the loss', () => causes.length > 0);
    expect(causes[0]).toMatch(/no sign of life after a ping/);
    await until('the new connection', () => client.status.state === 'connected');
    await client.publish({ topic, payload: 'back', qos: 1 });
    await client.received(1);
  });

  it('refuses what the broker refuses: nothing listens there', async () => {
    const client = live().client({ url: 'mqtt://127.0.0.1:9' });
    await expect(client.connect()).rejects.toMatchObject({
      code: 'ERR_CONNECTION',
      message: expect.stringMatching(/127\.0\.0\.1:9\b.*ECONNREFUSED/) as unknown,
    });
  });
});

describeEachBroker(
  'sessions of MQTT 5',
  (live) => {
    it('end after their expiry', async () => {
      const clientId = unique('expiry');
      const first = await live().connected({ clientId, sessionExpiry: 1 });
      expect(first.connection?.sessionExpiry).toBe(1);
      await first.close();
      // Each look starts the expiry again, so the next comes later than the last.
      let present = true;
      for (let waitMs = 2000; present && waitMs < 20_000; waitMs *= 2) {
        await sleep(waitMs);
        const again = await live().connected({ clientId, sessionExpiry: 1 });
        present = again.connection?.sessionPresent ?? true;
        await again.close();
      }
      expect(present).toBe(false);
    });

    it('end at once when DISCONNECT says so', async () => {
      const clientId = unique('expiry');
      const first = await live().connected({ clientId });
      await first.subscribe([{ filter: unique('any'), qos: 1 }]);
      await first.close({ sessionExpiry: 0 });
      // A broker may take the next CONNECT before it has ended the connection before.
      await until('no session', async () => {
        const again = await live().connected({ clientId });
        await again.close({ sessionExpiry: 0 });
        return again.connection?.sessionPresent === false;
      });
    });

    it('a session that is lost is told, and its filters are subscribed again', async () => {
      const clientId = unique('lost');
      const topic = unique('lost');
      const wire = await live().wire();
      const client = await live().connected({ url: wire.url, clientId });
      await client.subscribe([{ filter: topic, qos: 1 }]);
      let lost = 0;
      client.on('sessionLost', () => lost++);
      await until('the new session', async () => {
        wire.proxy.refuse(true);
        wire.proxy.cut();
        const thief = await live().connected({ clientId, cleanStart: true, allowEphemeralSession: true });
        await thief.close();
        const connected = new Promise<boolean>((resolve) => {
          client.on('connect', ({ sessionPresent }) => resolve(sessionPresent));
        });
        wire.proxy.refuse(false);
        return !(await connected);
      });
      expect(lost).toBe(1);
      const peer = await live().peer();
      await until('its subscription', async () => {
        await peer.client.publishAsync(topic, 'again', { qos: 1 });
        return client.payloads.includes('again');
      });
    });

    it('publish the will after its delay, and not at all when the client is back before', async () => {
      const topic = unique('delay');
      const peer = await live().peer(`${topic}/#`);
      const will = (name: string, willDelayInterval: number) => ({
        topic: `${topic}/${name}`,
        payload: name,
        qos: 1 as const,
        properties: { willDelayInterval, contentType: 'text/plain' },
      });
      const clientId = unique('back');
      const lost = await live().connected({ will: will('lost', 1) });
      const back = await live().connected({ clientId, will: will('back', 2) });
      lost.destroy();
      back.destroy();
      const again = await live().connected({ clientId });
      await peer.received(1);
      // Until after the delay of the second will.
      await sleep(4000);
      await peer.client.publishAsync(`${topic}/mark`, 'mark', { qos: 1 });
      await until('the mark', () => peer.payloads.includes('mark'));
      expect(peer.payloads).toEqual(['lost', 'mark']);
      const without = live().differs('publishes wills without their properties');
      expect(peer.messages[0]?.properties?.contentType).toBe(without ? undefined : 'text/plain');
      expect(again.connection?.sessionPresent).toBe(true);
    });

    it('publish the will of a client that leaves with it', async () => {
      const topic = unique('with-will');
      const peer = await live().peer(topic);
      const client = await live().connected({ will: { topic, payload: 'left', qos: 1 } });
      await client.close({ withWill: true });
      await peer.received(1);
      expect(peer.payloads).toEqual(['left']);
    });

    it('get an id from the server when they bring none', async () => {
      const client = live().client({ clientId: '', allowEphemeralSession: true, cleanStart: true });
      const { clientId } = await client.connect();
      expect(clientId).not.toBe('');
      expect(client.clientId).toBe(clientId);
    });
  },
  mqttBrokers.filter(({ version }) => version === 5),
);
