/** MQTT 5 reason codes and the packets that may carry them [MQTT5 2.4], and the return codes of MQTT 3.1.1. */
import { type ServerPacket } from './packets.js';

type Carrier = 'connack' | 'puback' | 'pubrec' | 'pubrel' | 'pubcomp' | 'suback' | 'unsuback' | 'disconnect' | 'auth';

const CODES: Readonly<Record<number, readonly [name: string, carriers: readonly Carrier[]]>> = {
  0x00: ['Success', ['connack', 'puback', 'pubrec', 'pubrel', 'pubcomp', 'suback', 'unsuback', 'disconnect', 'auth']],
  0x01: ['Granted QoS 1', ['suback']],
  0x02: ['Granted QoS 2', ['suback']],
  0x04: ['Disconnect with Will Message', []],
  0x10: ['No matching subscribers', ['puback', 'pubrec']],
  0x11: ['No subscription existed', ['unsuback']],
  0x18: ['Continue authentication', ['auth']],
  0x19: ['Re-authenticate', []],
  0x80: ['Unspecified error', ['connack', 'puback', 'pubrec', 'suback', 'unsuback', 'disconnect']],
  0x81: ['Malformed Packet', ['connack', 'disconnect']],
  0x82: ['Protocol Error', ['connack', 'disconnect']],
  0x83: ['Implementation specific error', ['connack', 'puback', 'pubrec', 'suback', 'unsuback', 'disconnect']],
  0x84: ['Unsupported Protocol Version', ['connack']],
  0x85: ['Client Identifier not valid', ['connack']],
  0x86: ['Bad User Name or Password', ['connack']],
  0x87: ['Not authorized', ['connack', 'puback', 'pubrec', 'suback', 'unsuback', 'disconnect']],
  0x88: ['Server unavailable', ['connack']],
  0x89: ['Server busy', ['connack', 'disconnect']],
  0x8a: ['Banned', ['connack']],
  0x8b: ['Server shutting down', ['disconnect']],
  0x8c: ['Bad authentication method', ['connack', 'disconnect']],
  0x8d: ['Keep Alive timeout', ['disconnect']],
  0x8e: ['Session taken over', ['disconnect']],
  0x8f: ['Topic Filter invalid', ['suback', 'unsuback', 'disconnect']],
  0x90: ['Topic Name invalid', ['connack', 'puback', 'pubrec', 'disconnect']],
  0x91: ['Packet Identifier in use', ['puback', 'pubrec', 'suback', 'unsuback']],
  0x92: ['Packet Identifier not found', ['pubrel', 'pubcomp']],
  0x93: ['Receive Maximum exceeded', ['disconnect']],
  0x94: ['Topic Alias invalid', ['disconnect']],
  0x95: ['Packet too large', ['connack', 'disconnect']],
  0x96: ['Message rate too high', ['disconnect']],
  0x97: ['Quota exceeded', ['connack', 'puback', 'pubrec', 'suback', 'disconnect']],
  0x98: ['Administrative action', ['disconnect']],
  0x99: ['Payload format invalid', ['connack', 'puback', 'pubrec', 'disconnect']],
  0x9a: ['Retain not supported', ['connack', 'disconnect']],
  0x9b: ['QoS not supported', ['connack', 'disconnect']],
  0x9c: ['Use another server', ['connack', 'disconnect']],
  0x9d: ['Server moved', ['connack', 'disconnect']],
  0x9e: ['Shared Subscriptions not supported', ['suback', 'disconnect']],
  0x9f: ['Connection rate exceeded', ['connack', 'disconnect']],
  0xa0: ['Maximum connect time', ['disconnect']],
  0xa1: ['Subscription Identifiers not supported', ['suback', 'disconnect']],
  0xa2: ['Wildcard Subscriptions not supported', ['suback', 'disconnect']],
};

/** CONNACK return codes of MQTT 3.1.1 [MQTT 3.1.1, table 3.1] and the MQTT 5 codes that mean the same. */
export const CONNECT_RETURN_CODES: Readonly<Record<number, { readonly name: string; readonly reasonCode: number }>> = {
  0: { name: 'Connection Accepted', reasonCode: 0x00 },
  1: { name: 'unacceptable protocol version', reasonCode: 0x84 },
  2: { name: 'identifier rejected', reasonCode: 0x85 },
  3: { name: 'Server unavailable', reasonCode: 0x88 },
  4: { name: 'bad user name or password', reasonCode: 0x86 },
  5: { name: 'not authorized', reasonCode: 0x87 },
};

/** The specification's name of a reason code with its number, for errors and log lines: `Not authorized (0x87)`. */
export function reasonName(code: number): string {
  const name = CODES[code]?.[0] ?? 'unknown reason code';
  return `${name} (0x${code.toString(16).padStart(2, '0')})`;
}

const allowed = new Map<string, Uint8Array>();
for (const [code, [, carriers]] of Object.entries(CODES)) {
  for (const carrier of carriers) {
    let table = allowed.get(carrier);
    if (table === undefined) allowed.set(carrier, (table = new Uint8Array(256)));
    table[Number(code)] = 1;
  }
}

/** Whether a server may send `code` in a packet of this type. */
export function mayServerSend(type: ServerPacket['type'], code: number): boolean {
  return allowed.get(type)?.[code] === 1;
}
