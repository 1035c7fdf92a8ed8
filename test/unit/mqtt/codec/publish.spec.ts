import { generate } from 'mqtt-packet';
import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import { type Properties, type PublishPacket } from '../../../../lib/mqtt/codec/packets.js';
import { frame, hex, random, randomPublish, readAll, refusal, theirPublish } from './support.js';

const publish = (change: Partial<PublishPacket> = {}): PublishPacket => ({
  type: 'publish',
  topic: 'a/b',
  payload: Buffer.from('p'),
  qos: 0,
  retain: false,
  dup: false,
  packetId: 0,
  ...change,
});

describe.each([4, 5] as const)('in version %d', (version) => {
  it('is byte for byte what mqtt-packet writes, and reads back as it was', () => {
    const next = random(version);
    for (let round = 0; round < 2000; round += 1) {
      const packet = randomPublish(next, version);
      const theirs = generate(theirPublish(packet), { protocolVersion: version });
      expect(encodePacket(packet, version).toString('hex')).toBe(theirs.toString('hex'));
      expect(readAll(theirs, version)).toEqual([packet]);
    }
  });

  it('is read on every length field boundary', () => {
    for (const length of [0, 1, 110, 127, 128, 16_376, 16_384, 70_000]) {
      const packet = publish({ payload: Buffer.alloc(length, 1), qos: 1, packetId: 65_535 });
      const bytes = encodePacket(packet, version);
      expect(bytes.equals(generate(theirPublish(packet), { protocolVersion: version }))).toBe(true);
      expect(readAll(bytes, version)).toEqual([packet]);
    }
  });
});

describe('what is refused on the way in', () => {
  it.each([
    ['QoS 3', '36 05 0001 61 0001', 4, 0x81],
    ['DUP with QoS 0', '38 03 0001 61', 4, 0x81],
    ['packet identifier 0', '32 05 0001 61 0000', 4, 0x82],
    ['no body', '30 00', 4, 0x81],
    ['half a topic length', '30 01 00', 4, 0x81],
    ['a topic longer than the packet', '30 03 0002 61', 4, 0x81],
    ['no packet identifier', '32 03 0001 61', 4, 0x81],
    ['half a packet identifier', '32 04 0001 61 00', 4, 0x81],
    ['a topic with +', '30 03 0001 2b', 4, 0x90],
    ['a topic with #', '30 05 0003 61 2f 23', 5, 0x90],
    ['a topic with U+0000', '30 03 0001 00', 4, 0x81],
    ['a topic with overlong UTF-8', '30 04 0002 c080', 4, 0x81],
    ['a topic with an overlong slash', '30 04 0002 c0af', 4, 0x81],
    ['a topic with a surrogate', '30 05 0003 eda080', 4, 0x81],
    ['a topic with a cut character', '30 04 0002 f09f', 4, 0x81],
    ['a topic beyond U+10FFFF', '30 06 0004 f4908080', 4, 0x81],
    ['a topic with U+0001', '30 03 0001 01', 4, 0x81],
    ['a topic with U+001F', '30 04 0001 1f 00', 5, 0x81],
    ['a topic with U+007F', '30 04 0001 7f 00', 5, 0x81],
    ['a topic with U+009F', '30 05 0002 c29f 00', 5, 0x81],
    ['a topic with U+FFFF', '30 06 0003 efbfbf 00', 5, 0x81],
    ['a topic with U+FDD0', '30 06 0003 efb790 00', 5, 0x81],
    ['an empty topic in 3.1.1', '30 02 0000', 4, 0x82],
    ['an empty topic without alias', '30 03 0000 00', 5, 0x82],
    ['topic alias 0', '30 07 0001 61 03 230000', 5, 0x94],
    ['no property length', '30 03 0001 61', 5, 0x81],
    ['a property length beyond the packet', '30 04 0001 61 05', 5, 0x81],
  ] as const)('%s', (_name, bytes, version, code) => expect(refusal(bytes, version)).toBe(code));

  it('a topic is checked again after it was accepted under the same length', () => {
    expect(readAll(hex('3003000161 3003000161'), 4)).toHaveLength(2);
    expect(refusal('3003000161 300300012b', 4)).toBe(0x90);
  });
});

describe('what is accepted', () => {
  it('an empty topic with an alias, and a leading U+FEFF is kept [MQTT-1.5.4-3]', () => {
    expect(readAll(hex('30 06 0000 03 230007'), 5)).toEqual([
      publish({ topic: '', payload: Buffer.alloc(0), properties: { topicAlias: 7 } }),
    ]);
    expect(readAll(hex('30 06 0004 efbbbf61'), 4)).toEqual([publish({ topic: '\ufeffa', payload: Buffer.alloc(0) })]);
  });

  it('thousands of topics, also such that share a cache slot, come out as they were sent', () => {
    const next = random(5);
    const topics = Array.from(
      { length: 5000 },
      () => `d/${Math.floor(next() * 3000)}/${'é'.repeat(next() < 0.1 ? 1 : 0)}t`,
    );
    const bytes = Buffer.concat(topics.map((topic) => encodePacket(publish({ topic }), 4)));
    expect(readAll(bytes, 4).map((packet) => (packet as PublishPacket).topic)).toEqual(topics);
  });

  it('several subscription identifiers, the same one twice too [MQTT5 3.3.4]', () => {
    const body = hex('0001 61 06 0b05 0b05 0b07');
    expect(readAll(frame(0x30, body), 5)).toMatchObject([{ properties: { subscriptionIdentifiers: [5, 5, 7] } }]);
  });
});

describe('what is refused on the way out', () => {
  const of = (change: Partial<PublishPacket> | Properties, version: 4 | 5 = 5) => encodePacket(publish(change as Partial<PublishPacket>), version); // prettier-ignore
  it.each([
    ['a topic of 65,536 bytes', () => of({ topic: 'x'.repeat(65_536) }), '65,535'],
    ['a topic of 65,536 bytes in fewer characters', () => of({ topic: 'é'.repeat(32_768) }), '65,535'],
    ['a wildcard topic', () => of({ topic: 'a/#' }), 'wildcard'],
    ['a topic with +', () => of({ topic: '+' }), 'wildcard'],
    ['an empty topic', () => of({ topic: '' }), 'neither topic nor topic alias'],
    ['an alias in 3.1.1', () => of({ topic: '', properties: { topicAlias: 1 } }, 4), 'neither topic'],
    ['half a surrogate pair', () => of({ topic: 'a\ud800' }), 'surrogate'],
    ['U+0000', () => of({ topic: 'a\0' }), 'U+0000'],
    ['a control character', () => of({ topic: 'a\n' }), 'control character'],
    ['QoS 3', () => of({ qos: 3 as 2, packetId: 1 }), 'QoS'],
    ['QoS 1 with packet identifier 0', () => of({ qos: 1 }), 'packet identifier 0'],
    ['packet identifier 70,000', () => of({ qos: 1, packetId: 70_000 }), '70000'],
    ['packet identifier 1.5', () => of({ qos: 1, packetId: 1.5 }), '1.5'],
    ['a packet identifier with QoS 0', () => of({ packetId: 5 }), 'QoS 0'],
    ['topic alias 0', () => of({ properties: { topicAlias: 0 } }), "'topicAlias' must be an integer from 1"],
    ['a subscription identifier', () => of({ properties: { subscriptionIdentifiers: [1] } }), 'from a client'],
    ['a response topic with a wildcard', () => of({ properties: { responseTopic: 'a/+' } }), 'Response Topic'],
    ['256 MiB', () => of({ payload: Buffer.alloc(268_435_456) }), 'does not fit'],
  ])('%s', (_name, encode, text) => {
    expect(encode).toThrow(
      expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL', message: expect.stringContaining(text) }),
    );
  });
});
