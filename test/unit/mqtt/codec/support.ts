import { type Packet, parser } from 'mqtt-packet';
import { RemoteProtocolError } from '../../../../lib/errors.js';
import { FrameReader } from '../../../../lib/mqtt/codec/frame-reader.js';
import {
  type Properties,
  type ProtocolVersion,
  type PublishPacket,
  type ServerPacket,
} from '../../../../lib/mqtt/codec/packets.js';

/** A seeded generator (mulberry32): the same schedule in every run. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
  };
}

export const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** All packets in the bytes, given in chunks of `cut` bytes. */
export function readAll(bytes: Buffer, version: ProtocolVersion, cut = bytes.length): ServerPacket[] {
  const reader = new FrameReader(version, { maximumPacketSize: 1_000_000 });
  const packets: ServerPacket[] = [];
  for (let at = 0; at < bytes.length; at += cut) {
    reader.push(Buffer.from(bytes.subarray(at, at + cut)));
    for (let packet = reader.next(); packet !== undefined; packet = reader.next()) packets.push(packet);
  }
  return packets;
}

/** The reason code the bytes are refused with; 0 where they are read. Any other error than ours is thrown on. */
export function refusal(text: string, version: ProtocolVersion = 5): number {
  try {
    readAll(hex(text), version);
  } catch (error) {
    if (error instanceof RemoteProtocolError && error.cause === undefined) return error.reasonCode;
    throw error;
  }
  return 0;
}

/** What mqtt-packet reads: exactly one packet. */
export function theirs(bytes: Buffer, protocolVersion: ProtocolVersion): Packet {
  const reader = parser({ protocolVersion });
  const seen: Packet[] = [];
  reader.on('packet', (packet: Packet) => seen.push(packet));
  reader.on('error', (error: Error) => {
    throw error;
  });
  expect(reader.parse(bytes)).toBe(0);
  expect(seen).toHaveLength(1);
  return seen[0];
}

/** A frame: first byte, remaining length, body. */
export function frame(first: number, body: Buffer | readonly number[]): Buffer {
  const length: number[] = [];
  let rest = body.length;
  do {
    length.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    rest >>>= 7;
  } while (rest > 0);
  return Buffer.concat([Buffer.from([first, ...length]), Buffer.from(body as Buffer)]);
}

const TOPICS = ['a', 'devices/7/temp', 'größe/Ж', '/', 'x'.repeat(200), '𪛔', '\ufeffbom'];

export function randomPublish(next: () => number, version: ProtocolVersion): PublishPacket {
  const qos = Math.floor(next() * 3) as 0 | 1 | 2;
  const properties = version === 5 && next() < 0.6 ? randomPublishProperties(next) : undefined;
  return {
    type: 'publish',
    topic: TOPICS[Math.floor(next() * TOPICS.length)],
    payload: Buffer.alloc(Math.floor(next() * 300), Math.floor(next() * 256)),
    qos,
    retain: next() < 0.5,
    dup: qos > 0 && next() < 0.5,
    packetId: qos === 0 ? 0 : 1 + Math.floor(next() * 65_535),
    properties: properties && Object.keys(properties).length > 0 ? properties : undefined,
  };
}

function randomPublishProperties(next: () => number): Properties {
  return {
    ...(next() < 0.5 && { payloadFormatIndicator: 1 as const }),
    ...(next() < 0.5 && { messageExpiryInterval: Math.floor(next() * 2 ** 32) }),
    ...(next() < 0.5 && { topicAlias: 1 + Math.floor(next() * 65_535) }),
    ...(next() < 0.5 && { responseTopic: 'answers/größe' }),
    ...(next() < 0.5 && { correlationData: Buffer.from([0, 255, 1]) }),
    ...(next() < 0.5 && {
      userProperties: [
        ['', ''],
        ['k', 'ü'],
      ] as [string, string][],
    }),
    ...(next() < 0.5 && { contentType: 'application/json' }),
  };
}

/** Our packet as mqtt-packet names it. */
export const theirPublish = (packet: PublishPacket): Packet => ({
  cmd: 'publish',
  topic: packet.topic,
  payload: packet.payload,
  qos: packet.qos,
  retain: packet.retain,
  dup: packet.dup,
  ...(packet.qos > 0 && { messageId: packet.packetId }),
  ...(packet.properties && { properties: theirProperties(packet.properties) }),
});

/** In the same order: both write properties as they stand in the object. */
export function theirProperties(properties: Properties): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]: [string, unknown]) => {
      if (name === 'payloadFormatIndicator' || name.startsWith('request')) return [name, value === 1];
      if (name === 'userProperties') return [name, Object.fromEntries(value as [string, string][])];
      return [name, value];
    }),
  );
}
