import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { MqttRecordBuilder } from '@nestjs/microservices';
import { connectAsync, type IClientPublishOptions, type MqttClient as PeerClient } from 'mqtt';
import { lastValueFrom, take, toArray } from 'rxjs';
import { MqttClientProxy } from '../../lib/nest/mqtt-client.proxy.js';
import { MqttPublishRecord, MqttPublishRecordBuilder } from '../../lib/nest/mqtt-publish-record.js';
import { type MqttClientProxyOptions } from '../../lib/nest/proxy-options.js';
import { REPLY_PROPERTY } from '../../lib/nest/reply-protocol.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';

type Properties = NonNullable<IClientPublishOptions['properties']>;

/** A responder on the `mqtt` package, which is not ours. */
async function responder(
  url: string,
  topic: string,
  answer: (
    payload: Buffer,
    reply: (payload: string | Buffer, properties?: Properties) => void,
    request: Properties,
  ) => void,
): Promise<PeerClient> {
  const peer = await connectAsync(url, { protocolVersion: 5 });
  peer.on('message', (_topic, payload, packet) => {
    const request = packet.properties ?? {};
    const reply = (body: string | Buffer, properties: Properties = {}): void => {
      peer.publish(request.responseTopic!, body, {
        qos: 1,
        properties: { correlationData: request.correlationData!, ...properties },
      });
    };
    answer(payload, reply, request);
  });
  await peer.subscribeAsync(topic, { qos: 1 });
  return peer;
}

const kind = (value: string): Properties => ({ userProperties: { [REPLY_PROPERTY]: value } });

describe('MqttClientProxy', () => {
  let broker: InMemoryMqttBroker;
  let open: { close(): unknown }[];
  const proxy = (options: MqttClientProxyOptions = {}): MqttClientProxy => {
    const made = new MqttClientProxy({ url: broker.url, ...options });
    open.push(made);
    return made;
  };
  const respond: typeof responder = async (...args) => {
    const peer = await responder(...args);
    open.push({ close: () => peer.endAsync() });
    return peer;
  };
  const published = (topic: string) => broker.log.received('publish').filter((packet) => packet.topic === topic);

  beforeEach(async () => {
    broker = await InMemoryMqttBroker.start();
    open = [];
  });

  afterEach(async () => {
    for (const one of open) await one.close();
    await broker.close();
    expect(broker.violations).toEqual([]);
  });

  describe('emit()', () => {
    it('is hot, keeps the order while it connects, and gives the result of the PUBACK once', async () => {
      const client = proxy();
      const emits = [1, 2, 3].map((n) => client.emit('t', { n }));
      expect(await Promise.all(emits.map((emit) => lastValueFrom(emit.pipe(toArray()))))).toEqual([
        [{ reasonCode: 0 }],
        [{ reasonCode: 0 }],
        [{ reasonCode: 0 }],
      ]);
      expect(published('t').map((packet) => [packet.payload.toString(), packet.qos, packet.retain])).toEqual([
        ['{"n":1}', 1, false],
        ['{"n":2}', 1, false],
        ['{"n":3}', 1, false],
      ]);
      expect(client.stats).toMatchObject({ stored: 3, failed: 0, pending: 0 });
    });

    it('takes QoS, retain flag and properties from a record, and bytes as they are', async () => {
      const client = proxy({ messageProperties: { app: 'a' } });
      const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
      const record = new MqttPublishRecordBuilder(bytes)
        .setQos(2)
        .setRetain()
        .setContentType('application/cbor')
        .setMessageExpiryInterval(60)
        .addUserProperty('a', '1')
        .addUserProperty('a', '2')
        .build();
      await lastValueFrom(client.emit('t', record));
      await broker.log.waitForReceived('pubrel');
      const [packet] = published('t');
      expect(packet).toMatchObject({ qos: 2, retain: true, payload: bytes });
      expect(packet.properties).toMatchObject({
        contentType: 'application/cbor',
        messageExpiryInterval: 60,
        userProperties: { app: 'a', a: ['1', '2'] },
      });
    });

    it('understands the record of Nest itself', async () => {
      const client = proxy({ qos: 0 });
      const record = new MqttRecordBuilder({ a: 1 })
        .setQoS(1)
        .setRetain(true)
        .setProperties({ payloadFormatIndicator: true, userProperties: { x: ['1', '2'], y: '3' } })
        .build();
      await lastValueFrom(client.emit('t', record));
      const [packet] = published('t');
      expect(packet).toMatchObject({ qos: 1, retain: true });
      expect(packet.payload.toString()).toBe('{"a":1}');
      expect(packet.properties).toMatchObject({ userProperties: { x: ['1', '2'], y: '3' } });
    });

    it('sends what a dispatch hook adds as user properties', async () => {
      const client = proxy();
      client.setOnDispatchHook((packet) => {
        (packet as { metadata?: unknown }).metadata = { 'x-request-id': 'r-1' };
      });
      await lastValueFrom(client.emit({ cmd: 'sum' }, 'text'));
      const [packet] = broker.log.received('publish');
      expect([packet.topic, packet.payload.toString()]).toEqual(['{"cmd":"sum"}', 'text']);
      expect(packet.properties?.userProperties).toEqual({ 'x-request-id': 'r-1' });
    });

    it('needs a record for no data, and sends it as an empty payload', async () => {
      const client = proxy();
      await expect(lastValueFrom(client.emit('t', undefined))).rejects.toMatchObject({ code: 'ERR_SERIALIZATION' });
      await lastValueFrom(client.emit('t', new MqttPublishRecord(null, { retain: true })));
      expect(published('t')[0]).toMatchObject({ retain: true, payload: Buffer.alloc(0) });
    });

    it('errors with the refusal of the broker, and with what the protocol does not allow', async () => {
      const client = proxy();
      broker.onPublish = (packet) => (packet.topic === 'forbidden' ? 0x87 : undefined);
      await expect(lastValueFrom(client.emit('forbidden', 1))).rejects.toMatchObject({ code: 'ERR_PUBLISH' });
      await expect(lastValueFrom(client.emit('a/+', 1))).rejects.toMatchObject({ code: 'ERR_LOCAL_PROTOCOL' });
    });

    it('survives a cut: published again on the next connection, one outcome', async () => {
      const client = proxy({ reconnect: { initial: 5, max: 10 } });
      await client.connect();
      const answers = broker.withhold('puback');
      const emit = lastValueFrom(client.emit('t', 'x').pipe(toArray()));
      await broker.log.waitForReceived('publish');
      answers();
      broker.cut();
      expect(await emit).toEqual([{ reasonCode: 0 }]);
    });

    it('fails when no broker is there, and works when one is', async () => {
      const { port } = broker;
      await broker.close();
      const client = proxy();
      const emits = [client.emit('t', 1), client.emit('t', 2)].map((emit) => lastValueFrom(emit));
      for (const emit of emits) await expect(emit).rejects.toMatchObject({ code: 'ERR_CONNECTION', retriable: true });
      broker = await InMemoryMqttBroker.start({ port });
      await lastValueFrom(client.emit('t', 3));
      expect(published('t').map((packet) => packet.payload.toString())).toEqual(['3']);
    });

    it('after close() it fails and says so', async () => {
      const client = proxy();
      await lastValueFrom(client.emit('t', 1));
      const closing = client.close();
      expect(client.close()).toBe(closing);
      await closing;
      await expect(lastValueFrom(client.emit('t', 1))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
      await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
      await broker.log.waitForReceived('disconnect');
    });

    it('close() waits for the answers to what was published', async () => {
      const client = proxy();
      await client.connect();
      const answers = broker.withhold('puback');
      const emit = lastValueFrom(client.emit('t', 1));
      await broker.log.waitForReceived('publish');
      const closing = client.close();
      await turn();
      expect(broker.log.received('disconnect')).toHaveLength(0);
      answers();
      const { messageId } = published('t')[0];
      broker.connection!.send({ cmd: 'puback', messageId: messageId! });
      await closing;
      expect(await emit).toEqual({ reasonCode: 0 });
    });
  });

  describe('send()', () => {
    it('asks with Response Topic and Correlation Data, takes one plain reply from a foreign responder', async () => {
      await respond(broker.url, 'sum', (payload, reply) => {
        const numbers = JSON.parse(payload.toString()) as number[];
        reply(JSON.stringify(numbers.reduce((a, b) => a + b, 0)));
      });
      const client = proxy();
      const answers = await Promise.all(
        [[1, 2], [3], [4, 5, 6]].map((data) => lastValueFrom(client.send('sum', data))),
      );
      expect(answers).toEqual([3, 3, 15]);
      const requests = published('sum');
      const correlations = requests.map((packet) => packet.properties!.correlationData!.toString('hex'));
      expect(new Set(correlations).size).toBe(3);
      expect(requests[0].properties).toMatchObject({ messageExpiryInterval: 30 });
      expect(broker.log.received('subscribe')).toHaveLength(2);
      expect(client.stats).toMatchObject({ openRequests: 0, droppedReplies: 0, requestTimeouts: 0 });
    });

    it('is cold, and each subscription is one request', async () => {
      await respond(broker.url, 't', (_payload, reply) => reply('"x"'));
      const client = proxy();
      const request = client.send('t', 1);
      await client.connect();
      expect(published('t')).toHaveLength(0);
      expect([await lastValueFrom(request), await lastValueFrom(request)]).toEqual(['x', 'x']);
      expect(published('t')).toHaveLength(2);
    });

    it('gives a stream of replies in order and completes', async () => {
      await respond(broker.url, 'stream', (_payload, reply) => {
        reply('1', kind('next'));
        reply('2', kind('next'));
        reply('3', kind('last'));
      });
      await respond(broker.url, 'ended', (_payload, reply) => {
        reply('1', kind('next'));
        reply('', kind('end'));
      });
      await respond(broker.url, 'empty', (_payload, reply) => reply('', kind('end')));
      const client = proxy();
      const values = (topic: string) => lastValueFrom(client.send(topic, 0).pipe(toArray()));
      expect(await values('stream')).toEqual([1, 2, 3]);
      expect(await values('ended')).toEqual([1]);
      expect(await values('empty')).toEqual([]);
    });

    it('keeps the order of replies with an asynchronous deserializer, the error last', async () => {
      await respond(broker.url, 't', (_payload, reply) => {
        for (const ms of ['30', '1', '10']) reply(ms, kind('next'));
        reply('{"status":"error","message":"enough"}', kind('error'));
      });
      const client = proxy({
        deserializer: { deserialize: async (payload) => (await sleep(Number(payload)), Number(payload)) },
      });
      const seen: unknown[] = [];
      const error = await new Promise((resolve) => {
        client.send('t', 0).subscribe({ next: (value) => seen.push(value), error: resolve });
      });
      expect([seen, error]).toEqual([[30, 1, 10], { status: 'error', message: 'enough' }]);
    });

    it('gives text where the reply is no JSON, and an error where it cannot be decoded', async () => {
      await respond(broker.url, 't', (_payload, reply) => reply('plain text'));
      expect(await lastValueFrom(proxy().send('t', 0))).toBe('plain text');
      const strict = proxy({ deserializer: { deserialize: (payload) => JSON.parse(payload.toString()) as unknown } });
      await expect(lastValueFrom(strict.send('t', 0))).rejects.toThrow(SyntaxError);
    });

    it('drops replies with unknown or finished Correlation Data, and counts them', async () => {
      await respond(broker.url, 't', (_payload, reply) => {
        reply('"not yours"', { correlationData: Buffer.from('unknown') });
        reply('"first"');
        reply('"second"');
      });
      const client = proxy();
      expect(await lastValueFrom(client.send('t', 0).pipe(toArray()))).toEqual(['first']);
      while (client.stats.droppedReplies < 2) await turn();
      expect(client.stats).toMatchObject({ droppedReplies: 2, openRequests: 0 });
      // They are acknowledged all the same: the window stays free.
      await broker.log.waitForReceived('puback', 4);
    });

    it('has a timeout, for the first reply and between replies; a late reply is dropped', async () => {
      const waiting: (() => void)[] = [];
      await respond(broker.url, 't', (_payload, reply) => {
        reply('1', kind('next'));
        waiting.push(() => reply('2', kind('last')));
      });
      const client = proxy();
      const record = new MqttPublishRecordBuilder(0).setRequestTimeout(20).build();
      const seen: unknown[] = [];
      const error = await new Promise((resolve) => {
        client.send('t', record).subscribe({ next: (value) => seen.push(value), error: resolve });
      });
      expect(seen).toEqual([1]);
      expect(error).toMatchObject({ code: 'ERR_TIMEOUT', timeoutMs: 20 });
      waiting[0]();
      while (client.stats.droppedReplies < 1) await turn();
      expect(client.stats).toMatchObject({ openRequests: 0, requestTimeouts: 1 });
      await expect(lastValueFrom(client.send('silence', record))).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    });

    it('ends at once where nobody has subscribed', async () => {
      broker.options.reportNoSubscribers = true;
      await expect(lastValueFrom(proxy().send('nobody', 0))).rejects.toMatchObject({
        code: 'ERR_PUBLISH',
        retriable: true,
      });
    });

    it('forgets a request whose subscriber left', async () => {
      await respond(broker.url, 't', (_payload, reply) => {
        reply('1', kind('next'));
        reply('2', kind('next'));
      });
      const client = proxy();
      expect(await lastValueFrom(client.send('t', 0).pipe(take(1)))).toBe(1);
      expect(client.stats.openRequests).toBe(0);
      while (client.stats.droppedReplies < 1) await turn();
    });

    it('close() fails open requests', async () => {
      const client = proxy();
      const request = lastValueFrom(client.send('silence', 0));
      const failed = expect(request).rejects.toMatchObject({ code: 'ERR_CLOSED' });
      await broker.log.waitForReceived('publish');
      await client.close();
      await failed;
    });

    it('errors where the response topic is refused, and tries again with the next request', async () => {
      broker.options.subackCode = () => 0x87;
      const client = proxy({ responseTopic: 'my/replies' });
      await expect(lastValueFrom(client.send('t', 0))).rejects.toMatchObject({ code: 'ERR_SUBSCRIPTION' });
      delete broker.options.subackCode;
      await respond(broker.url, 't', (_payload, reply) => reply('"ok"'));
      expect(await lastValueFrom(client.send('t', 0))).toBe('ok');
      expect(published('t')[0].properties!.responseTopic).toBe('my/replies');
    });

    it('uses the Response Information of the server', async () => {
      broker.options.connackProperties = { responseInformation: 'granted/space/' };
      await respond(broker.url, 't', (_payload, reply, request) => reply(JSON.stringify(request.responseTopic)));
      const client = proxy({ requestResponseInformation: true, clientId: 'a/b', allowEphemeralSession: true });
      expect(await lastValueFrom(client.send('t', 0))).toBe('granted/space/a%2Fb');
    });

    it('finds its replies after a reconnect', async () => {
      const peer = await respond(broker.url, 't', (_payload, reply) => reply('"ok"'));
      const client = proxy({ reconnect: { initial: 5, max: 10 } });
      expect(await lastValueFrom(client.send('t', 0))).toBe('ok');
      peer.options.reconnectPeriod = 5;
      broker.cut();
      // Both clients subscribe again by themselves.
      await broker.log.waitForReceived('subscribe', 4);
      expect(await lastValueFrom(client.send('t', 0))).toBe('ok');
    });

    it('errors where the data cannot be serialized', async () => {
      await expect(lastValueFrom(proxy().send('t', 10n))).rejects.toMatchObject({ code: 'ERR_SERIALIZATION' });
      const builtIn = proxy({ envelope: 'nest' });
      await expect(lastValueFrom(builtIn.send('t', 10n))).rejects.toMatchObject({ code: 'ERR_SERIALIZATION' });
      expect(builtIn.stats.openRequests).toBe(0);
    });

    it('carries what a dispatch hook adds, once', async () => {
      const client = proxy();
      client.setOnDispatchHook((packet) => {
        const { metadata } = packet as { metadata?: { n: number } };
        (packet as { metadata?: unknown }).metadata = { n: (metadata?.n ?? 0) + 1 };
      });
      await respond(broker.url, 't', (_payload, reply) => reply('"ok"'));
      expect(await lastValueFrom(client.send('t', 0))).toBe('ok');
      expect(published('t')[0].properties).toMatchObject({ userProperties: { n: '1' } });
    });

    it('says that 3.1.1 has no requests without an envelope', async () => {
      const client = proxy({ protocolVersion: 4 });
      await expect(lastValueFrom(client.send('t', 0))).rejects.toMatchObject({ code: 'ERR_NOT_SUPPORTED' });
    });
  });

  it('tells its status and hands out its client', async () => {
    const client = proxy();
    const seen: string[] = [];
    client.status.subscribe((status) => seen.push(status));
    await client.connect();
    expect(client.unwrap().protocolVersion).toBe(5);
    await client.close();
    expect(seen).toEqual(['connecting', 'connected', 'closed']);
  });
});
