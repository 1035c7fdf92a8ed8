import { type MqttMessage } from '../../../lib/mqtt/index.js';
import { producerMessage } from '../../../lib/nest/producer-message.js';
import { isPulsarRecord, PulsarRecord, PulsarRecordBuilder } from '../../../lib/nest/pulsar-record.js';
import { metadataProperties, serializedPayload, toPayload } from '../../../lib/nest/serializers.js';

const context = (message: Partial<MqttMessage>, receivedAt = 1_700_000_000_000.4) => ({
  getMessage: (): MqttMessage => ({
    topic: 'plant/7/temp',
    payload: Buffer.from([0, 255, 254]),
    qos: 1,
    retain: false,
    dup: false,
    ...message,
  }),
  getReceivedAt: () => receivedAt,
});

describe('PulsarRecordBuilder', () => {
  it('sets everything a message can have', () => {
    const record = new PulsarRecordBuilder('data')
      .setKey('device-7')
      .setOrderingKey('room-1')
      .setProperties({ a: '1', b: '2' })
      .setProperty('b', '3')
      .setEventTime(new Date(1000))
      .setSequenceId(9)
      .setDeliverAt(new Date(2000))
      .setReplicationClusters(['eu'])
      .setDisableBatching()
      .setHoldsAcknowledgement(false)
      .build();
    expect(record.data).toBe('data');
    expect(record.options.holdsAcknowledgement).toBe(false);
    expect(producerMessage(Buffer.from('x'), undefined, record.options)).toEqual({
      payload: Buffer.from('x'),
      key: 'device-7',
      orderingKey: Buffer.from('room-1'),
      properties: { a: '1', b: '3' },
      eventTime: 1000,
      sequenceId: 9,
      deliverAt: 2000,
      replicationClusters: ['eu'],
      disableBatching: true,
    });
  });

  it('a key is text or bytes, the last one given', () => {
    const bytes = Uint8Array.of(0, 255);
    expect(new PulsarRecordBuilder().setKey('a').setKey(bytes).build().options).toEqual({ keyBytes: bytes });
    expect(new PulsarRecordBuilder().setKey(bytes).setKey('a').build().options).toEqual({ key: 'a' });
  });

  it('refuses a time that is none', () => {
    const { options } = new PulsarRecordBuilder(1).setEventTime(new Date('nonsense')).build();
    expect(() => producerMessage(null, undefined, options)).toThrow(
      expect.objectContaining({ code: 'ERR_SERIALIZATION', message: expect.stringContaining('eventTime') as string }),
    );
  });

  it('a built record does not change with its builder', () => {
    const builder = new PulsarRecordBuilder('x').setProperty('a', '1');
    const first = builder.build();
    builder.setProperty('a', '2').setKey('k');
    expect(first.options).toEqual({ properties: { a: '1' } });
  });

  it('from() carries topic, times, user properties and metadata of the MQTT message', () => {
    const record = new PulsarRecordBuilder()
      .from(
        context({
          retain: true,
          dup: true,
          qos: 2,
          properties: {
            contentType: 'application/cbor',
            payloadFormatIndicator: 0,
            responseTopic: 'r',
            correlationData: Buffer.from([0, 128, 255]),
            messageExpiryInterval: 60,
            userProperties: [
              ['traceparent', '00-1'],
              ['__proto__', 'p'],
            ],
          },
        }),
      )
      .build();
    expect(record.data).toEqual(Buffer.from([0, 255, 254]));
    expect(record.options.key).toBe('plant/7/temp');
    expect(record.options.eventTime).toBe(1_700_000_000_000);
    expect(Object.entries(record.options.properties!)).toEqual([
      ['traceparent', '00-1'],
      ['__proto__', 'p'],
      ['mqtt.topic', 'plant/7/temp'],
      ['mqtt.qos', '2'],
      ['mqtt.retain', 'true'],
      ['mqtt.dup', 'true'],
      ['mqtt.contentType', 'application/cbor'],
      ['mqtt.payloadFormat', '0'],
      ['mqtt.responseTopic', 'r'],
      ['mqtt.correlationData', 'AID/'],
      ['mqtt.expiresAt', '1700000060000'],
    ]);
  });

  it('from() loses no repeated user property, and none that looks like ours', () => {
    const pairs: [string, string][] = [
      ['a', '1'],
      ['a', '2'],
      ['mqtt.topic', 'spoofed'],
    ];
    const { options } = new PulsarRecordBuilder().from(context({ properties: { userProperties: pairs } })).build();
    expect(options.properties).toEqual({
      a: '2',
      'mqtt.userProperties': JSON.stringify(pairs),
      'mqtt.topic': 'plant/7/temp',
      'mqtt.qos': '1',
    });
  });

  it('from() keeps other data, also none', () => {
    expect(new PulsarRecordBuilder({ celsius: 21 }).from(context({})).build().data).toEqual({ celsius: 21 });
    expect(new PulsarRecordBuilder(null).from(context({})).build().data).toBeNull();
    expect(new PulsarRecordBuilder().setData('x').from(context({})).build().data).toBe('x');
  });

  it('is recognised across copies of the package', () => {
    expect(isPulsarRecord(new PulsarRecord(1))).toBe(true);
    expect(isPulsarRecord({ [Symbol.for('nestjs-mqtt-pulsar/pulsar-record')]: true, data: 1, options: {} })).toBe(true);
    for (const other of [null, undefined, 'x', {}, { data: 1, options: {} }]) expect(isPulsarRecord(other)).toBe(false);
  });
});

describe('payloads', () => {
  const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x80]);

  it('bytes stay bytes, whatever view they come in', () => {
    expect(toPayload(bytes)).toBe(bytes);
    const view = new Uint8Array(bytes).subarray(1);
    expect(toPayload(view)).toBe(view);
    expect(toPayload(new DataView(Uint8Array.of(1, 2, 3, 4).buffer, 1, 2))).toEqual(Uint8Array.of(2, 3));
    expect(toPayload(Uint8Array.of(1, 2).buffer)).toEqual(Uint8Array.of(1, 2));
  });

  it('text is UTF-8, nothing is no value, the rest is JSON without an envelope', () => {
    expect(toPayload('é')).toEqual(Buffer.from([0xc3, 0xa9]));
    expect(toPayload('')).toHaveLength(0);
    expect([toPayload(null), toPayload(undefined)]).toEqual([null, null]);
    expect(toPayload({ id: 1, data: [true] })!.toString()).toBe('{"id":1,"data":[true]}');
    expect([0, false].map((value) => toPayload(value)!.toString())).toEqual(['0', 'false']);
  });

  it.each([[10n], [() => 1], [Symbol('s')], [((a: Record<string, unknown>) => (a['a'] = a))({})]])(
    'refuses what JSON cannot say: %s',
    (data) => expect(() => toPayload(data)).toThrow(expect.objectContaining({ code: 'ERR_SERIALIZATION' })),
  );

  it('takes every form a serializer may return, and refuses others', () => {
    const properties = { schema: '1' };
    expect(serializedPayload(bytes)).toEqual({ payload: bytes, properties: undefined });
    expect(serializedPayload('a')).toEqual({ payload: Buffer.from('a'), properties: undefined });
    expect(serializedPayload(null)).toEqual({ payload: null, properties: undefined });
    expect(serializedPayload({ payload: 'a', properties })).toEqual({ payload: Buffer.from('a'), properties });
    expect(serializedPayload({ payload: null })).toEqual({ payload: null, properties: undefined });
    for (const wrong of [undefined, 1, {}, { payload: 1 }]) {
      expect(() => serializedPayload(wrong)).toThrow(expect.objectContaining({ code: 'ERR_SERIALIZATION' }));
    }
    expect(() => serializedPayload(Promise.resolve(bytes))).toThrow(/received a promise/);
  });

  it('metadata becomes text, undefined is left out', () => {
    expect(metadataProperties({ a: 'x', b: 1, c: true, d: { e: 1 }, f: undefined, g: null })).toEqual({
      a: 'x',
      b: '1',
      c: 'true',
      d: '{"e":1}',
    });
    expect(metadataProperties(undefined)).toBeUndefined();
  });
});
