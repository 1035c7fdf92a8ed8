import { AckLedger } from '../../../../lib/mqtt/protocol/ack-ledger.js';
import { sameContent } from '../../../../lib/mqtt/protocol/content.js';
import { Delivery } from '../../../../lib/mqtt/protocol/delivery.js';
import { Deque } from '../../../../lib/mqtt/protocol/deque.js';
import { PacketIds } from '../../../../lib/mqtt/protocol/packet-ids.js';
import { InboundAliases, OutboundAliases } from '../../../../lib/mqtt/protocol/topic-alias.js';
import { type PublishPacket } from '../../../../lib/mqtt/codec/packets.js';

describe('Deque', () => {
  it('keeps order over growth, wrap-around and both ends', () => {
    const deque = new Deque<number>();
    const model: number[] = [];
    let seed = 3;
    const below = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
    for (let i = 0; i < 3000; i++) {
      const action = below(5);
      if (action <= 1) {
        deque.push(i);
        model.push(i);
      } else if (action === 2) {
        deque.unshift(i);
        model.unshift(i);
      } else expect(deque.shift()).toBe(model.shift());
      expect(deque.length).toBe(model.length);
      expect(deque.peek()).toBe(model[0]);
    }
    expect([...deque]).toEqual(model);
    deque.filter((n) => n % 2 === 0);
    expect([...deque]).toEqual(model.filter((n) => n % 2 === 0));
  });
});

describe('PacketIds', () => {
  it('gives each of 65,535 once, then none until one is freed', () => {
    const ids = new PacketIds();
    const given = new Set<number>();
    for (let i = 0; i < 65_535; i++) given.add(ids.take());
    expect(given.size).toBe(65_535);
    expect(Math.min(...given)).toBe(1);
    expect(ids.take()).toBe(0);
    ids.release(777);
    ids.release(777);
    expect(ids.take()).toBe(777);
    expect(ids.take()).toBe(0);
  });

  it('does not give what an earlier process uses', () => {
    const ids = new PacketIds();
    expect(ids.reserve(1)).toBe(true);
    expect(ids.reserve(1)).toBe(false);
    expect(ids.take()).toBe(2);
  });

  it('takes one of the server only when no other is free', () => {
    const ids = new PacketIds();
    ids.avoided = (id) => id <= 3;
    expect([ids.take(), ids.take()]).toEqual([4, 5]);
    while (ids.size < 65_532) expect(ids.take()).toBeGreaterThan(3);
    expect([ids.take(), ids.take(), ids.take()].sort()).toEqual([1, 2, 3]);
    expect(ids.take()).toBe(0);
  });

  it('counts down from the top once it is to evade, again never one in use', () => {
    const ids = new PacketIds();
    expect([ids.take(), ids.take()]).toEqual([1, 2]);
    ids.reserve(65_534);
    ids.evade();
    expect([ids.take(), ids.take()]).toEqual([65_535, 65_533]);
    ids.evade();
    expect(ids.take()).toBe(65_532);
    const given = new Set<number>();
    while (ids.size < 65_535) given.add(ids.take());
    expect(given.has(1)).toBe(false);
    expect(ids.take()).toBe(0);
  });
});

function publish(change: Partial<PublishPacket> = {}): PublishPacket {
  return {
    type: 'publish',
    topic: 't',
    payload: Buffer.from('x'),
    qos: 1,
    retain: false,
    dup: false,
    packetId: 1,
    ...change,
  };
}

describe('sameContent', () => {
  const properties = {
    contentType: 'a',
    payloadFormatIndicator: 1 as const,
    responseTopic: 'r',
    correlationData: Buffer.from('c'),
    userProperties: [['a', '1'] as const, ['a', '2'] as const],
  };
  const message = { topic: 't', payload: Buffer.from('x'), qos: 1 as const, retain: false, dup: false, properties };

  it('does not look at DUP, expiry, alias and subscription identifiers', () => {
    const changed = { ...properties, messageExpiryInterval: 4, topicAlias: 3, subscriptionIdentifiers: [1] };
    expect(sameContent(message, 't', publish({ topic: '', dup: true, properties: changed }))).toBe(true);
  });

  it.each<[string, string, Partial<PublishPacket>]>([
    ['topic', 'u', {}],
    ['payload', 't', { payload: Buffer.from('y') }],
    ['QoS', 't', { qos: 2 }],
    ['retain', 't', { retain: true }],
    ['no properties', 't', { properties: undefined }],
    ['content type', 't', { properties: { ...properties, contentType: 'b' } }],
    ['format', 't', { properties: { ...properties, payloadFormatIndicator: 0 } }],
    ['response topic', 't', { properties: { ...properties, responseTopic: undefined } }],
    ['correlation data', 't', { properties: { ...properties, correlationData: Buffer.from('d') } }],
    [
      'order of user properties',
      't',
      {
        properties: {
          ...properties,
          userProperties: [
            ['a', '2'],
            ['a', '1'],
          ],
        },
      },
    ],
    ['number of user properties', 't', { properties: { ...properties, userProperties: [['a', '1']] } }],
  ])('sees another %s', (_, topic, change) => {
    expect(sameContent(message, topic, publish({ properties, ...change }))).toBe(false);
  });
});

describe('topic aliases', () => {
  it('inbound: known ones, unknown ones, out of range', () => {
    const aliases = new InboundAliases(2);
    const resolve = (topic: string, topicAlias?: number) =>
      aliases.resolve(publish({ topic, properties: { topicAlias } }));
    expect(resolve('a')).toBe('a');
    expect(resolve('a', 1)).toBe('a');
    expect(resolve('', 1)).toBe('a');
    expect(resolve('b', 1)).toBe('b');
    expect(resolve('', 1)).toBe('b');
    expect(() => resolve('', 2)).toThrow(expect.objectContaining({ reasonCode: 0x82 }));
    expect(() => resolve('a', 3)).toThrow(expect.objectContaining({ reasonCode: 0x94 }));
    expect(() => resolve('a', 0)).toThrow(expect.objectContaining({ reasonCode: 0x94 }));
  });

  it('outbound: the least recently used one is taken away', () => {
    const aliases = new OutboundAliases(2);
    const use = (topic: string) => {
      const alias = aliases.propose(topic)!;
      aliases.written(topic, alias);
      return alias;
    };
    expect(use('a')).toEqual({ alias: 1, known: false });
    expect(use('b')).toEqual({ alias: 2, known: false });
    expect(use('a')).toEqual({ alias: 1, known: true });
    expect(use('c')).toEqual({ alias: 2, known: false });
    expect(use('b')).toEqual({ alias: 1, known: false });
    // What does not leave changes nothing.
    expect(aliases.propose('d')).toEqual({ alias: 2, known: false });
    expect(aliases.propose('d')).toEqual({ alias: 2, known: false });
    expect(use('c')).toEqual({ alias: 2, known: true });
    expect(new OutboundAliases(0).propose('a')).toBeUndefined();
  });
});

describe('AckLedger', () => {
  const delivery = (packetId: number, qos: 1 | 2): Delivery =>
    new Delivery({ topic: 't', payload: Buffer.alloc(0), qos, retain: false, dup: false }, 0, packetId);

  function released(ledger: AckLedger): string[] {
    const out: string[] = [];
    ledger.release({
      handed: ({ packetId, message }) => out.push(`${message.qos === 1 ? 'puback' : 'pubrec'} ${packetId}`),
      repeated: (packetId) => out.push(`again ${packetId}`),
    });
    return out;
  }

  it('releases the prefix that is ready, and forgets it', () => {
    const ledger = new AckLedger();
    const all = [1, 2, 3].map((id) => delivery(id, 1));
    for (const each of all) ledger.add(each);
    all[1].state = 'succeeded';
    expect(ledger.ready).toBe(false);
    expect(released(ledger)).toEqual([]);
    all[0].state = 'succeeded';
    expect(ledger.ready).toBe(true);
    expect(released(ledger)).toEqual(['puback 1', 'puback 2']);
    expect(ledger.size).toBe(1);
  });

  it('repeats a PUBREC in its turn, and not after the PUBREL', () => {
    const ledger = new AckLedger();
    const head = delivery(1, 2);
    ledger.add(head);
    ledger.repeat(7);
    ledger.repeat(8);
    expect(released(ledger)).toEqual([]);
    ledger.cancelRepeats(7);
    head.state = 'succeeded';
    expect(released(ledger)).toEqual(['pubrec 1', 'again 8']);
    expect(ledger.size).toBe(0);
  });

  it('handles 200,000 deliveries settled in reverse in one release', () => {
    const ledger = new AckLedger();
    const all = Array.from({ length: 200_000 }, (_, i) => delivery((i % 65_535) + 1, 1));
    for (const each of all) ledger.add(each);
    for (const each of all.toReversed()) each.state = 'succeeded';
    expect(released(ledger)).toHaveLength(200_000);
  });
});
