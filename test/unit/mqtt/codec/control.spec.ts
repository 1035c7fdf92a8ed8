import { generate, type Packet } from 'mqtt-packet';
import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import {
  type ClientPacket,
  type ConnectPacket,
  type Properties,
  type ProtocolVersion,
} from '../../../../lib/mqtt/codec/packets.js';
import { hex, readAll, refusal, theirProperties, theirs } from './support.js';

const USER: [string, string][] = [
  ['a', '1'],
  ['b', ''],
  ['a', '3'],
];

describe('from a server', () => {
  it.each([
    ['CONNACK without a body', '20 00', 5, 0x81],
    ['CONNACK of one byte', '20 01 00', 5, 0x81],
    ['CONNACK of three bytes in 3.1.1', '20 03 00 00 00', 4, 0x81],
    ['CONNACK without property length', '20 02 00 00', 5, 0x81],
    ['CONNACK with a property length past its end', '20 03 00 00 05', 5, 0x81],
    ['SUBACK with a property length past its end', '90 04 0001 05 00', 5, 0x81],
    ['DISCONNECT with a property length past its end', 'e0 02 00 05', 5, 0x81],
    ['AUTH with a property length past its end', 'f0 02 18 05', 5, 0x81],
    ['CONNACK with reserved flags', '20 03 02 00 00', 5, 0x81],
    ['CONNACK with reserved flags in 3.1.1', '20 02 80 00', 4, 0x81],
    ['CONNACK with an error and session present', '20 03 01 80 00', 5, 0x82],
    ['CONNACK with an error and session present in 3.1.1', '20 02 01 05', 4, 0x82],
    ['CONNACK with a payload', '20 04 00 00 00 00', 5, 0x81],
    ['CONNACK with authentication data but no method', '20 07 00 00 04 16 0001 61', 5, 0x82],
    ['CONNACK refusing in 3.1.1 form with a code of version 5', '20 02 00 87', 5, 0x81],
    ['SUBACK without a body', '90 00', 5, 0x81],
    ['SUBACK with id 0', '90 04 0000 00 00', 5, 0x82],
    ['SUBACK without codes', '90 03 0001 00', 5, 0x81],
    ['SUBACK without codes in 3.1.1', '90 02 0001', 4, 0x81],
    ['UNSUBACK of one byte', 'b0 01 00', 5, 0x81],
    ['UNSUBACK with id 0', 'b0 02 0000', 4, 0x82],
    ['UNSUBACK with a payload in 3.1.1', 'b0 03 0001 00', 4, 0x81],
    ['UNSUBACK without property length', 'b0 02 0001', 5, 0x81],
    ['PINGRESP with a body', 'd0 01 00', 5, 0x81],
    ['DISCONNECT in 3.1.1', 'e0 00', 4, 0x82],
    ['DISCONNECT with bytes behind its properties', 'e0 03 00 00 00', 5, 0x81],
    ['DISCONNECT with a session expiry', 'e0 07 00 05 11 00000001', 5, 0x82],
    ['AUTH in 3.1.1', 'f0 00', 4, 0x82],
    ['AUTH with a reason code alone', 'f0 01 18', 5, 0x81],
  ] as const)('%s is refused', (_name, bytes, version, code) => expect(refusal(bytes, version)).toBe(code));

  it('takes every legal short form, next to other packets in the same chunk', () => {
    expect(readAll(hex('e000 f000 d000 e00100 e0028000'), 5)).toEqual([
      { type: 'disconnect', reasonCode: 0 },
      { type: 'auth', reasonCode: 0 },
      { type: 'pingresp' },
      { type: 'disconnect', reasonCode: 0 },
      { type: 'disconnect', reasonCode: 0x80, properties: undefined },
    ]);
  });

  it('an UNSUBACK without codes is for the session to judge: it may answer nothing of ours', () => {
    expect(readAll(hex('b003000700'), 5)).toEqual([
      { type: 'unsuback', packetId: 7, reasonCodes: [], properties: undefined },
    ]);
    expect(readAll(hex('b0020007'), 4)).toEqual([{ type: 'unsuback', packetId: 7, reasonCodes: [] }]);
  });

  it('a server that only knows 3.1.1 is understood when it refuses version 5', () => {
    expect(readAll(hex('20020001'), 5)).toEqual([{ type: 'connack', sessionPresent: false, reasonCode: 0x84 }]);
  });

  it('CONNACK with every property it may carry, as mqtt-packet writes it', () => {
    const properties: Properties = {
      sessionExpiryInterval: 60,
      receiveMaximum: 10,
      maximumQos: 1,
      retainAvailable: 0,
      maximumPacketSize: 1000,
      assignedClientIdentifier: 'c-1',
      topicAliasMaximum: 5,
      reasonString: 'fine',
      userProperties: [['k', 'v']],
      wildcardSubscriptionAvailable: 1,
      subscriptionIdentifiersAvailable: 1,
      sharedSubscriptionAvailable: 0,
      serverKeepAlive: 20,
      responseInformation: 'r/',
      serverReference: 'other:1883',
      authenticationMethod: 'M',
      authenticationData: Buffer.from([1, 2]),
    };
    const { maximumQos, ...same } = properties;
    const flags = Object.fromEntries(
      Object.entries(same).map(([name, value]) => [name, /Available$/.test(name) ? value === 1 : value]),
    );
    const bytes = generate(
      {
        cmd: 'connack',
        sessionPresent: true,
        reasonCode: 0,
        properties: { ...flags, maximumQoS: maximumQos, userProperties: { k: 'v' } },
      },
      { protocolVersion: 5 },
    );
    expect(readAll(bytes, 5)).toEqual([{ type: 'connack', sessionPresent: true, reasonCode: 0, properties }]);
  });

  it('SUBACK, UNSUBACK, DISCONNECT and AUTH keep user properties in order', () => {
    const field = hex('14 26000161000131 260001620000 26000161000133');
    const withUser = (head: string, tail = ''): Buffer => {
      const body = Buffer.concat([hex(head.slice(2)), field, hex(tail)]);
      return Buffer.concat([hex(head.slice(0, 2)), Buffer.from([body.length]), body]);
    };
    for (const bytes of [withUser('900001', '01'), withUser('b00001', '00'), withUser('e000'), withUser('f018')]) {
      expect(readAll(bytes, 5)).toMatchObject([{ properties: { userProperties: USER } }]);
    }
  });
});

const connect = (change: Partial<ConnectPacket> = {}): ConnectPacket => ({
  type: 'connect',
  protocolVersion: 5,
  clientId: 'c1',
  cleanStart: false,
  keepAlive: 30,
  ...change,
});
const WILL = { topic: 'w', payload: Buffer.from('gone'), qos: 1, retain: true } as const;

describe('from a client: byte for byte what mqtt-packet writes', () => {
  const properties: Properties = {
    sessionExpiryInterval: 60,
    receiveMaximum: 128,
    maximumPacketSize: 70_000,
    topicAliasMaximum: 16,
    requestResponseInformation: 1,
    requestProblemInformation: 0,
    userProperties: [['k', 'v']],
    authenticationMethod: 'M',
    authenticationData: Buffer.from([1]),
  };
  const willProperties: Properties = { willDelayInterval: 5, contentType: 'x', userProperties: [['w', '1']] };
  it.each([
    ['CONNECT', connect()],
    ['CONNECT 3.1.1', connect({ protocolVersion: 4, cleanStart: true })],
    ['CONNECT with a password', connect({ username: 'u', password: Buffer.from('p') })],
    ['CONNECT with a will', connect({ will: WILL })],
    ['CONNECT 3.1.1 with a will', connect({ protocolVersion: 4, will: WILL, username: 'u' })],
    ['CONNECT with everything', connect({ username: 'ü', will: { ...WILL, properties: willProperties }, properties })],
    ['CONNECT with a long client id', connect({ clientId: 'c'.repeat(300), will: { ...WILL, properties: willProperties } })], // prettier-ignore
  ])('%s', (_name, packet) => {
    const { protocolVersion, clientId, cleanStart, keepAlive, will, username, password } = packet;
    const bytes = generate(
      {
        cmd: 'connect',
        protocolId: 'MQTT',
        protocolVersion,
        clientId,
        clean: cleanStart,
        keepalive: keepAlive,
        ...(username !== undefined && { username }),
        ...(password !== undefined && { password }),
        ...(will && { will: { ...will, ...(will.properties && { properties: theirProperties(will.properties) }) } }),
        ...(packet.properties && { properties: theirProperties(packet.properties) }),
      } as Packet,
      { protocolVersion },
    );
    expect(encodePacket(packet, protocolVersion).toString('hex')).toBe(bytes.toString('hex'));
  });

  const sub = { filter: 'a/+', qos: 1, noLocal: true, retainAsPublished: true, retainHandling: 2 } as const;
  it.each([
    ['SUBSCRIBE', 5, { type: 'subscribe', packetId: 9, subscriptions: [sub, { filter: '#', qos: 0 }] }, { cmd: 'subscribe', messageId: 9, subscriptions: [{ topic: 'a/+', qos: 1, nl: true, rap: true, rh: 2 }, { topic: '#', qos: 0, nl: false, rap: false, rh: 0 }] }], // prettier-ignore
    ['SUBSCRIBE 3.1.1', 4, { type: 'subscribe', packetId: 9, subscriptions: [sub] }, { cmd: 'subscribe', messageId: 9, subscriptions: [{ topic: 'a/+', qos: 1 }] }], // prettier-ignore
    ['SUBSCRIBE with an identifier', 5, { type: 'subscribe', packetId: 1, subscriptions: [{ filter: 'x', qos: 2 }], properties: { subscriptionIdentifiers: [300] } }, { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 2 }], properties: { subscriptionIdentifier: 300 } }], // prettier-ignore
    ['UNSUBSCRIBE', 5, { type: 'unsubscribe', packetId: 65_535, filters: ['a', '$share/g/b'], properties: { userProperties: [['k', 'v']] } }, { cmd: 'unsubscribe', messageId: 65_535, unsubscriptions: ['a', '$share/g/b'], properties: { userProperties: { k: 'v' } } }], // prettier-ignore
    ['UNSUBSCRIBE 3.1.1', 4, { type: 'unsubscribe', packetId: 2, filters: ['a'] }, { cmd: 'unsubscribe', messageId: 2, unsubscriptions: ['a'] }], // prettier-ignore
    ['PINGREQ', 5, { type: 'pingreq' }, { cmd: 'pingreq' }],
    ['DISCONNECT 3.1.1', 4, { type: 'disconnect', reasonCode: 0x80 }, { cmd: 'disconnect' }],
    ['DISCONNECT', 5, { type: 'disconnect', reasonCode: 4, properties: { sessionExpiryInterval: 0 } }, { cmd: 'disconnect', reasonCode: 4, properties: { sessionExpiryInterval: 0 } }], // prettier-ignore
    ['AUTH', 5, { type: 'auth', reasonCode: 0x18, properties: { authenticationMethod: 'M', authenticationData: Buffer.from('d') } }, { cmd: 'auth', reasonCode: 0x18, properties: { authenticationMethod: 'M', authenticationData: Buffer.from('d') } }], // prettier-ignore
  ] as unknown as [string, ProtocolVersion, ClientPacket, Packet][])('%s', (_name, version, packet, same) => {
    const bytes = encodePacket(packet, version);
    expect(bytes.toString('hex')).toBe(generate(same, { protocolVersion: version }).toString('hex'));
  });

  it('a password without a user name, which version 5 allows and mqtt-packet does not write', () => {
    const bytes = encodePacket(connect({ password: Buffer.from('secret'), will: WILL }), 5);
    expect(theirs(bytes, 5)).toMatchObject({ clientId: 'c1', password: Buffer.from('secret'), will: { topic: 'w' } });
    expect(theirs(bytes, 5)).not.toHaveProperty('username');
    expect(bytes[9] & 0xc0).toBe(0x40);
  });

  it('an empty client id with a session to keep, which version 5 allows and mqtt-packet does not write', () => {
    const bytes = encodePacket(connect({ clientId: '', properties: { sessionExpiryInterval: 60 } }), 5);
    expect(bytes.toString('hex')).toBe('1012' + '00044d51545405' + '00' + '001e' + '05110000003c' + '0000');
    expect(encodePacket(connect({ clientId: '', cleanStart: true }), 5)[9]).toBe(0x02);
  });

  it('a DISCONNECT without a reason has the short form', () => {
    expect(encodePacket({ type: 'disconnect', reasonCode: 0 }, 5).toString('hex')).toBe('e000');
  });

  it('but user properties keep order and repetition, which mqtt-packet would regroup', () => {
    const bytes = encodePacket(
      {
        type: 'subscribe',
        packetId: 1,
        subscriptions: [{ filter: 'f', qos: 1 }],
        properties: { userProperties: USER },
      },
      5,
    );
    expect(bytes.includes(hex('26000161000131 260001620000 26000161000133'))).toBe(true);
    expect(theirs(bytes, 5)).toMatchObject({
      cmd: 'subscribe',
      properties: { userProperties: { a: ['1', '3'], b: '' } },
    });
  });
});

describe('what may not leave', () => {
  const subscribe =
    (filter: string, more: object = {}, version: ProtocolVersion = 5) =>
    () =>
      encodePacket({ type: 'subscribe', packetId: 1, subscriptions: [{ filter, qos: 1, ...more }] }, version);
  const long = 'x'.repeat(65_536);
  it.each([
    ['an empty SUBSCRIBE', () => encodePacket({ type: 'subscribe', packetId: 1, subscriptions: [] }, 5), 'without a topic filter'], // prettier-ignore
    ['an empty UNSUBSCRIBE', () => encodePacket({ type: 'unsubscribe', packetId: 1, filters: [] }, 5), 'without a topic filter'], // prettier-ignore
    ['SUBSCRIBE with id 0', () => encodePacket({ type: 'subscribe', packetId: 0, subscriptions: [{ filter: 'a', qos: 0 }] }, 5), '65,535'], // prettier-ignore
    ['UNSUBSCRIBE with id 65,536', () => encodePacket({ type: 'unsubscribe', packetId: 65_536, filters: ['a'] }, 4), '65,535'], // prettier-ignore
    ['No Local on a shared subscription', subscribe('$share/g/a', { noLocal: true }), 'No Local'],
    ['retain handling 3', subscribe('a', { retainHandling: 3 }), 'retain handling'],
    ['QoS 3 in SUBSCRIBE', subscribe('a', { qos: 3 }), 'QoS'],
    ['an empty filter', subscribe(''), 'topic filter'],
    ['# before the end', subscribe('a/#/b'), 'topic filter'],
    ['# in a level', subscribe('a/b#'), 'topic filter'],
    ['+ in a level', subscribe('a+/b', {}, 4), 'topic filter'],
    ['a shared filter without a filter', subscribe('$share/g'), 'topic filter'],
    ['a shared filter with an empty filter', subscribe('$share/g/'), 'topic filter'],
    ['a shared filter without a group', subscribe('$share//a'), 'topic filter'],
    ['a wildcard as group', subscribe('$share/+/a'), 'topic filter'],
    ['a filter of 65,536 bytes', subscribe(long), '65,535'],
    ['U+0000 in a filter', subscribe('a\0'), 'U+0000'],
    ['a filter of 65,536 bytes in UNSUBSCRIBE', () => encodePacket({ type: 'unsubscribe', packetId: 1, filters: [long] }, 4), '65,535'], // prettier-ignore
    ['a client id of 65,536 bytes', () => encodePacket(connect({ clientId: long }), 5), '65,535'],
    ['a user name of 65,536 bytes', () => encodePacket(connect({ username: long }), 5), '65,535'],
    ['a password of 65,536 bytes', () => encodePacket(connect({ username: 'u', password: Buffer.alloc(65_536) }), 5), '65,535'], // prettier-ignore
    ['a password alone in 3.1.1', () => encodePacket(connect({ protocolVersion: 4, password: Buffer.from('p') }), 4), 'user name'], // prettier-ignore
    ['a will topic with a wildcard', () => encodePacket(connect({ will: { ...WILL, topic: 'a/#' } }), 5), 'wildcard'],
    ['an empty will topic', () => encodePacket(connect({ will: { ...WILL, topic: '' } }), 5), 'empty'],
    ['a will of 65,536 bytes', () => encodePacket(connect({ will: { ...WILL, payload: Buffer.alloc(65_536) } }), 5), '65,535'], // prettier-ignore
    ['a will with QoS 3', () => encodePacket(connect({ will: { ...WILL, qos: 3 as 2 } }), 5), 'QoS'],
    ['a will with a topic alias', () => encodePacket(connect({ will: { ...WILL, properties: { topicAlias: 1 } } }), 5), "'topicAlias' is not allowed in WILL"], // prettier-ignore
    ['a keep alive of 65,536 s', () => encodePacket(connect({ keepAlive: 65_536 }), 5), 'keep alive'],
    ['an empty client id that keeps a session in 3.1.1', () => encodePacket(connect({ protocolVersion: 4, clientId: '' }), 4), 'CONNECT cannot be encoded'], // prettier-ignore
    ['authentication data without a method', () => encodePacket(connect({ properties: { authenticationData: Buffer.from('x') } }), 5), 'method'], // prettier-ignore
    ['AUTH in 3.1.1', () => encodePacket({ type: 'auth', reasonCode: 0x18 }, 4), '3.1.1'],
    ['AUTH without a method', () => encodePacket({ type: 'auth', reasonCode: 0x18 }, 5), 'method'],
    ['DISCONNECT with a server reference', () => encodePacket({ type: 'disconnect', reasonCode: 0, properties: { serverReference: 'x' } }, 5), "'serverReference' is not allowed"], // prettier-ignore
  ])('%s', (_name, encode, text) => {
    expect(encode).toThrow(
      expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL', message: expect.stringContaining(text) }),
    );
  });

  it('a secret is in no message', () => {
    const password = Buffer.from(`secret${'x'.repeat(65_536)}`);
    expect(() => encodePacket(connect({ username: 'u', password }), 5)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    );
  });
});
