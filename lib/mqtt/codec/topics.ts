/** Topic names and filters on the wire [MQTT5 4.7], and the cache that spares most topics their decoding. */
import { LocalProtocolError, RemoteProtocolError } from '../../errors.js';
import { malformed, TOPIC_NAME_INVALID } from './malformed.js';
import { decodeString, encodedStringLength } from './strings.js';

// What the specifications let a receiver refuse in a string [MQTT5 1.5.4, MQTT 3.1.1 1.5.3]. Brokers refuse it in topics.
const NOT_IN_TOPICS = /[\p{Cc}\p{Noncharacter_Code_Point}]/u;

/** Not empty and without wildcards. */
export const isTopicName = (topic: string): boolean => topic.length > 0 && !topic.includes('+') && !topic.includes('#');

/** The byte length of a topic name that may leave. @throws LocalProtocolError */
export function encodedTopicLength(topic: string): number {
  let index = 0;
  while (index < topic.length && KINDS[topic.charCodeAt(index)] === 0) index += 1;
  if (index === topic.length && index > 0 && index <= 0xffff) return index;
  const length = encodedStringLength(topic, 'the topic');
  if (!isTopicName(topic)) throw new LocalProtocolError(`topic '${topic}' is empty or has a wildcard [MQTT-3.3.2-2]`);
  if (NOT_IN_TOPICS.test(topic))
    throw new LocalProtocolError('the topic holds a control character or a Unicode non-character [MQTT5 1.5.4]');
  return length;
}

/** `#` only as the last level, `+` only as a whole level; a shared filter names its group [MQTT5 4.7.1, 4.8.2]. */
export function isTopicFilter(filter: string): boolean {
  const levels = filter.split('/');
  if (levels[0] === '$share') {
    if (levels.length < 3 || !isTopicName(levels[1])) return false;
    levels.splice(0, 2);
  }
  if (levels.length === 1 && levels[0] === '') return false;
  return levels.every(
    (level, index) =>
      (level === '#' && index === levels.length - 1) || level === '+' || !(level.includes('+') || level.includes('#')),
  );
}

/** Topics repeat: the last ones are kept, so that most PUBLISH packets share one string whose hash is known already. */
export class TopicCache {
  readonly #topics: string[] = new Array<string>(SLOTS).fill('');

  /** The topic name in `buffer[start, end)`, which is not empty. */
  read(buffer: Buffer, start: number, end: number): string {
    const slot = slotOf(buffer, start, end);
    const known = this.#topics[slot];
    if (isSame(known, buffer, start, end)) return known;
    for (let at = start; at < end; at += 1) {
      if (KINDS[buffer[at]] !== 0) return readUnusual(buffer, start, end);
    }
    const topic = buffer.toString('latin1', start, end);
    if (topic.length <= LONGEST) this.#topics[slot] = topic;
    return topic;
  }
}

const SLOTS = 1024;
/** Longer topics are not kept: the cache stays under 256 KiB. */
const LONGEST = 256;

/** 0 for a byte that may stand in a topic name and is its own character; the rest takes the slow path. */
const KINDS = new Uint8Array(256).fill(1);
KINDS.fill(0, 0x20, 0x7f);
KINDS['+'.charCodeAt(0)] = 1;
KINDS['#'.charCodeAt(0)] = 1;

/** A hash over all bytes, four at a time: topics often differ in a few digits in the middle. */
function slotOf(buffer: Buffer, start: number, end: number): number {
  let hash = end - start;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const word = buffer[at] | (buffer[at + 1] << 8) | (buffer[at + 2] << 16) | (buffer[at + 3] << 24);
    hash = Math.imul(hash ^ word, 0x9e3779b1);
  }
  for (; at < end; at += 1) hash = Math.imul(hash ^ buffer[at], 0x9e3779b1);
  return (hash >>> 16) & (SLOTS - 1);
}

function isSame(known: string, buffer: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (known.length !== length) return false;
  for (let index = 0; index < length; index += 1) {
    if (known.charCodeAt(index) !== buffer[start + index]) return false;
  }
  return true;
}

function readUnusual(buffer: Buffer, start: number, end: number): string {
  const topic = decodeString(buffer, start, end, 'a topic');
  if (!isTopicName(topic)) {
    throw new RemoteProtocolError(
      'Protocol error by the server: PUBLISH topic with a wildcard [MQTT-3.3.2-2]',
      TOPIC_NAME_INVALID,
    );
  }
  if (NOT_IN_TOPICS.test(topic)) throw malformed('control or non-character in a topic [MQTT5 1.5.4]');
  return topic;
}
