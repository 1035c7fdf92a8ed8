import { type Sequence } from './sequence.js';

const PUBLISH = 3;
const PUBREL = 6;
const PUBCOMP = 7;
const BY_TYPE = [PUBLISH, 8, 10];
const PACKET_IDENTIFIER_NOT_FOUND = 0x92;

/**
 * Whether the client's packet is what the step expects, where the specification leaves a choice: PUBLISH, SUBSCRIBE and
 * UNSUBSCRIBE by type, acknowledgements in their short or long form, DISCONNECT by type unless its reason is asked for.
 */
export function matches(packet: Buffer, expected: Buffer, sequence: Sequence, exactDisconnect: boolean): boolean {
  const type = packet[0] >> 4;
  if (type !== expected[0] >> 4) return false;
  if (BY_TYPE.includes(type)) return true;
  if (type === 14) return !exactDisconnect || reasonOf(packet, 2) === reasonOf(expected, 2);
  if (type < 4 || type > 7) return packet.equals(expected);
  if (packet[0] !== expected[0] || packet.readUInt16BE(2) !== expected.readUInt16BE(2)) return false;
  const reason = reasonOf(packet, 4);
  const wanted = reasonOf(expected, 4);
  return reason === wanted || (wanted === 0 && reason === PACKET_IDENTIFIER_NOT_FOUND && mayBeUnknown(type, sequence));
}

const reasonOf = (packet: Buffer, at: number): number => (packet.length > at ? packet[at] : 0);

/** PUBREL for a PUBREC that answers no publish of ours, PUBCOMP for a PUBREL without a PUBLISH of QoS 2. */
function mayBeUnknown(type: number, sequence: Sequence): boolean {
  if (type === PUBREL) return sequence.command !== 'publish-2';
  const sent = sequence.steps.map((step) => ('send' in step ? Number.parseInt(step.send.slice(0, 2), 16) : 0));
  return type === PUBCOMP && !sent.some((first) => first >> 4 === PUBLISH && (first & 6) === 4);
}
