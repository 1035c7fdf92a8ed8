import { LocalProtocolError, RemoteProtocolError } from '../../../../lib/errors.js';
import { type Properties } from '../../../../lib/mqtt/codec/packets.js';
import { decodeProperties, encodeProperties } from '../../../../lib/mqtt/codec/properties.js';
import {
  type ClientCarrier,
  PROPERTY_RULES,
  type PropertyRule,
  type ServerCarrier,
} from '../../../../lib/mqtt/codec/property-rules.js';
import { hex } from './support.js';

const SERVER: readonly ServerCarrier[] = [
  'connack', 'publish', 'puback', 'pubrec', 'pubrel', 'pubcomp', 'suback', 'unsuback', 'disconnect', 'auth',
]; // prettier-ignore
const CLIENT: readonly ClientCarrier[] = [
  'connect', 'will', 'publish', 'puback', 'pubrec', 'pubrel', 'pubcomp', 'subscribe', 'unsubscribe', 'disconnect', 'auth',
]; // prettier-ignore

/** A valid value of each kind, as bytes behind the identifier and as what it is read as. */
const VALID = {
  byte: ['01', 1],
  u16: ['0102', 0x0102],
  u32: ['01020304', 0x01020304],
  variable: ['8101', [129]],
  string: ['0002c3bc', 'ü'],
  binary: ['000200ff', Buffer.from([0, 255])],
  pair: ['00016b000176', [['k', 'v']]],
} as const;

const field = (rule: PropertyRule, value: string): Buffer => {
  const body = hex(rule.id.toString(16).padStart(2, '0') + value);
  return Buffer.concat([Buffer.from([body.length]), body]);
};
const decode = (bytes: Buffer, carrier: ServerCarrier): Properties | undefined => {
  const out = { next: 0 };
  const properties = decodeProperties(bytes, 0, bytes.length, carrier, out);
  expect(out.next).toBe(bytes.length);
  return properties;
};
const codeOf = (bytes: Buffer, carrier: ServerCarrier): number => {
  try {
    decode(bytes, carrier);
    return 0;
  } catch (error) {
    if (error instanceof RemoteProtocolError) return error.reasonCode;
    throw error;
  }
};
const homeOf = (rule: PropertyRule) => [...rule.server].find((each) => each !== '') as ServerCarrier | undefined;
const rows = PROPERTY_RULES.map((rule) => [rule.name, rule] as const);
const fromServer = rows.filter(([, rule]) => homeOf(rule) !== undefined);

it('the table is complete: 27 properties, the identifiers of the specification', () => {
  expect(PROPERTY_RULES.map((rule) => rule.id)).toEqual([
    0x01, 0x02, 0x03, 0x08, 0x09, 0x0b, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1c, 0x1f, 0x21, 0x22,
    0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a,
  ]);
});

describe.each(rows)('%s', (name, rule) => {
  const [bytes, value] = VALID[rule.kind];
  const text = name === 'responseTopic' ? ['000161', 'a'] : [bytes, value];

  it('is read in the packets of a server that carry it, and malformed in all others', () => {
    for (const carrier of SERVER) {
      const encoded = field(rule, text[0] as string);
      if (rule.server.has(carrier)) expect(decode(encoded, carrier)).toEqual({ [name]: text[1] });
      else expect(codeOf(encoded, carrier)).toBe(rule.client.has(carrier) ? 0x82 : 0x81);
    }
  });

  it('is written in the packets of a client that carry it, and refused in all others', () => {
    for (const carrier of CLIENT) {
      const encode = () => encodeProperties({ [name]: text[1] }, carrier);
      if (rule.client.has(carrier))
        expect(encode().toString('hex')).toBe(field(rule, text[0] as string).toString('hex'));
      else expect(encode).toThrow(`'${name}' is not allowed in ${carrier.toUpperCase()}`);
    }
  });
});

describe.each(fromServer)('%s from a server', (name, rule) => {
  const carrier = homeOf(rule) as ServerCarrier;
  const bytes = name === 'responseTopic' ? '000161' : VALID[rule.kind][0];

  it('stands once, unless it may be repeated', () => {
    const once = field(rule, bytes).subarray(1);
    const twice = Buffer.concat([Buffer.from([2 * once.length]), once, once]);
    expect(codeOf(twice, carrier)).toBe(rule.kind === 'pair' || rule.kind === 'variable' ? 0 : 0x82);
  });

  it('is malformed where it is cut off', () => {
    const whole = field(rule, bytes).subarray(1);
    for (let length = 1; length < whole.length; length += 1) {
      const cut = Buffer.concat([Buffer.from([length]), whole.subarray(0, length)]);
      expect(codeOf(cut, carrier)).toBe(0x81);
    }
  });
});

describe('ranges', () => {
  it.each(fromServer.filter(([, rule]) => rule.kind === 'byte'))('%s is 0 or 1', (name, rule) => {
    const carrier = homeOf(rule) as ServerCarrier;
    expect(decode(field(rule, '00'), carrier)).toEqual({ [name]: 0 });
    for (const value of ['02', '7f', 'ff']) expect(codeOf(field(rule, value), carrier)).toBe(0x82);
  });

  it.each([
    ['receiveMaximum', '0000', 0x82],
    ['receiveMaximum', 'ffff', 0],
    ['maximumPacketSize', '00000000', 0x82],
    ['maximumPacketSize', 'ffffffff', 0],
    ['topicAlias', '0000', 0x94],
    ['topicAlias', 'ffff', 0],
    ['topicAliasMaximum', '0000', 0],
    ['serverKeepAlive', '0000', 0],
    ['subscriptionIdentifiers', '00', 0x82],
    ['subscriptionIdentifiers', 'ffffff7f', 0],
    ['subscriptionIdentifiers', 'ffffffff01', 0x81],
    ['subscriptionIdentifiers', '8100', 0x81],
    ['messageExpiryInterval', '00000000', 0],
    ['messageExpiryInterval', 'ffffffff', 0],
    ['contentType', '0000', 0],
    ['contentType', '000100', 0x81],
    ['contentType', '0002c080', 0x81],
    ['contentType', '0003eda080', 0x81],
    ['contentType', '00010a', 0],
    ['responseTopic', '0000', 0x82],
    ['responseTopic', '000123', 0x82],
    ['responseTopic', '00012b', 0x82],
    ['reasonString', '0000', 0],
    ['userProperties', '00000000', 0],
    ['userProperties', '00010000016b', 0x81],
    ['userProperties', '00016b000100', 0x81],
    ['correlationData', '0000', 0],
    ['correlationData', '000100', 0],
  ])('%s = %s', (name, value, code) => {
    const rule = PROPERTY_RULES.find((each) => each.name === name) as PropertyRule;
    expect(codeOf(field(rule, value), homeOf(rule) as ServerCarrier)).toBe(code);
  });

  it('an unknown identifier, also in two bytes or not in its shortest form, is malformed', () => {
    for (const id of ['00', '04', '2b', '7f', '8101', '8100']) {
      const body = hex(`${id}01`);
      expect(codeOf(Buffer.concat([Buffer.from([body.length]), body]), 'publish')).toBe(0x81);
    }
  });
});

describe('the length field', () => {
  it.each(['', '01', '80', '8000', 'ffffffff01', '8080808001', '05 0101'])('%p is malformed', (bytes) =>
    expect(codeOf(hex(bytes), 'publish')).toBe(0x81),
  );
});

describe('user properties', () => {
  it('keep their order and every repetition, in and out', () => {
    const userProperties = [['a', '1'], ['b', ''], ['a', '3'], ['', 'x']] as [string, string][]; // prettier-ignore
    const bytes = encodeProperties({ userProperties }, 'publish');
    expect(bytes.toString('hex')).toBe('1a' + '26000161000131' + '260001620000' + '26000161000133' + '260000000178');
    expect(decode(bytes, 'publish')).toEqual({ userProperties });
  });

  it('named like members of Object.prototype are only strings', () => {
    const userProperties = [['__proto__', 'x'], ['constructor', 'y']] as [string, string][]; // prettier-ignore
    expect(decode(encodeProperties({ userProperties }, 'publish'), 'publish')).toEqual({ userProperties });
  });
});

describe('what may not leave', () => {
  it.each([
    ['a string of 65,536 bytes', { contentType: 'x'.repeat(65_536) }, '65,535'],
    ['U+0000', { contentType: 'a\0b' }, 'U+0000'],
    ['half a surrogate pair', { userProperties: [['k', '\udc00']] }, 'surrogate'],
    ['no string', { contentType: 7 }, 'must be a string'],
    ['no list', { userProperties: { a: 'b' } }, 'must be a list'],
    ['no pairs', { userProperties: ['ab'] }, 'pairs'],
    ['no bytes', { correlationData: 'text' }, '65,535 bytes'],
    ['65,536 bytes', { correlationData: Buffer.alloc(65_536) }, '65,535 bytes'],
    ['a fraction', { messageExpiryInterval: 1.5 }, 'integer from 0'],
    ['a negative number', { messageExpiryInterval: -1 }, 'integer from 0'],
    ['2^32', { messageExpiryInterval: 2 ** 32 }, '4294967295'],
    ['payload format 2', { payloadFormatIndicator: 2 }, 'from 0 to 1'],
    ['an unknown name', { colour: 'red' }, "'colour' is not allowed"],
  ])('%s', (_name, properties, text) => {
    const encode = () => encodeProperties(properties as Properties, 'publish');
    expect(encode).toThrow(LocalProtocolError);
    expect(encode).toThrow(text);
  });

  it('two subscription identifiers in SUBSCRIBE', () => {
    expect(() => encodeProperties({ subscriptionIdentifiers: [1, 2] }, 'subscribe')).toThrow('takes one');
    expect(encodeProperties({ subscriptionIdentifiers: [268_435_455] }, 'subscribe').toString('hex')).toBe(
      '050bffffff7f',
    );
  });

  it('an undefined property is none', () => {
    expect(encodeProperties({ contentType: undefined }, 'publish').toString('hex')).toBe('00');
    expect(encodeProperties(undefined, 'publish').toString('hex')).toBe('00');
  });
});
