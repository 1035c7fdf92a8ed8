import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import { CONNECT_RETURN_CODES, reasonName } from '../../../../lib/mqtt/codec/reason-codes.js';
import { frame, readAll, refusal } from './support.js';

/** The tables of the specification, packet by packet, written out again. */
const SERVER = {
  connack: [0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8c, 0x90, 0x95, 0x97, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9f], // prettier-ignore
  puback: [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99],
  pubrec: [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99],
  pubrel: [0x00, 0x92],
  pubcomp: [0x00, 0x92],
  suback: [0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e, 0xa1, 0xa2],
  unsuback: [0x00, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91],
  disconnect: [0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2], // prettier-ignore
  auth: [0x00, 0x18],
} as const;
const CLIENT = {
  disconnect: [0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
  auth: [0x18, 0x19],
} as const;

const BYTES: Readonly<Record<keyof typeof SERVER, (code: number) => Buffer>> = {
  connack: (code) => frame(0x20, [0, code, 0]),
  puback: (code) => frame(0x40, [0, 1, code]),
  pubrec: (code) => frame(0x50, [0, 1, code]),
  pubrel: (code) => frame(0x62, [0, 1, code]),
  pubcomp: (code) => frame(0x70, [0, 1, code]),
  suback: (code) => frame(0x90, [0, 1, 0, code]),
  unsuback: (code) => frame(0xb0, [0, 1, 0, code]),
  disconnect: (code) => frame(0xe0, [code]),
  auth: (code) => frame(0xf0, [code, 0]),
};

it.each(Object.keys(SERVER) as (keyof typeof SERVER)[])('%s carries its own codes and no other', (type) => {
  for (let code = 0; code < 256; code += 1) {
    const bytes = BYTES[type](code);
    if ((SERVER[type] as readonly number[]).includes(code)) expect(readAll(bytes, 5)).toMatchObject([{ type }]);
    else expect(refusal(bytes.toString('hex'))).toBe(0x81);
  }
});

it.each(['disconnect', 'auth'] as const)('a client sends %s with its own codes and no other', (type) => {
  const properties = type === 'auth' ? { authenticationMethod: 'M' } : undefined;
  for (let reasonCode = 0; reasonCode < 256; reasonCode += 1) {
    const encode = () => encodePacket({ type, reasonCode, properties }, 5);
    if ((CLIENT[type] as readonly number[]).includes(reasonCode)) expect(encode().length).toBeGreaterThan(1);
    else expect(encode).toThrow('does not carry');
  }
});

it('3.1.1 return codes are read as the reason codes that mean the same, and no other is known', () => {
  expect(Object.values(CONNECT_RETURN_CODES).map((each) => each.reasonCode)).toEqual([0, 0x84, 0x85, 0x88, 0x86, 0x87]);
  for (let code = 0; code < 256; code += 1) {
    const bytes = frame(0x20, [0, code]);
    if (code <= 5) expect(readAll(bytes, 4)).toMatchObject([{ reasonCode: CONNECT_RETURN_CODES[code].reasonCode }]);
    else expect(refusal(bytes.toString('hex'), 4)).toBe(0x81);
  }
});

it('3.1.1 SUBACK grants 0, 1, 2 or fails with 0x80 [MQTT-3.9.3-2]', () => {
  for (let code = 0; code < 256; code += 1) {
    const bytes = frame(0x90, [0, 1, code]);
    if ([0, 1, 2, 0x80].includes(code)) expect(readAll(bytes, 4)).toMatchObject([{ reasonCodes: [code] }]);
    else expect(refusal(bytes.toString('hex'), 4)).toBe(0x81);
  }
});

it('names a code with its number, a foreign one too', () => {
  expect(reasonName(0x87)).toBe('Not authorized (0x87)');
  expect(reasonName(0)).toBe('Success (0x00)');
  expect(reasonName(0xff)).toBe('unknown reason code (0xff)');
});
