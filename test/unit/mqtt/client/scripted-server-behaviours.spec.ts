import { type InMemoryMqttBroker } from '../../../../lib/testing/index.js';
import { handedOut, newClient, startBroker, startPair } from '../harness.js';

/**
 * Behaviours that mosquitto's test/lib asks of a client with scripted servers, as far as no spec beside this one has
 * them: keep alive is in connecting, enhanced authentication in authentication, resend after a disconnect and unknown
 * acknowledgements in publishing, requests in nest/mqtt-client.proxy, TLS in net and integration.
 */
const hex = (text: string): Buffer => Buffer.from(text.replace(/\s/g, ''), 'hex');

/** The bytes of the packets of one type that the broker received. */
function bytes(broker: InMemoryMqttBroker, type: 'connect' | 'subscribe' | 'unsubscribe' | 'publish'): string[] {
  return broker.log.of(type, { direction: 'in' }).map((entry) => entry.bytes.toString('hex'));
}

describe('CONNECT, byte for byte', () => {
  const will = { topic: 'w', payload: 'gone', qos: 1 as const, retain: true };

  it.each([
    ['a session that stays', {}, '10 0d 0004 4d515454 04 00 001e 0001 63'],
    ['a clean start', { cleanStart: true, allowEphemeralSession: true }, '10 0d 0004 4d515454 04 02 001e 0001 63'],
    [
      'user name and password',
      { username: 'u', password: 'p' },
      '10 13 0004 4d515454 04 c0 001e 0001 63 0001 75 0001 70',
    ],
    ['a will', { will }, '10 16 0004 4d515454 04 2c 001e 0001 63 0001 77 0004 676f6e65'],
  ])('3.1.1: %s', async (_name, options, expected) => {
    const broker = await startBroker();
    await newClient(broker, { clientId: 'c', protocolVersion: 4, ...options }).connect();
    expect(bytes(broker, 'connect')).toEqual([expected.replace(/\s/g, '')]);
  });

  it('5: a will with its delay and properties', async () => {
    const broker = await startBroker();
    const properties = { willDelayInterval: 5, contentType: 'x', userProperties: [['a', '1']] as [string, string][] };
    const options = { clientId: 'c', protocolVersion: 5 as const, will: { ...will, properties } };
    await newClient(broker, options).connect();
    const [connect] = broker.log.received('connect');
    expect(connect.will).toMatchObject({ topic: 'w', qos: 1, retain: true, payload: Buffer.from('gone') });
    expect(connect.will?.properties).toMatchObject({
      willDelayInterval: 5,
      contentType: 'x',
      userProperties: { a: '1' },
    });
  });
});

describe.each([5, 4] as const)('MQTT %i', (protocolVersion) => {
  it.each([0, 1, 2] as const)(
    'SUBSCRIBE with QoS %i, its SUBACK, and one UNSUBSCRIBE for several filters',
    async (qos) => {
      const broker = await startBroker();
      const client = newClient(broker, { protocolVersion });
      await client.connect();
      const [grant] = await client.subscribe([{ filter: 'qos/test', qos }]);
      expect(grant).toMatchObject({ filter: 'qos/test', reasonCode: qos });
      const noProperties = protocolVersion === 5 ? '00' : '';
      expect(bytes(broker, 'subscribe')).toEqual([
        `82${protocolVersion === 5 ? '0e' : '0d'}0001${noProperties}0008716f732f746573740${qos}`,
      ]);
      await client.unsubscribe(['qos/test']);
      await client.unsubscribe(['a', 'b']);
      expect(broker.log.received('unsubscribe').map(({ unsubscriptions }) => unsubscriptions)).toEqual([
        ['qos/test'],
        ['a', 'b'],
      ]);
    },
  );

  it.each([0, 1, 2] as const)(
    'a message with QoS %i: without a payload, retained, and answered as its QoS asks',
    async (qos) => {
      const { broker, client } = await startPair({ protocolVersion });
      await client.publish({ topic: 't/empty', payload: '', qos, retain: true });
      await handedOut(broker, client, 1);
      const [delivery] = client.handedOut;
      expect(delivery.message).toMatchObject({ topic: 't/empty', payload: Buffer.alloc(0), qos });
      client.acknowledge(delivery);
      await client.publish({ topic: 'other', payload: '', qos: 1 });
      const [first] = bytes(broker, 'publish');
      expect(first.slice(0, 2)).toBe(['31', '33', '35'][qos]);
      const answered = (type: 'puback' | 'pubrec' | 'pubcomp') => broker.log.received(type).length;
      if (qos === 2) await broker.log.waitForReceived('pubcomp', 1);
      expect([answered('puback'), answered('pubrec'), answered('pubcomp')]).toEqual(
        qos === 0 ? [0, 0, 0] : qos === 1 ? [1, 0, 0] : [0, 1, 1],
      );
      expect(broker.violations).toEqual([]);
    },
  );
});

describe('every length of an acknowledgement is understood', () => {
  const forms = [
    ['no reason code', ''],
    ['a reason code', '00'],
    ['an empty property length', '00 00'],
    ['a reason string', '00 04 1f 0001 78'],
    ['a user property', '00 07 26 0001 61 0001 62'],
  ] as const;
  /** Sends an acknowledgement in one of the forms. */
  const answer = (broker: InMemoryMqttBroker, first: number, packetId: number | undefined, form: string): void => {
    const body = Buffer.concat([Buffer.from([0, packetId ?? 0]), hex(form)]);
    broker.connection!.sendRaw(Buffer.concat([Buffer.from([first, body.length]), body]));
  };

  it.each(forms)('PUBREL with %s', async (_name, form) => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.withhold('pubrel');
    broker.publish('t/a', 'x', { qos: 2 });
    await handedOut(broker, client, 1);
    client.acknowledge(client.handedOut[0]);
    const [{ messageId }] = await broker.log.waitForReceived('pubrec', 1);
    answer(broker, 0x62, messageId, form);
    await broker.log.waitForReceived('pubcomp', 1);
    expect(client.window.used).toBe(0);
  });

  it.each(forms)('PUBACK with %s', async (_name, form) => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.withhold('puback');
    const published = client.publish({ topic: 'p', payload: 'x', qos: 1 });
    const [{ messageId }] = await broker.log.waitForReceived('publish', 1);
    answer(broker, 0x40, messageId, form);
    await expect(published).resolves.toMatchObject({ reasonCode: 0 });
  });

  it.each(forms)('PUBREC and PUBCOMP with %s', async (_name, form) => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    broker.withhold('pubrec', 'pubcomp');
    const published = client.publish({ topic: 'p', payload: 'x', qos: 2 });
    const [{ messageId }] = await broker.log.waitForReceived('publish', 1);
    answer(broker, 0x50, messageId, form);
    await broker.log.waitForReceived('pubrel', 1);
    answer(broker, 0x70, messageId, form);
    await expect(published).resolves.toMatchObject({ reasonCode: 0 });
  });
});

describe('the Receive Maximum of the server', () => {
  it.each([1, 2])('%i: QoS 2 holds its place until PUBCOMP, and the order stays', async (receiveMaximum) => {
    const { broker, client } = await startPair({ protocolVersion: 5 }, { limits: { receiveMaximum } });
    let most = 0;
    broker.onReceive((packet) => {
      if (packet.cmd === 'publish') {
        const [started, ended] = [broker.log.received('publish').length, broker.log.sent('pubcomp').length];
        most = Math.max(most, started - ended);
      }
      return undefined;
    });
    await Promise.all([1, 2, 3, 4, 5].map((n) => client.publish({ topic: 'p', payload: String(n), qos: 2 })));
    expect(most).toBe(receiveMaximum);
    expect(broker.log.received('publish').map(({ payload }) => payload.toString())).toEqual(['1', '2', '3', '4', '5']);
  });

  it('a PUBREC of 0x80 and above gives the place back', async () => {
    const { broker, client } = await startPair({ protocolVersion: 5 }, { limits: { receiveMaximum: 1 } });
    broker.onPublish = ({ payload }) => (payload.toString() === 'bad' ? 0x80 : undefined);
    const refused = expect(client.publish({ topic: 'p', payload: 'bad', qos: 2 })).rejects.toMatchObject({
      reasonCode: 0x80,
    });
    await client.publish({ topic: 'p', payload: 'good', qos: 2 });
    await refused;
    expect(broker.log.received('pubrel')).toHaveLength(1);
  });
});

describe('the Maximum QoS of the server', () => {
  it.each([
    [0, [1, 2]],
    [1, [2]],
  ] as const)('%i: what is above it is refused here, before it is written', async (maximumQos, above) => {
    const broker = await startBroker({ limits: { maximumQos } });
    const client = newClient(broker, { protocolVersion: 5 });
    await client.connect();
    for (const qos of above) {
      await expect(client.publish({ topic: 'p', payload: '', qos })).rejects.toMatchObject({
        code: 'ERR_LOCAL_PROTOCOL',
      });
    }
    await client.publish({ topic: 'p', payload: 'allowed', qos: maximumQos });
    const [{ payload }] = await broker.log.waitForReceived('publish', 1);
    expect(payload.toString()).toBe('allowed');
  });
});

it.each([0, 1, 2] as const)(
  'MQTT 5: properties of a QoS %i message arrive as they were sent, repeated user properties in order',
  async (qos) => {
    const { broker, client } = await startPair({ protocolVersion: 5 });
    const head = `${['30', '32', '34'][qos]} 2b 0003 742f61 ${qos === 0 ? '' : '0007'}`;
    const properties = [
      '01 01',
      '02 0000000a',
      '03 0001 63',
      '08 0001 72',
      '09 0002 0102',
      '26 0001 61 0001 31',
      '26 0001 61 0001 32',
    ].join('');
    const block = hex(properties);
    const body = Buffer.concat([hex(head).subarray(2), Buffer.from([block.length]), block, Buffer.from('x')]);
    broker.connection!.sendRaw(Buffer.concat([hex(head).subarray(0, 1), Buffer.from([body.length]), body]));
    await handedOut(broker, client, 1);
    expect(client.handedOut[0].message).toMatchObject({
      topic: 't/a',
      qos,
      payload: Buffer.from('x'),
      properties: {
        payloadFormatIndicator: 1,
        messageExpiryInterval: 10,
        contentType: 'c',
        responseTopic: 'r',
        correlationData: Buffer.from([1, 2]),
        userProperties: [
          ['a', '1'],
          ['a', '2'],
        ],
      },
    });
  },
);
