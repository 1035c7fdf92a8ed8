import { type Sequence } from './sequence.js';

export interface Exception {
  readonly file: string;
  readonly name: string;
  /** 3.1.1 (4), 5, or both. */
  readonly versions: readonly number[];
  readonly then: Sequence['then'];
  /** Only if the line also looks like this: others of the same name may be right. */
  readonly when?: (sequence: Sequence) => boolean;
  /** The clause the line contradicts, and how. */
  readonly clause: string;
}

/**
 * Lines that ask for what the specification forbids: habits of the client that the data was written for. Some are of the
 * whole set, of which a file may hold a part.
 */
export const EXCEPTIONS: readonly Exception[] = [
  {
    file: 'CONNACK',
    name: '20 with maximum-packet-size (four byte integer)',
    versions: [5],
    then: 'alive',
    clause:
      'MQTT-3.2.2-15: the client MUST NOT send a packet larger than the Maximum Packet Size, here 1 byte; a PUBACK has 4',
  },
  {
    file: 'CONNACK',
    name: '20 long',
    versions: [5],
    then: 'alive',
    clause: 'MQTT 5 3.2.3 and 4.13.1: CONNACK has no payload, a byte behind its properties makes it malformed',
  },
  ...['20 with authentication-method (UTF-8 string)', '20 with authentication-data (binary data)'].map(
    (name): Exception => ({
      file: 'CONNACK',
      name,
      versions: [5],
      then: 'alive',
      clause:
        'MQTT-4.12.0-6: no Authentication Method in CONNACK for a client that has sent none, and no data without one',
    }),
  ),
  {
    file: 'PUBLISH',
    name: '38 QoS 0 Dup 1',
    versions: [4, 5],
    then: 'alive',
    clause:
      'MQTT-3.3.1-2: DUP MUST be 0 in all QoS 0 messages, and MQTT-4.8.0-1: a violation MUST close the connection',
  },
  {
    file: 'PUBLISH',
    name: '2*subscription-identifier=1 (variable byte integer)',
    versions: [5],
    then: 'closed',
    clause:
      'MQTT-3.3.4-4 and MQTT 5 3.3.4: a PUBLISH carries the identifiers of all matching subscriptions, identical ones too',
  },
  {
    file: 'PUBLISH',
    name: '30 [MQTT-3.1.0-1]',
    versions: [4, 5],
    then: 'closed',
    when: ({ steps }) => 'send' in steps[0] && steps[0].send.startsWith('20'),
    clause:
      'MQTT-3.1.0-1 and MQTT-3.2.0-1: the client has sent CONNECT first and gets CONNACK 0x00, then a valid PUBLISH; ' +
      'that the server did not wait for the CONNECT cannot be seen',
  },
  {
    file: 'UNSUBACK',
    name: 'B0',
    versions: [5],
    then: 'alive',
    when: ({ command }) => command === 'unsubscribe',
    clause: 'MQTT-3.11.3-1: one reason code for each filter of the UNSUBSCRIBE, here there is none',
  },
  {
    file: 'UNSUBACK',
    name: 'B0 reason code 0xFF unknown',
    versions: [5],
    then: 'alive',
    clause: 'MQTT-3.11.3-2: UNSUBACK MUST use one of the Unsubscribe Reason Codes',
  },
];

export function exceptionOf(sequence: Sequence): Exception | undefined {
  return EXCEPTIONS.find(
    (each) =>
      each.file === sequence.file &&
      each.name === sequence.name &&
      each.then === sequence.then &&
      each.versions.includes(sequence.version) &&
      (each.when === undefined || each.when(sequence)),
  );
}
