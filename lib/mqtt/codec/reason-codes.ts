/** MQTT 5 reason codes and the packets that may carry them [MQTT5 2.4], and the return codes of MQTT 3.1.1. */
import { type AckPacket, type ServerPacket } from './packets.js';

type Carrier = 'connack' | 'puback' | 'pubrec' | 'pubrel' | 'pubcomp' | 'suback' | 'unsuback' | 'disconnect' | 'auth';

export interface ReasonCode {
  /** The specification's name. */
  readonly name: string;
  /** Packets of a server that may carry it; the four acknowledgements of a client carry the same. */
  readonly server: readonly Carrier[];
  /** Packets of a client that may carry it, beside the acknowledgements. */
  readonly client: readonly ('disconnect' | 'auth')[];
}

const CONNECTION: readonly Carrier[] = ['connack', 'disconnect'];
const PUBLISHING: readonly Carrier[] = ['puback', 'pubrec'];
const REFUSAL: readonly Carrier[] = [...CONNECTION, ...PUBLISHING, 'suback', 'unsuback'];
const FINISHING: readonly Carrier[] = ['pubrel', 'pubcomp'];

const code = (
  name: string,
  server: readonly Carrier[],
  client: readonly ('disconnect' | 'auth')[] = [],
): ReasonCode => ({ name, server, client });

/** Code -> name and carriers [MQTT5 table 2-6, and per packet tables 3-1, 3-4 to 3-7, 3-8, 3-9, 3-13, 3-15]. */
export const REASON_CODES: Readonly<Record<number, ReasonCode>> = {
  0x00: code('Success', [...REFUSAL, ...FINISHING, 'auth'], ['disconnect']),
  0x01: code('Granted QoS 1', ['suback']),
  0x02: code('Granted QoS 2', ['suback']),
  0x04: code('Disconnect with Will Message', [], ['disconnect']),
  0x10: code('No matching subscribers', PUBLISHING),
  0x11: code('No subscription existed', ['unsuback']),
  0x18: code('Continue authentication', ['auth'], ['auth']),
  0x19: code('Re-authenticate', [], ['auth']),
  0x80: code('Unspecified error', REFUSAL, ['disconnect']),
  0x81: code('Malformed Packet', CONNECTION, ['disconnect']),
  0x82: code('Protocol Error', CONNECTION, ['disconnect']),
  0x83: code('Implementation specific error', REFUSAL, ['disconnect']),
  0x84: code('Unsupported Protocol Version', ['connack']),
  0x85: code('Client Identifier not valid', ['connack']),
  0x86: code('Bad User Name or Password', ['connack']),
  0x87: code('Not authorized', REFUSAL),
  0x88: code('Server unavailable', ['connack']),
  0x89: code('Server busy', CONNECTION),
  0x8a: code('Banned', ['connack']),
  0x8b: code('Server shutting down', ['disconnect']),
  0x8c: code('Bad authentication method', CONNECTION),
  0x8d: code('Keep Alive timeout', ['disconnect']),
  0x8e: code('Session taken over', ['disconnect']),
  0x8f: code('Topic Filter invalid', ['suback', 'unsuback', 'disconnect']),
  0x90: code('Topic Name invalid', [...CONNECTION, ...PUBLISHING], ['disconnect']),
  0x91: code('Packet Identifier in use', [...PUBLISHING, 'suback', 'unsuback']),
  0x92: code('Packet Identifier not found', FINISHING),
  0x93: code('Receive Maximum exceeded', ['disconnect'], ['disconnect']),
  0x94: code('Topic Alias invalid', ['disconnect'], ['disconnect']),
  0x95: code('Packet too large', CONNECTION, ['disconnect']),
  0x96: code('Message rate too high', ['disconnect'], ['disconnect']),
  0x97: code('Quota exceeded', [...CONNECTION, ...PUBLISHING, 'suback'], ['disconnect']),
  0x98: code('Administrative action', ['disconnect'], ['disconnect']),
  0x99: code('Payload format invalid', [...CONNECTION, ...PUBLISHING], ['disconnect']),
  0x9a: code('Retain not supported', CONNECTION),
  0x9b: code('QoS not supported', CONNECTION),
  0x9c: code('Use another server', CONNECTION),
  0x9d: code('Server moved', CONNECTION),
  0x9e: code('Shared Subscriptions not supported', ['suback', 'disconnect']),
  0x9f: code('Connection rate exceeded', CONNECTION),
  0xa0: code('Maximum connect time', ['disconnect']),
  0xa1: code('Subscription Identifiers not supported', ['suback', 'disconnect']),
  0xa2: code('Wildcard Subscriptions not supported', ['suback', 'disconnect']),
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
export function reasonName(value: number): string {
  const name = REASON_CODES[value]?.name ?? 'unknown reason code';
  return `${name} (0x${value.toString(16).padStart(2, '0')})`;
}

const tables = { server: new Map<string, Uint8Array>(), client: new Map<string, Uint8Array>() };
for (const [value, entry] of Object.entries(REASON_CODES)) {
  for (const side of ['server', 'client'] as const) {
    for (const carrier of entry[side]) {
      let table = tables[side].get(carrier);
      if (table === undefined) tables[side].set(carrier, (table = new Uint8Array(256)));
      table[Number(value)] = 1;
    }
  }
}
for (const type of ['puback', 'pubrec', 'pubrel', 'pubcomp'] as const) {
  tables.client.set(type, tables.server.get(type) as Uint8Array);
}

/** Whether a server may send this reason code in a packet of this type. */
export function mayServerSend(type: ServerPacket['type'], value: number): boolean {
  return tables.server.get(type)?.[value] === 1;
}

/** Whether a client may send this reason code in a packet of this type. */
export function mayClientSend(type: AckPacket['type'] | 'disconnect' | 'auth', value: number): boolean {
  return tables.client.get(type)?.[value] === 1;
}
